"""An operation of the API: its address, what it takes and answers, how a request runs it.

The OpenAPI document is made from these operations and the records they are checked with.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError, create_model
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from lagotto import __version__
from lagotto._internal.concurrency import in_thread
from lagotto.documents import LANGUAGE_TAG
from lagotto.prefs import SearchRequest, Verb
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.server.access import Access, Scope, Visibility
from lagotto.server.problems import MEDIA_TYPE, Answer, Problem, ProblemDetails, invalid
from lagotto.server.request_body import AddBody, SearchBody, limited, nested
from lagotto.server.state import ServerState, client_of

if TYPE_CHECKING:
    from lagotto.server.scoped_base import ScopedBase


P = ParamSpec("P")
T = TypeVar("T")
JSON = "application/json"
ANONYMOUS = Access(scopes=(), visibility=Visibility(collections=()))
"""The caller of an operation that needs no key; it sees nothing."""

WIDE_COUNT, WIDE_BYTES, NUMBER_BYTES = 100, 4_000, 25
"""Hits that are requested, and bytes of a search beside the numbers of its vector, beyond which it
is a wide one: a thousand hits take a hundred times as long as ten, most of it in Python, and a
filter of a thousand conditions, 18 kB, kept all other requests waiting for 40 ms."""

LARGE_BODY = 20_000
"""Bytes of JSON that are parsed in a thread, and beyond which other requests are wide."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, on its way through an operation; `arguments` are its body or query string."""

    http: HttpRequest
    state: ServerState
    access: Access
    arguments: Any = None

    @property
    def base(self) -> ScopedBase:
        return self.state.scoped_to(self.access, self.http)

    async def search_request(self, verb: Verb | Literal["why_not"]) -> SearchRequest:
        """The search of this request, checked against the limits of the server."""
        request = self.arguments.request(verb, self.context)
        return await self.off_loop(self.base.checked, request)

    @property
    def context(self) -> RequestContext:
        most = self.state.settings.timeout
        timeout = self.arguments.timeout if isinstance(self.arguments, SearchBody) else None
        return RequestContext(
            timeout=min(most, timeout or most),
            trace_id=self.http.scope["request_id"],
            started=self.http.scope["started"],
        )

    def slot(self) -> AbstractAsyncContextManager[None]:
        return self.state.gate.slot(client_of(self.http, self.access), wide=self._is_wide)

    async def off_loop(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread, unless the request is so small that it is done sooner."""
        small = isinstance(self.arguments, SearchBody | AddBody) and not self._is_wide
        if small and not getattr(self.arguments, "highlight", False):
            return function(*args, **kwargs)
        return await in_thread(function, *args, **kwargs)

    @property
    def _is_wide(self) -> bool:
        """Whether this takes far longer than most requests."""
        size: int = self.http.scope.get("body_size", len(self.http.scope["query_string"]))
        if not isinstance(self.arguments, SearchBody):
            return size > LARGE_BODY
        numbers = len(self.arguments.query_vector or ())
        if numbers == self.state.base.embedder.info.dimension:
            size -= NUMBER_BYTES * numbers
        return size > WIDE_BYTES or self.arguments.largest_count > WIDE_COUNT

    def path(self, name: str) -> str:
        return str(self.http.path_params[name])


Handler = Callable[..., Awaitable[object]]
"""Takes a Call and, if it has a second parameter, the record of that type."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    `takes` is the record that a request is checked with: the JSON body of a POST, the query string
    of other methods. `heavy` ones wait for a slot among those that work at once, and have a
    deadline. `form` also takes a form with files. With `permalink` there is a GET as well.
    """

    run: Handler
    method: str
    path: str
    name: str
    answer: type[BaseModel] | None
    _: KW_ONLY
    scope: Scope | None = "read"
    takes: type[BaseModel] | None = None
    status: int = 200
    heavy: bool = False
    form: bool = False
    permalink: bool = False
    media_type: str = JSON
    problems: tuple[int, ...] = ()

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or "").partition("\n")[0]

    async def __call__(self, http: HttpRequest) -> Response:
        http.scope["operation"] = self.name
        state: ServerState = http.state.server
        access = ANONYMOUS
        if self.scope is not None:
            access = await state.authenticate(http)
            access.check(self.scope)
        call = Call(http, state, access, await self._arguments(http, state))
        run = partial(self.run, call, *([call.arguments] if self.takes else []))
        if not self.heavy:
            return self._response(await run())
        async with cancel_scope(call.context), call.slot():
            return await call.off_loop(self._response, await run())

    async def _arguments(self, http: HttpRequest, state: ServerState) -> Any:
        if self.takes is None:
            return None
        if self.method == "POST":
            return await self._body(self.takes, http, state)
        return self._query(self.takes, http)

    async def _body(self, takes: type[BaseModel], http: HttpRequest, state: ServerState) -> Any:
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.form and kind == "multipart/form-data":
            return None
        if kind != JSON:
            send = f"{JSON} or multipart/form-data" if self.form else JSON
            raise Problem("UnsupportedMediaType", f"the body is {kind or 'untyped'!r}; send {send}")
        settings = state.settings
        most = settings.max_upload if self.form else settings.max_body
        data = await limited(http, most=most, timeout=settings.body_timeout).body()
        http.scope["body_size"] = len(data)
        try:
            if len(data) > LARGE_BODY:
                async with state.large_bodies:
                    return await in_thread(takes.model_validate_json, data)
            return takes.model_validate_json(data or b"null")
        except ValidationError as exc:
            raise invalid(exc) from None

    def _query(self, takes: type[BaseModel], http: HttpRequest) -> Any:
        pairs = http.query_params.multi_items()
        try:
            arguments = nested(pairs) if self.permalink else dict(pairs)
            if self.permalink and "q" in arguments:
                arguments["query"] = arguments.pop("q")
            return takes.model_validate(arguments)
        except ValidationError as exc:
            raise invalid(exc, names={"/query": "/q"} if self.permalink else {}) from None
        except (ValueError, RecursionError) as exc:
            raise Problem("BadRequest", f"the query string can't be read: {exc}") from None

    def _response(self, content: object) -> Response:
        if isinstance(content, Response):
            return content
        return Response(to_json(content), status_code=self.status, media_type=self.media_type)


def record(name: str, fields: Mapping[str, Any]) -> type[Answer]:
    """An answer with fields of these types, all of them required."""
    required: dict[str, Any] = {key: (kind, ...) for key, kind in fields.items()}
    return create_model(name, __base__=Answer, **required)


def operation(
    address: str, answer: type[BaseModel] | Mapping[str, Any] | None, **settings: Any
) -> Callable[[Handler], Operation]:
    """Declare a handler as the operation at `METHOD /path`.

    Its docstring is the summary, its name the id: `list_tasks` is `listTasks`. It takes what its
    second parameter says. `answer` is a record, or the fields of one; None for a text, a page or a
    stream.
    """
    method, _, path = address.partition(" ")

    def declare(run: Handler) -> Operation:
        first, *others = run.__name__.split("_")
        name = first + "".join(map(str.capitalize, others))
        kind = answer
        if isinstance(kind, Mapping):
            kind = record(f"{name[:1].upper()}{name[1:]}Answer", kind)
        _, *takes = (hint for key, hint in get_type_hints(run).items() if key != "return")
        own = {"takes": takes[0] if takes else None, **settings}
        return Operation(run, method, path, name, kind, **own)

    return declare


def operations_of(*modules: ModuleType) -> tuple[Operation, ...]:
    """The operations that modules declare, each before its permalink."""
    operations: list[Operation] = []
    for each in (each for module in modules for each in vars(module).values()):
        if isinstance(each, Operation):
            operations.append(each)
            if each.permalink:
                operations.append(replace(each, method="GET", name=f"{each.name}ByLink"))
    return tuple(operations)


_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
Schema = dict[str, Any]

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


def openapi(operations: Sequence[Operation]) -> Schema:
    records: list[tuple[type[BaseModel], Any]] = [(ProblemDetails, "serialization")]
    records += [(each.takes, "validation") for each in operations if each.takes]
    records += [(each.answer, "serialization") for each in operations if each.answer]
    references, document = models_json_schema(
        list(dict.fromkeys(records)), ref_template="#/components/schemas/{model}"
    )
    schemas, paths = document["$defs"], dict[str, Schema]()
    for each in operations:
        described = _described(each, dict(references), schemas)
        paths.setdefault(_PARAMETER.sub(r"{\1}", each.path), {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lagotto", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation, references: dict[Any, Schema], schemas: Schema) -> Schema:
    problem = {MEDIA_TYPE: {"schema": references[ProblemDetails, "serialization"]}}
    schema = references[operation.answer, "serialization"] if operation.answer else {}
    content = {operation.media_type: {"schema": schema}}
    responses = {str(operation.status): {"description": operation.summary, "content": content}}
    for status in sorted(_problems(operation)):
        responses[str(status)] = {"description": "A problem.", "content": problem}
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": schema}
            for name in _PARAMETER.findall(operation.path)
            for schema in [{"type": "string", "minLength": 1}]
        ],
        "responses": responses,
        "security": [{"key": []}, {}] if operation.scope else [],
    }
    if operation.takes is None:
        return described
    takes = references[operation.takes, "validation"]
    if operation.method == "POST":
        forms = {"multipart/form-data": {"schema": FORM}} if operation.form else {}
        content = {JSON: {"schema": takes}, **forms}
        return {**described, "requestBody": {"required": True, "content": content}}
    described["parameters"] += _query_parameters(operation, _resolved(takes, schemas), schemas)
    return described


def _query_parameters(operation: Operation, takes: Schema, schemas: Schema) -> Iterator[Schema]:
    """The fields of a record, and in a permalink as `group.field` those of its groups."""
    required = takes.get("required", ())
    for name, schema in takes["properties"].items():
        group = _resolved(_without_null(schema), schemas).get("properties", {})
        fields = {name: schema}
        if operation.permalink and group:
            fields = {f"{name}.{inner}": field_schema for inner, field_schema in group.items()}
        for field, field_schema in fields.items():
            plain = _without_null(field_schema)
            is_json = plain.get("type") in ("object", "array")
            kind = {"content": {JSON: {"schema": plain}}} if is_json else {"schema": plain}
            query_name = "q" if operation.permalink and field == "query" else field
            yield {"name": query_name, "in": "query", "required": field in required, **kind}


def _without_null(schema: Schema) -> Schema:
    """A schema without null, which a query string can't have."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if not kinds:
        return {name: value for name, value in schema.items() if name != "default"}
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    target: Schema = schemas[name] if name else schema
    return target


def _problems(operation: Operation) -> set[int]:
    statuses = {*operation.problems, 400, 500}
    if "{" in operation.path:
        statuses.add(404)
    if operation.scope is not None:
        statuses |= {401, 403, 503}
    if operation.takes is not None:
        statuses |= {408, 413, 415, 422} if operation.method == "POST" else {422}
    if operation.heavy:
        statuses |= {422, 429, 502, 504, 507}
    return statuses
