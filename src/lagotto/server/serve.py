"""Running the server: which addresses it may listen at, processes, time limits of connections."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from lagotto.errors import ConfigError
from lagotto.server.app import create_app
from lagotto.server.keys import ApiKeys
from lagotto.server.request_log import LOGGER
from lagotto.server.settings import ServerSettings
from lagotto.server.state import is_loopback
from lagotto.stores.registry import create_store

VARIABLE = "LAGOTTO_SERVER_SETTINGS"
"""How the settings reach the processes of a server with several of them."""

HEADER_TIMEOUT = 10.0
"""Seconds for the first line and the headers of a request."""


def serve(settings: ServerSettings) -> None:
    """Run the server until it is told to stop.

    ConfigError without keys, unless only this machine can reach it.
    """
    asyncio.run(check_exposure(settings))
    os.environ[VARIABLE] = settings.model_dump_json()
    if settings.workers == 1:
        config = uvicorn.Config(app_of_environment, **_options(settings))
    else:
        config = uvicorn.Config("lagotto.server.serve:app_of_environment", **_options(settings))
    server = uvicorn.Server(config)
    if settings.workers == 1:
        server.run()
        return
    from uvicorn.supervisors import Multiprocess

    Multiprocess(config, sockets=[config.bind_socket()]).run()


def serve_environment() -> None:
    """Run the server with the settings in the environment."""
    serve(ServerSettings.model_validate_json(os.environ[VARIABLE]))


async def check_exposure(settings: ServerSettings) -> None:
    """Raise ConfigError if others could reach a base without keys; the base is opened for that."""
    store = create_store(settings.location)
    await store.open()
    try:
        protected = await ApiKeys(store.keyed_values).exist()
    finally:
        await store.close()
    if not protected and not is_loopback(settings.host):
        raise ConfigError(
            f"{settings.host} can be reached from other machines, and this base has no keys; "
            f"create one with `lagotto --kb {store.location} keys create --name NAME`, or leave "
            "--host out"
        )


def app_of_environment() -> Starlette:
    """The application with the settings that `serve` has put into the environment."""
    _log_to_stderr()
    return create_app(ServerSettings.model_validate(json.loads(os.environ[VARIABLE])))


class LimitedH11Protocol(H11Protocol):
    """Closes connections whose next request does not arrive in time, byte by byte for instance."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a request is there, and start when a new one begins."""
        super().data_received(data)
        if self._is_between_requests():
            self._wait()
        elif self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_TIMEOUT, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_between_requests() and not self.transport.is_closing():
            self.transport.close()


def _options(settings: ServerSettings) -> dict[str, Any]:
    return {
        "factory": True,
        "host": settings.host,
        "port": settings.port,
        "workers": settings.workers,
        "http": LimitedH11Protocol,
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "server_header": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": settings.shutdown_timeout,
        "proxy_headers": False,
    }


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
