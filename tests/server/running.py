"""A real server in a thread of the test, on a port of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvicorn

from lagotto.documents import Document
from lagotto.embedders import Embedder
from lagotto.server.app import create_app
from lagotto.server.embedding import ServedBase
from lagotto.server.serve import LimitedH11Protocol
from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState
from lagotto.testing.hash_embedder import HashEmbedder

DOCUMENTS = [
    Document(
        id="dog",
        title="Lagotto",
        text="A water dog from Romagna that finds truffles.",
        metadata={"topic": "dogs", "year": 2020},
    ),
    Document(
        id="oak",
        title="Oaks",
        text="Truffles grow on the roots of oak and hazel.",
        metadata={"topic": "trees", "year": 2021},
    ),
    Document(id="error/4012", title="Errors", text="ERR_4012: the base is busy. Try again later."),
    Document(id="secret", collection="b", title="Plan", text="The truffle plan of tenant b."),
]


class Running:
    """A server that answers at `url`; `state` is that of its application."""

    def __init__(self, server: uvicorn.Server, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._app = app
        self.loop = loop
        port = server.servers[0].sockets[0].getsockname()[1]
        self.port: int = port
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=120)

    @property
    def state(self) -> ServerState:
        """The state of the application."""
        state: ServerState = self._app.state.server
        return state

    def call(self, coroutine: Any) -> Any:
        """The result of a coroutine, run in the loop of the server."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def post(self, path: str, body: object, *, key: str | None = None) -> httpx.Response:
        """The answer to a body of JSON."""
        return self.http.post(path, json=body, headers=bearer(key))

    def get(self, path: str, *, key: str | None = None, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params, headers=bearer(key))

    def key(self, *scopes: str, name: str = "", **options: Any) -> str:
        """The secret of a new key with these scopes, by default `read`."""
        created = self.state.keys.create(name or uuid4().hex, scopes=scopes or ["read"], **options)
        secret: str = self.call(created)[0]
        return secret


def bearer(key: str | None) -> dict[str, str]:
    """The headers of a request with a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


@contextmanager
def serving(
    location: str | Path = ":memory:",
    *,
    embedder: Embedder | None = None,
    chunker: str | None = None,
    documents: list[Document] | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """A server on a base with `documents`."""
    started = threading.Event()
    found: dict[str, Any] = {}

    async def run() -> None:
        base = ServedBase(
            location, embedder=embedder or HashEmbedder(), chunker=chunker, batch_queries=True
        )
        async with base:
            await base.add(*(DOCUMENTS if documents is None else documents))
            app = create_app(ServerSettings(location=str(location), **settings), base)
            config = uvicorn.Config(
                app, port=0, log_level="warning", http=LimitedH11Protocol, lifespan="on",
                timeout_graceful_shutdown=2,
            )  # fmt: skip
            server = found["server"] = uvicorn.Server(config)
            server.capture_signals = _no_signals  # type: ignore[method-assign]
            found["app"], found["loop"] = app, asyncio.get_running_loop()
            serving = asyncio.create_task(server.serve())
            while not server.started and not serving.done():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            started.set()
            await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(120)
    running = Running(found["server"], found["app"], found["loop"])
    try:
        yield running
    finally:
        running.http.close()
        found["loop"].call_soon_threadsafe(running.state.stopping.set)
        found["server"].should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def wait_until(reached: Callable[[], bool], *, seconds: float = 60) -> None:
    """Return once something is so; an error if it takes longer than any machine should need."""
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.005)


@contextmanager
def _no_signals() -> Iterator[None]:
    yield
