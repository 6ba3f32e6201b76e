"""MCP at /mcp: the tools of `lagotto.mcp` on the base as the holder of a key sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lagotto.base.ingest import AddReport
from lagotto.context import ContextPack
from lagotto.documents import Document
from lagotto.errors import LagottoError
from lagotto.mcp.agent_base import AgentQuestion
from lagotto.mcp.documents import DocumentAddress
from lagotto.request_context import RequestContext
from lagotto.results import Results
from lagotto.server.access import Access
from lagotto.server.operations import Mounted
from lagotto.server.problems import Problem, problem_of
from lagotto.server.request_body import ContextBody, SearchBody, limited
from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState, client_of, state_of

PATH = "/mcp"
OPERATION = "mcp"
MISSING = "MCP needs the package mcp, which is not installed here; run `pip install 'lagotto[mcp]'`"


def mount_agents(_: ServerSettings) -> Mounted:
    """The route of MCP; the SDK is imported when a client comes, since that takes a while."""
    return Mounted([Route(PATH, _answer, methods=["POST"])])


async def _answer(http: HttpRequest) -> Response:
    """Check the key, and let the SDK answer."""
    http.scope["operation"] = OPERATION
    state = state_of(http)
    access = await state.authenticate(http)
    access.check("read")
    if find_spec("mcp") is None:
        raise Problem("NotFound", MISSING)
    return _McpResponse(CallersBase(state, access, http))


class CallersBase:
    """An AgentBase: the base as one caller sees it, within the limits of the server."""

    def __init__(self, state: ServerState, access: Access, http: HttpRequest) -> None:
        self._state = state
        self._access = access
        self._base = state.seen_by(access)
        self.http = http

    @property
    def writes(self) -> bool:
        """Whether the key has the scope for it, and the server lets agents write."""
        return self.settings.mcp_write and "write" in self._access.scopes

    @property
    def settings(self) -> ServerSettings:
        """The settings of the server."""
        return self._state.settings

    @asynccontextmanager
    async def admission(self) -> AsyncIterator[None]:
        """Work among as many others as the server works on at once, until its timeout."""
        timeout = self.settings.timeout
        async with self._state.gate.place(client_of(self.http, self._access)):
            try:
                async with asyncio.timeout(timeout + 1.0):
                    yield
            except TimeoutError:
                raise Problem("Timeout", f"the call took longer than {timeout:g} s") from None

    def message(self, error: Exception) -> str | None:
        """What a caller may know of an error."""
        if isinstance(error, LagottoError):
            error = problem_of(error)
        return error.detail if isinstance(error, Problem) else None

    async def retrieve(self, question: AgentQuestion) -> Results:
        """The best passages."""
        planned = self._base.plan("retrieve", SearchBody(query=question.query, **_given(question)))
        work = self._base.retrieve(planned, self._context())
        return await self._state.observed(self.http, planned, work)

    async def context(self, question: AgentQuestion, *, max_tokens: int) -> ContextPack:
        """The best passages with what is around them."""
        body = ContextBody(query=question.query, max_tokens=max_tokens, **_given(question))
        planned = self._base.plan("context", body)
        work = self._base.context(planned, body, self._context())
        return await self._state.observed(self.http, planned, work)

    async def get(self, name: DocumentAddress) -> Document | None:
        """A document with its text."""
        return await self._base.get(name.document_id, collection=name.collection)

    async def documents(self, *, after: DocumentAddress | None, limit: int) -> list[Document]:
        """Documents without their texts, those after a name."""
        return await self._base.documents(after=after, limit=limit)

    async def collections(self) -> dict[str, int]:
        """The number of documents in each collection."""
        return await self._base.collections()

    async def add(self, document: Document) -> AddReport:
        """Add a document that the caller would see, unless there is one with its id."""
        self._check_writes()
        return await self._base.add([document], replace=False)

    async def remove(self, name: DocumentAddress) -> bool:
        """Remove a document that the caller sees."""
        self._check_writes()
        return bool(await self._base.remove(name.document_id, collection=name.collection))

    def _check_writes(self) -> None:
        self._access.check("write")
        if not self.writes:
            raise Problem("Forbidden", "this server does not let agents write")

    def _context(self) -> RequestContext:
        return RequestContext(timeout=self.settings.timeout, trace_id=self.http.scope["request_id"])


class _McpResponse(Response):
    """The answer of the SDK to one request: nothing is kept between two, so any process may answer.

    That is how the newest protocol revision works, and the earlier ones allow it.
    """

    def __init__(self, base: CallersBase) -> None:
        super().__init__()
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from lagotto.mcp.server import create_server

        settings = self._base.settings
        manager = StreamableHTTPSessionManager(
            create_server(self._base),
            json_response=True,
            stateless=True,
            max_request_body_size=settings.max_body,
        )
        body = limited(self._base.http, most=settings.max_body, timeout=settings.body_timeout)
        async with manager.run():
            await manager.handle_request(scope, body.receive, send)


def _given(question: AgentQuestion) -> dict[str, object]:
    return {name: value for name, value in question.arguments().items() if value is not None}
