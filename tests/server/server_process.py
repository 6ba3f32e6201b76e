"""A real server in a process of its own, which tests can kill."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.child_process import child

PROGRAM = """
import asyncio, sys
from lagotto.server.settings import ServerSettings
from lagotto.server.app import create_app
from lagotto.server.served_base import ServedBase
from lagotto.testing.hash_embedder import HashEmbedder
import uvicorn

class WaitingEmbedder(HashEmbedder):
    async def embed(self, texts, *, role):
        await asyncio.sleep({"wait": 1.0, "wait for long": 600.0}.get(texts[0], 0.0))
        return await super().embed(texts, role=role)

base = ServedBase(sys.argv[1], embedder=WaitingEmbedder(), chunker="recursive:60/0")
app = create_app(ServerSettings(location=sys.argv[1], lease=1.0), base)
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


@contextmanager
def server_process(location: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A server on the base at `location`, killed at the end; the query `wait` takes it a second."""
    port = free_port()
    with (
        child(PROGRAM, location, port) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http,
    ):
        wait_for(http)
        yield http, process


def wait_for(http: httpx.Client) -> None:
    """Return when the server answers."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if http.get("/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.03)
    raise AssertionError("the server does not answer")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
