"""The ASGI application: routes, the way of a request through them, start and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from lagotto.errors import LagottoError
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.server.batching import ServedBase
from lagotto.server.endpoints import documents, events, models, search, status, tasks
from lagotto.server.openapi import openapi
from lagotto.server.operations import JSON, Operation
from lagotto.server.problems import MEDIA_TYPE, Problem, problem_of
from lagotto.server.receiving import CancelOnDisconnect
from lagotto.server.request_log import RequestLog
from lagotto.server.settings import ServerSettings
from lagotto.server.shutdown import noticing_signals
from lagotto.server.state import ServerState

OPERATIONS: tuple[Operation, ...] = (
    *search.OPERATIONS,
    *events.OPERATIONS,
    *tasks.OPERATIONS,
    *documents.OPERATIONS,
    *models.OPERATIONS,
    *status.OPERATIONS,
)


def create_app(settings: ServerSettings, base: AsyncKnowledgeBase | None = None) -> Starlette:
    """The application; it opens the base of the settings when it starts, or uses `base`."""
    document = to_json(openapi(OPERATIONS))

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
            *(
                Route(operation.path, partial(_answer, operation), methods=[operation.method])
                for operation in OPERATIONS
            ),
            Route("/openapi.json", describe),
        ],
        middleware=[
            Middleware(RequestLog),
            *([cors] if settings.cors_origins else []),
            Middleware(CancelOnDisconnect),
        ],
        exception_handlers={HTTPException: _http_problem, Problem: _problem, LagottoError: _error},
        lifespan=partial(_running, settings, base),
    )


@asynccontextmanager
async def _running(
    settings: ServerSettings, base: AsyncKnowledgeBase | None, app: Starlette
) -> AsyncIterator[None]:
    """Open the base, and close it when the last request has been answered."""
    kind = ServedBase if settings.batching else AsyncKnowledgeBase
    opened = base or kind(settings.location, embedder=settings.embedder, prefs=settings.preset)
    async with opened:
        await opened._ready()
        state = app.state.server = ServerState(opened, settings)
        working = asyncio.create_task(state.worker.run())
        with noticing_signals(state.stopping):
            yield
        state.stopping.set()
        working.cancel()
        await asyncio.wait([working])


async def _answer(operation: Operation, http: HttpRequest) -> Response:
    http.scope["operation"] = operation
    return await operation(http)


async def _problem(http: HttpRequest, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    http.scope["problem"] = problem.name
    details = problem.details(http.scope["request_id"])
    return Response(
        to_json(details),
        status_code=problem.status,
        headers=problem.headers,
        media_type=MEDIA_TYPE,
    )


async def _error(http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, LagottoError)
    problem = problem_of(error)
    if problem.status >= 500:
        http.scope["failure"] = error
    return await _problem(http, problem)


async def _http_problem(http: HttpRequest, error: Exception) -> Response:
    """What the router or the parser of forms has to say."""
    assert isinstance(error, HTTPException)
    names = {404: "NotFound", 405: "MethodNotAllowed", 413: "ContentTooLarge"}
    name = names.get(error.status_code, "BadRequest")
    detail = (
        error.detail if name == "BadRequest" else f"{http.method} {http.url.path}: {error.detail}"
    )
    return await _problem(http, Problem(name, detail, headers=error.headers))
