"""What is served beside the operations: pages, and applications of other protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from starlette.routing import BaseRoute

from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState


@asynccontextmanager
async def _nothing(_: ServerState) -> AsyncIterator[None]:
    yield


@dataclass(frozen=True, slots=True)
class Mounted:
    """Routes, and what runs from the first request to the last.

    Requests go through the middleware of the server: they have an id, and are logged, counted and
    cancelled like any other. `lagotto.server.state.state_of(request)` is the way to the base;
    `authenticate` of that state says who is calling, and `seen_by` shows what they may see.
    `scope["operation"]` is the name that metrics and the log have for a request. An application
    with exception handlers of its own takes those of `lagotto.server.error_handlers`.
    """

    routes: Sequence[BaseRoute]
    running: Callable[[ServerState], AbstractAsyncContextManager[None]] = _nothing


Mounting = Callable[[ServerSettings], Mounted | None]
"""Makes it for one server; None if the server does not have it."""
