"""A real server in a process of its own, which tests can kill."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.child_process import child, said

PROGRAM = """
import asyncio, sys
from lagotto.server.settings import ServerSettings
from lagotto.server.app import create_app
from lagotto.server.embedding import ServedBase
from lagotto.testing.hash_embedder import HashEmbedder
import uvicorn

class WaitingEmbedder(HashEmbedder):
    async def embed(self, texts, *, role):
        if texts[0] == "wait for the end":
            await app.state.server.stopping.wait()
        elif texts[0] == "wait for ever":
            await asyncio.Event().wait()
        return await super().embed(texts, role=role)

class AnnouncedServer(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

base = ServedBase(sys.argv[1], embedder=WaitingEmbedder(), chunker="recursive:60/0")
app = create_app(ServerSettings(location=sys.argv[1], lease=1.0), base)
AnnouncedServer(uvicorn.Config(app, port=0, log_level="warning")).run()
"""


@contextmanager
def server_process(location: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A server on the base at `location`, killed at the end.

    It answers the query `wait for the end` when it is told to end, and `wait for ever` never.
    """
    with child(PROGRAM, location) as process:
        url = f"http://127.0.0.1:{int(said(process))}"
        with httpx.Client(base_url=url, timeout=120) as http:
            yield http, process


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
