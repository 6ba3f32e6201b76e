"""The ASGI application: routes, the way of a request through them, start and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lagotto._internal.concurrency import in_thread
from lagotto.errors import LagottoError
from lagotto.mcp.tools import Agent
from lagotto.request_context import RequestContext
from lagotto.server import page
from lagotto.server.access import Access
from lagotto.server.concurrency_limit import noticing_signals
from lagotto.server.embedding import ServedBase
from lagotto.server.endpoints import OPERATIONS, STATUS_OPERATIONS
from lagotto.server.middleware import BrowserGuard, CancelOnDisconnect, RequestLog
from lagotto.server.operations import JSON, openapi
from lagotto.server.problems import HANDLERS, Problem, problem_of
from lagotto.server.request_body import limited
from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState, client_of
from lagotto.server.tasks import do_tasks


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
            Route("/mcp", Mcp(), methods=["POST"]),
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
    settings: ServerSettings, base: ServedBase | None, app: Starlette
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
        # A digest of the whole vocabulary, in which the first pack would hold up all others.
        await in_thread(lambda: opened.embedder.tokenizer.id)
        state = app.state.server = ServerState(opened, settings)
        working = asyncio.create_task(do_tasks(state.tasks, opened))
        with noticing_signals(state.stopping):
            yield {"server": state}
        state.stopping.set()
        working.cancel()
        await asyncio.wait([working])


MISSING = "MCP needs the package mcp, which is not installed here; run `pip install 'lagotto[mcp]'`"


class Mcp:
    """MCP at /mcp, for the holder of a key; the SDK answers, imported when a client comes.

    Nothing is kept between two requests, so any process may answer. That is how the newest protocol
    revision works, and the earlier ones allow it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["operation"] = "mcp"
        http = HttpRequest(scope, receive)
        state: ServerState = http.state.server
        settings = state.settings
        access = await state.authenticate(http)
        access.check("read")
        if find_spec("mcp") is None:
            raise Problem("NotFound", MISSING)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from lagotto.mcp.server import create_server

        manager = StreamableHTTPSessionManager(
            create_server(KeyAgent(http, access)),
            json_response=True,
            stateless=True,
            max_request_body_size=settings.max_body,
        )
        body = limited(http, most=settings.max_body, timeout=settings.body_timeout)
        async with manager.run():
            await manager.handle_request(scope, body.receive, send)


class KeyAgent(Agent):
    """The holder of a key, within the limits of the server."""

    def __init__(self, http: HttpRequest, access: Access) -> None:
        state: ServerState = http.state.server
        if not state.settings.mcp_write:
            scopes = tuple(scope for scope in access.scopes if scope != "write")
            access = replace(access, scopes=scopes)
        base, timeout = state.scoped_to(access, http), state.settings.timeout
        super().__init__(base, writes="write" in access.scopes, timeout=timeout, grace=1.0)
        self._slot = partial(state.gate.slot, client_of(http, access))
        self._trace_id = http.scope["request_id"]

    def context(self) -> RequestContext:
        return replace(super().context(), trace_id=self._trace_id)

    @asynccontextmanager
    async def admission(self) -> AsyncIterator[None]:
        """Work among as many others as the server works on at once, until its timeout."""
        async with self._slot(), super().admission():
            yield

    def message(self, error: Exception) -> str | None:
        return problem_of(error).detail if isinstance(error, LagottoError | Problem) else None
