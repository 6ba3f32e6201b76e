"""An operation of the API: its address, what it takes and answers, and how a request runs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from lagotto.request_context import RequestContext
from lagotto.server.access import Access, Scope, Sight
from lagotto.server.bodies import SearchBody, nested
from lagotto.server.problems import Problem, invalid
from lagotto.server.receiving import limited
from lagotto.server.state import ServerState, state_of

if TYPE_CHECKING:
    from lagotto.server.scoped_base import ScopedBase

Method = Literal["GET", "POST", "DELETE"]
JSON = "application/json"
NOBODY = Access(scopes=(), sight=Sight(collections=()))
"""The caller of an operation that needs no key; it sees nothing."""


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
        return self.state.seen_by(self.access)

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
        async with state.gate.place():
            try:
                async with asyncio.timeout_at(self._deadline(call)):
                    return self._response(await self.run(call))
            except TimeoutError:
                raise Problem(
                    "Timeout", f"the request exceeded its timeout of {state.settings.timeout:g} s"
                ) from None

    def _deadline(self, call: Call) -> float:
        """A little after that of the search itself, whose error says more."""
        now = asyncio.get_running_loop().time()
        spent: float = time.monotonic() - call.http.scope["started"]
        return now - spent + call.state.settings.timeout + 1.0

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
