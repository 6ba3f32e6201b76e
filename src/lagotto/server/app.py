"""The ASGI application: routes, the way of a request through them, start and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from lagotto.server import agents, page
from lagotto.server.concurrency_limit import noticing_signals
from lagotto.server.embedding import ServedBase
from lagotto.server.endpoints import OPERATIONS, STATUS_OPERATIONS
from lagotto.server.middleware import BrowserGuard, CancelOnDisconnect, RequestLog
from lagotto.server.operations import JSON, openapi
from lagotto.server.problems import HANDLERS
from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState


def create_app(settings: ServerSettings, base: ServedBase | None = None) -> Starlette:
    """The application; it opens the base of the settings when it starts, or uses `base`."""
    operations = STATUS_OPERATIONS if settings.only_mcp else OPERATIONS
    document = to_json(openapi(operations))

    async def describe(_: HttpRequest) -> Response:
        return Response(document, media_type=JSON)

    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
        expose_headers=["X-Request-Id", "Retry-After"],
    )
    return Starlette(
        routes=[
            *(Route(each.path, each.__call__, methods=[each.method]) for each in operations),
            Route("/openapi.json", describe),
            *agents.routes(),
            *([] if settings.only_mcp else page.routes()),
        ],
        middleware=[
            Middleware(RequestLog),
            *([cors] if settings.cors_origins else []),
            Middleware(BrowserGuard, allowed=settings.cors_origins, views=page.VIEWS),
            Middleware(CancelOnDisconnect),
        ],
        exception_handlers=HANDLERS,
        lifespan=partial(_running, settings, base),
    )


@asynccontextmanager
async def _running(
    settings: ServerSettings,
    base: ServedBase | None,
    app: Starlette,
) -> AsyncIterator[dict[str, ServerState]]:
    """Open the base, and close it when the last request has been answered."""
    opened = base or ServedBase(
        settings.location,
        embedder=settings.embedder,
        prefs=settings.preset,
        batch_queries=settings.batching,
    )
    async with opened:
        await opened.prepare()
        state = app.state.server = ServerState(opened, settings)
        working = asyncio.create_task(state.worker.run())
        with noticing_signals(state.stopping):
            yield {"server": state}
        state.stopping.set()
        working.cancel()
        await asyncio.wait([working])
