"""An operation of the API: its address, what it takes and answers, and how a request runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from lagotto._internal.concurrency import in_thread
from lagotto.prefs import Verb
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.retrieval.base import SearchRequest
from lagotto.server.access import Access, Scope, Visibility
from lagotto.server.problems import Problem, invalid
from lagotto.server.request_body import AddBody, SearchBody, limited, nested
from lagotto.server.settings import ServerSettings
from lagotto.server.state import ServerState, client_of, state_of

if TYPE_CHECKING:
    from lagotto.server.scoped_base import ScopedBase


P = ParamSpec("P")
T = TypeVar("T")
Method = Literal["GET", "POST", "DELETE"]
JSON = "application/json"
NOBODY = Access(scopes=(), visibility=Visibility(collections=()))
"""The caller of an operation that needs no key; it sees nothing."""

WIDE_COUNT, WIDE_BYTES = 100, 20_000
"""Hits that are asked for, and bytes of a request, beyond which it is a wide one: a thousand hits
take a hundred times as long as ten, most of it in Python."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, on its way through an operation."""

    http: HttpRequest
    state: ServerState
    access: Access
    body: Any = None
    query: Any = None

    @property
    def base(self) -> ScopedBase:
        """The base as the caller sees it."""
        return self.state.scoped_to(self.access, self.http)

    async def search_request(self, verb: Verb | Literal["why_not"]) -> SearchRequest:
        """The search that is asked for, checked against the limits of the server."""
        request = self.asked.request(verb, self.context)
        return await self.off_loop(self.base.checked, request)

    @property
    def context(self) -> RequestContext:
        """The deadline of the request, and its id as the trace id."""
        most = self.state.settings.timeout
        asked = self.asked.timeout if isinstance(self.asked, SearchBody) else None
        return RequestContext(
            timeout=min(most, asked or most),
            trace_id=self.http.scope["request_id"],
            started=self.http.scope["started"],
        )

    @property
    def asked(self) -> Any:
        """The body, which is the query string of a permalink."""
        return self.query if self.body is None else self.body

    def place(self) -> AbstractAsyncContextManager[None]:
        """A place among the requests that are worked on."""
        return self.state.gate.place(client_of(self.http, self.access), wide=self._is_wide)

    async def off_loop(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread, unless the request is so small that it is done sooner."""
        small = isinstance(self.asked, SearchBody | AddBody) and not self._is_wide
        if small and not getattr(self.asked, "highlight", False):
            return function(*args, **kwargs)
        return await in_thread(function, *args, **kwargs)

    @property
    def _is_wide(self) -> bool:
        """Whether this takes far longer than most requests."""
        size = self.http.scope.get("body_size", len(self.http.scope["query_string"]))
        asks_for_many = isinstance(self.asked, SearchBody) and self.asked.most_asked > WIDE_COUNT
        return size > WIDE_BYTES or asks_for_many

    def path(self, name: str) -> str:
        """A parameter in the path."""
        return str(self.http.path_params[name])


Handler = Callable[[Call], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    `body` and `query` are the records that requests are checked with. `heavy` ones wait for a place
    among those that work at once, and have a deadline. `form` also takes a form with files.
    """

    method: Method
    path: str
    name: str
    summary: str
    run: Handler
    answer: type[BaseModel] | None
    scope: Scope | None = "read"
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    heavy: bool = False
    form: bool = False
    permalink: bool = False
    media_type: str = JSON
    problems: tuple[int, ...] = ()

    async def __call__(self, http: HttpRequest) -> Response:
        """Answer a request."""
        state = state_of(http)
        access = NOBODY if self.scope is None else await state.authenticate(http)
        if self.scope is not None:
            access.check(self.scope)
        call = Call(http, state, access, await self._body(http, state), self._query(http))
        if not self.heavy:
            return self._response(await self.run(call))
        async with cancel_scope(call.context), call.place():
            return await call.off_loop(self._response, await self.run(call))

    async def _body(self, http: HttpRequest, state: ServerState) -> Any:
        if self.body is None:
            return None
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.form and kind == "multipart/form-data":
            return None
        if kind != JSON:
            also = " or multipart/form-data" if self.form else ""
            raise Problem(
                "UnsupportedMediaType", f"the body is {kind or 'untyped'!r}; send {JSON}{also}"
            )
        settings = state.settings
        most = settings.max_upload if self.form else settings.max_body
        data = await limited(http, most=most, timeout=settings.body_timeout).body()
        http.scope["body_size"] = len(data)
        try:
            return self.body.model_validate_json(data or b"null")
        except ValidationError as exc:
            raise invalid(exc) from None

    def _query(self, http: HttpRequest) -> Any:
        if self.query is None:
            return None
        pairs = http.query_params.multi_items()
        try:
            given = nested(pairs) if self.permalink else dict(pairs)
            if self.permalink and "q" in given:
                given["query"] = given.pop("q")
            return self.query.model_validate(given)
        except ValidationError as exc:
            raise invalid(exc, names={"query": "q"} if self.permalink else {}) from None
        except (ValueError, RecursionError) as exc:
            raise Problem("BadRequest", f"the query string can't be read: {exc}") from None

    def _response(self, found: object) -> Response:
        if isinstance(found, Response):
            return found
        return Response(to_json(found), status_code=self.status, media_type=self.media_type)


@asynccontextmanager
async def _nothing(_: ServerState) -> AsyncIterator[None]:
    yield


@dataclass(frozen=True, slots=True)
class Mounted:
    """Routes, and what runs from the first request to the last.

    Requests go through the middleware of the server: they have an id, and are logged, counted and
    cancelled like any other. `lagotto.server.state.state_of(request)` is the way to the base;
    `authenticate` of that state says who is calling, and `scoped_to` shows what they may see.
    `scope["operation"]` is the name that metrics and the log have for a request. An application
    with exception handlers of its own takes those of `lagotto.server.problems`.
    """

    routes: Sequence[BaseRoute]
    running: Callable[[ServerState], AbstractAsyncContextManager[None]] = _nothing


Mounting = Callable[[ServerSettings], Mounted | None]
"""Makes it for one server; None if the server does not have it."""
