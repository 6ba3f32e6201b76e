"""MCP at /mcp: the tools of `lagotto.mcp` on the base as the holder of a key sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec

from starlette.requests import Request as HttpRequest
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lagotto.errors import LagottoError
from lagotto.mcp.tools import Agent
from lagotto.request_context import RequestContext
from lagotto.server.access import Access
from lagotto.server.problems import Problem, problem_of
from lagotto.server.request_body import limited
from lagotto.server.state import client_of, state_of

MISSING = "MCP needs the package mcp, which is not installed here; run `pip install 'lagotto[mcp]'`"


def routes() -> list[Route]:
    """The route of MCP; the SDK is imported when a client comes, since that takes a while."""
    return [Route("/mcp", _Mcp(), methods=["POST"])]


class _Mcp:
    """Checks the key of a request, and lets the SDK answer.

    Nothing is kept between two requests, so any process may answer. That is how the newest protocol
    revision works, and the earlier ones allow it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["operation"] = "mcp"
        http = HttpRequest(scope, receive)
        state = state_of(http)
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
        state = state_of(http)
        if not state.settings.mcp_write:
            scopes = tuple(scope for scope in access.scopes if scope != "write")
            access = replace(access, scopes=scopes)
        super().__init__(state.scoped_to(access, http), writes="write" in access.scopes)
        self._gate, self._timeout = state.gate, state.settings.timeout
        self._client, self._trace_id = client_of(http, access), http.scope["request_id"]

    def context(self) -> RequestContext:
        return RequestContext(timeout=self._timeout, trace_id=self._trace_id)

    @asynccontextmanager
    async def admission(self) -> AsyncIterator[None]:
        """Work among as many others as the server works on at once, until its timeout."""
        async with self._gate.slot(self._client):
            try:
                async with asyncio.timeout(self._timeout + 1.0):
                    yield
            except TimeoutError:
                took = f"the call took longer than {self._timeout:g} s"
                raise Problem("Timeout", took) from None

    def message(self, error: Exception) -> str | None:
        if isinstance(error, LagottoError):
            error = problem_of(error)
        return error.detail if isinstance(error, Problem) else None
