"""MCP at /mcp: the tools of `lagotto.mcp` on the base as the holder of a key sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lagotto.errors import LagottoError
from lagotto.mcp.agent import Agent
from lagotto.request_context import RequestContext
from lagotto.server.access import Access
from lagotto.server.problems import Problem, problem_of
from lagotto.server.request_body import limited
from lagotto.server.state import ServerState, client_of, state_of

PATH = "/mcp"
OPERATION = "mcp"
MISSING = "MCP needs the package mcp, which is not installed here; run `pip install 'lagotto[mcp]'`"


def routes() -> list[Route]:
    """The route of MCP; the SDK is imported when a client comes, since that takes a while."""
    return [Route(PATH, _answer, methods=["POST"])]


async def _answer(http: HttpRequest) -> Response:
    """Check the key, and let the SDK answer."""
    http.scope["operation"] = OPERATION
    state = state_of(http)
    access = await state.authenticate(http)
    access.check("read")
    if find_spec("mcp") is None:
        raise Problem("NotFound", MISSING)
    return _McpResponse(state, http, _agent(state, access, http))


def _agent(state: ServerState, access: Access, http: HttpRequest) -> Agent:
    """The agent of a key, within the limits of the server."""
    settings = state.settings
    if not settings.mcp_write:
        scopes = tuple(scope for scope in access.scopes if scope != "write")
        access = replace(access, scopes=scopes)
    return Agent(
        state.scoped_to(access, http),
        writes="write" in access.scopes,
        context=partial(
            RequestContext, timeout=settings.timeout, trace_id=http.scope["request_id"]
        ),
        admission=partial(_admission, state, client_of(http, access)),
        message=_message,
    )


@asynccontextmanager
async def _admission(state: ServerState, client: str) -> AsyncIterator[None]:
    """Work among as many others as the server works on at once, until its timeout."""
    timeout = state.settings.timeout
    async with state.gate.slot(client):
        try:
            async with asyncio.timeout(timeout + 1.0):
                yield
        except TimeoutError:
            raise Problem("Timeout", f"the call took longer than {timeout:g} s") from None


def _message(error: Exception) -> str | None:
    """What a caller may know of an error."""
    if isinstance(error, LagottoError):
        error = problem_of(error)
    return error.detail if isinstance(error, Problem) else None


class _McpResponse(Response):
    """The answer of the SDK to one request: nothing is kept between two, so any process may answer.

    That is how the newest protocol revision works, and the earlier ones allow it.
    """

    def __init__(self, state: ServerState, http: HttpRequest, agent: Agent) -> None:
        super().__init__()
        self._settings = state.settings
        self._http = http
        self._agent = agent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from lagotto.mcp.server import create_server

        settings = self._settings
        manager = StreamableHTTPSessionManager(
            create_server(self._agent),
            json_response=True,
            stateless=True,
            max_request_body_size=settings.max_body,
        )
        body = limited(self._http, most=settings.max_body, timeout=settings.body_timeout)
        async with manager.run():
            await manager.handle_request(scope, body.receive, send)
