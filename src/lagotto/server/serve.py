"""Running the server: which addresses it may listen at, processes, time limits of connections."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from lagotto._internal.memory import limit_arenas
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.errors import ConfigError
from lagotto.server.access import ApiKeys
from lagotto.server.app import create_app
from lagotto.server.problems import LOGGER
from lagotto.server.settings import ServerSettings
from lagotto.server.state import is_loopback

VARIABLE = "LAGOTTO_SERVER_SETTINGS"
"""How the settings reach the processes of a server with several of them."""

STARTING = 60
"""Seconds in which a new process has to report; on a busy machine its imports take a while, and one
that is late is killed and started again."""

SWITCH_INTERVAL = 0.0005
"""Seconds that a thread runs Python while others wait to, ten times less than usual: the event loop
gives way at each read and write, and waited for every thread that was at work each time. Under 8
clients that highlight a thousand hits, /healthz took 70 ms and takes 21 (`benchmarks attacks`)."""

COLLECTIONS = (700, 10, 1_000)
"""Thresholds of the garbage collector, the last one a hundred times the usual: a look through all
objects stops every thread, for 60 to 230 ms when 8 clients have a thousand hits highlighted, and
came once a second (`benchmarks attacks`). What is part of no cycle is freed without it."""

HEADER_TIMEOUT = 10.0
"""Seconds for the first line and the headers of a request."""

UNREAD_TIMEOUT, UNREAD_RATE = 10.0, 10_000
"""Seconds after which a connection is closed whose client reads less than so many bytes a second of
what it has requested."""

MOST_UNREAD = 100_000_000
"""Bytes that clients have not read, of all connections: beyond, the connection that has waited for
its client the longest is closed."""


def serve(settings: ServerSettings, *, announce: Callable[[str], object] | None = None) -> None:
    """Run the server until it is stopped; `announce` is called with its address.

    What would prevent it from answering is an error before that: a base or a model that can't be
    used, an address that is taken. ConfigError without an active key, unless only this machine can
    reach it.
    """
    limit_arenas()
    asyncio.run(check_base(settings))
    os.environ[VARIABLE] = settings.model_dump_json()
    config = uvicorn.Config(
        "lagotto.server.serve:app_of_environment",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=LimitedH11Protocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=settings.shutdown_timeout,
        timeout_worker_healthcheck=STARTING,
        proxy_headers=False,
    )
    with listening(settings) as bound:
        if announce is not None:
            host, port = bound.getsockname()[:2]
            announce(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[bound])
            return
        from uvicorn.supervisors import Multiprocess

        Multiprocess(config, sockets=[bound]).run()


def listening(settings: ServerSettings) -> socket.socket:
    """The socket of the server, which its workers share; ConfigError if its address can't be used.

    Its connections must not wait for more to send (40 ms an answer): asyncio sees to that only for
    sockets that it has made itself.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as exc:
        bound.close()
        raise ConfigError(
            f"can't listen at {settings.host}, port {settings.port}: {exc.strerror}; choose "
            "another with --host and --port"
        ) from exc
    bound.set_inheritable(True)
    return bound


async def check_base(settings: ServerSettings) -> None:
    """Open the base as the server will; ConfigError if others could reach it without keys."""
    base = AsyncKnowledgeBase(settings.location, embedder=settings.embedder, prefs=settings.preset)
    async with base:
        await base.prepare()
        protected = await ApiKeys(base.store.keyed_values).any_active()
    if not protected and not is_loopback(settings.host):
        raise ConfigError(
            f"{settings.host} can be reached from other machines, and this base has no active key; "
            f"create one with `lagotto --kb {base.location} keys create --name NAME`, or "
            "leave --host out"
        )


def app_of_environment() -> Starlette:
    """The application with the settings that `serve` has put into the environment."""
    limit_arenas()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*COLLECTIONS)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    app = create_app(ServerSettings.model_validate_json(os.environ[VARIABLE]))
    running = app.router.lifespan_context

    @asynccontextmanager
    async def settled(app: Starlette) -> AsyncIterator[Any]:
        # Modules and models, out of the way of the garbage collector, are 100,000 objects. Nothing
        # is answered while they are looked through: for 70 ms, each time that large requests have
        # made a quarter as many.
        async with running(app) as state:
            gc.collect()
            gc.freeze()
            yield state

    app.router.lifespan_context = settled
    return app


class LimitedH11Protocol(H11Protocol):
    """Closes connections whose next request does not arrive in time, byte by byte for instance.

    And those whose client does not read the answer: until then it is in memory.
    """

    _waiting: asyncio.TimerHandle | None = None
    _unread_size = 0
    _unread: ClassVar[dict[LimitedH11Protocol, asyncio.TimerHandle]] = {}
    """Connections with an answer that waits for its client, the longest wait first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_between_requests():
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._forget_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Its size now: as it is read, the buffer keeps its memory for long.
        self._unread_size = self.transport.get_write_buffer_size()
        self._expect_reading()
        while len(self._unread) > 1 and sum(e._unread_size for e in self._unread) > MOST_UNREAD:
            oldest = next(iter(self._unread))
            oldest._forget_unread()
            oldest.transport.abort()

    def resume_writing(self) -> None:
        self._forget_unread()
        super().resume_writing()

    def _expect_reading(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._unread[self] = self.loop.call_later(UNREAD_TIMEOUT, self._check_reading, size)

    def _check_reading(self, before: int) -> None:
        read = before - self.transport.get_write_buffer_size()
        if read < UNREAD_TIMEOUT * UNREAD_RATE:
            self.transport.abort()
        else:
            self._expect_reading()

    def _forget_unread(self) -> None:
        if timer := self._unread.pop(self, None):
            timer.cancel()

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_TIMEOUT, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_between_requests() and not self.transport.is_closing():
            self.transport.close()
