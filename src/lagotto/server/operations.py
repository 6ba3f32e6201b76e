"""An operation of the API: its address, what it takes and answers, how a request runs it.

The OpenAPI document is made from these operations and the records they are checked with.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from lagotto import __version__
from lagotto._internal.concurrency import in_thread
from lagotto.documents import LANGUAGE_TAG
from lagotto.prefs import Verb
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.retrieval.base import SearchRequest
from lagotto.server.access import Access, Scope, Visibility
from lagotto.server.problems import MEDIA_TYPE, Problem, ProblemDetails, invalid
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


_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
Schema = dict[str, Any]


def openapi(operations: Sequence[Operation]) -> Schema:
    """The document."""
    schemas, references = _schemas(operations)
    paths: Schema = {}
    for operation in operations:
        path = _PARAMETER.sub(r"{\1}", operation.path)
        described = _described(operation, references, schemas)
        paths.setdefault(path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lagotto", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(operations: Sequence[Operation]) -> tuple[Schema, dict[Any, Schema]]:
    """The schemas of all records by name, and a reference to each record."""
    wanted: list[tuple[type[BaseModel], Any]] = [(ProblemDetails, "serialization")]
    for operation in operations:
        wanted += [(kind, "validation") for kind in (operation.body, operation.query) if kind]
        if operation.answer is not None:
            wanted.append((operation.answer, "serialization"))
    references, document = models_json_schema(
        list(dict.fromkeys(wanted)), ref_template="#/components/schemas/{model}"
    )
    return document["$defs"], dict(references)


def _described(operation: Operation, references: dict[Any, Schema], schemas: Schema) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *_path_parameters(operation),
            *_query_parameters(operation, references, schemas),
        ],
        "responses": _responses(operation, references),
        "security": [{"key": []}, {}] if operation.scope else [],
    }
    if operation.body is not None:
        content: Schema = {JSON: {"schema": references[operation.body, "validation"]}}
        if operation.form:
            content["multipart/form-data"] = {"schema": FORM}
        described["requestBody"] = {"required": True, "content": content}
    return described


FORM: Schema = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "collection": {"type": "string", "minLength": 1},
        "language": {"type": "string", "pattern": f"^{LANGUAGE_TAG.pattern}$"},
        "metadata": {"type": "string", "description": "a JSON object"},
    },
}
"""A form with files."""


def _path_parameters(operation: Operation) -> Iterator[Schema]:
    for name in _PARAMETER.findall(operation.path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(
    operation: Operation, references: dict[Any, Schema], schemas: Schema
) -> Iterator[Schema]:
    if operation.query is None:
        return
    record = _resolved(references[operation.query, "validation"], schemas)
    for name, schema in _leaves(record, schemas, nested=operation.permalink):
        shown = "q" if operation.permalink and name == "query" else name
        needed = name in record.get("required", ())
        parameter: Schema = {"name": shown, "in": "query", "required": needed}
        yield parameter | (
            {"content": {JSON: {"schema": schema}}} if _is_json(schema) else {"schema": schema}
        )


def _leaves(record: Schema, schemas: Schema, *, nested: bool) -> Iterator[tuple[str, Schema]]:
    """The fields of a record, and as `group.field` those of its groups."""
    for name, schema in record["properties"].items():
        group = _resolved(_needed(schema), schemas)
        if nested and "properties" in group:
            yield from (
                (f"{name}.{inner}", _needed(found)) for inner, found in group["properties"].items()
            )
        else:
            yield name, _needed(schema)


def _needed(schema: Schema) -> Schema:
    """A schema without null, which a query string can't have."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if not kinds:
        return {name: value for name, value in schema.items() if name != "default"}
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _is_json(schema: Schema) -> bool:
    return schema.get("type") in ("object", "array")


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Schema = schemas[name] if name else schema
    return found


def _responses(operation: Operation, references: dict[Any, Schema]) -> Schema:
    kinds = (operation.answer, "serialization")
    schema = references[kinds] if operation.answer else {}  # text, a page, or a stream of events
    responses: Schema = {
        str(operation.status): {
            "description": operation.summary,
            "content": {operation.media_type: {"schema": schema}},
        }
    }
    problem = references[ProblemDetails, "serialization"]
    for status in sorted(_problems(operation)):
        responses[str(status)] = {
            "description": "A problem.",
            "content": {MEDIA_TYPE: {"schema": problem}},
        }
    return responses


def _problems(operation: Operation) -> set[int]:
    """The statuses of problems that an operation may end with."""
    found = {*operation.problems, 400, 500}
    if operation.scope is not None:
        found |= {401, 403, 503}
    if operation.body is not None:
        found |= {408, 413, 415, 422}
    if operation.query is not None:
        found.add(422)
    if operation.heavy:
        found |= {422, 429, 502, 504, 507}
    return found
