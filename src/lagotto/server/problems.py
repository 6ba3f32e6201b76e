"""Errors as problem details (RFC 9457), with JSON pointers to what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from lagotto import errors
from lagotto.errors import DeadlineExceeded, LagottoError

LOGGER = logging.getLogger("lagotto.server")
MEDIA_TYPE = "application/problem+json"

TITLES = {
    "BadRequest": (
        400,
        "The request can't be read: it is not HTTP, JSON or a form as it should be.",
    ),
    "Unauthorized": (401, "The key is missing, unknown, expired or revoked."),
    "Forbidden": (403, "The key does not allow this."),
    "NotFound": (404, "There is nothing under this address, or nothing that the key may see."),
    "MethodNotAllowed": (405, "This address does not take this method."),
    "RequestTimeout": (408, "The body of the request did not arrive in time."),
    "Conflict": (409, "The state of what is to be changed does not allow it."),
    "ContentTooLarge": (413, "The body of the request is larger than the server accepts."),
    "UnsupportedMediaType": (415, "The body is of another type than this address takes."),
    "InvalidRequest": (422, "Fields of the request have values that are not allowed."),
    "TooManyRequests": (429, "The server is busy; try again after the time in Retry-After."),
    "InternalError": (500, "The server failed; its log has the reason under the request id."),
    "Unavailable": (503, "The base can't be used at the moment."),
    "Timeout": (504, "The work took longer than it may, and was cancelled."),
}
"""Problems that are no error of the library: status and title."""

STATUSES: Mapping[type[LagottoError], int] = {
    errors.ConfigError: 422,
    errors.QueryError: 422,
    errors.CitationError: 422,
    errors.ReadError: 422,
    errors.DegradedError: 503,
    errors.DeadlineExceeded: 504,
    errors.RerankError: 502,
    errors.EmbeddingServiceError: 502,
    errors.StoreBusyError: 503,
    errors.StoreUnavailableError: 503,
    errors.StoreReadOnlyError: 403,
    errors.StoreFullError: 507,
}
"""The status of an error, of the nearest class; 500 for all others."""

HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": 'Bearer realm="lagotto"'},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
"""Of the answer to a problem, by its status."""


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="forbid")


class FieldProblem(Answer):
    """What is wrong in one field; `pointer` is a JSON pointer into the request."""

    pointer: str
    detail: str


class ProblemDetails(Answer):
    """A problem as it is sent."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    request_id: str
    errors: list[FieldProblem] = Field(default_factory=list)


class Problem(Exception):  # noqa: N818
    """A request that can't be answered; `name` is one of TITLES, or of an error of the library."""

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        status: int | None = None,
        fields: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.name = name
        self.detail = detail
        self.status = status or TITLES[name][0]
        self.fields = list(fields)
        self.headers = {**HEADERS.get(self.status, {}), **(headers or {})}

    def details(self, request_id: str) -> ProblemDetails:
        return ProblemDetails(
            type=f"/problems/{self.name}",
            title=title_of(self.name),
            status=self.status,
            detail=self.detail,
            error=self.name,
            request_id=request_id,
            errors=self.fields,
        )


def title_of(name: str) -> str:
    if name in TITLES:
        return TITLES[name][1]
    return str(getattr(errors, name).__doc__).partition("\n")[0]


def problem_names() -> list[str]:
    """All kinds of problems, each with a page of its own."""
    ours = (kind for kind in vars(errors).values() if isinstance(kind, type))
    return sorted({*TITLES, *(kind.__name__ for kind in ours if issubclass(kind, LagottoError))})


def problem_of(error: LagottoError | Problem) -> Problem:
    """An error of the library as a problem.

    The message of an error that the client can't mend may name files and servers: it stays here.
    """
    if isinstance(error, Problem):
        return error
    kind = type(error)
    name = next(base.__name__ for base in kind.__mro__ if hasattr(errors, base.__name__))
    status = next((STATUSES[base] for base in kind.__mro__ if base in STATUSES), 500)
    is_clients = status in (422, 504)
    detail = str(error) if is_clients else f"{title_of(name)} The log of the server has more."
    fields = [FieldProblem(pointer="/filters", detail=detail)] if kind is errors.FilterError else []
    return Problem(name, detail, status=status, fields=fields)


MOST_FIELDS = 1_000
"""Wrong fields that an answer lists: 50,000 of them kept all other requests waiting for 1.4 s."""


def invalid(
    error: ValidationError, *, start: str = "", names: Mapping[str, str] | None = None
) -> Problem:
    """The problem of a request whose fields are wrong; `names` are its own pointers to some."""
    if error.error_count() > MOST_FIELDS:
        most = f"more than the {MOST_FIELDS:,} that are listed"
        return Problem("InvalidRequest", f"{error.error_count():,} values are wrong, {most}")
    fields = list(_fields(error, start, names or {}))
    if len(fields) == 1 and "JSON" in fields[0].detail:
        return Problem("BadRequest", fields[0].detail, fields=fields)
    detail = "; ".join(f"{field.pointer or '/'}: {field.detail}" for field in fields[:5])
    return Problem("InvalidRequest", detail, fields=fields)


def _fields(error: ValidationError, start: str, names: Mapping[str, str]) -> Iterator[FieldProblem]:
    for entry in error.errors(include_url=False):
        if entry["type"] == "default_factory_not_called":  # since another field is wrong
            continue
        parts = (str(part).replace("~", "~0").replace("/", "~1") for part in entry["loc"])
        pointer = start + "".join(f"/{part}" for part in parts)
        pointer = names.get(pointer, pointer)
        cause: Any = entry.get("ctx", {}).get("error")
        nested = getattr(cause, "__cause__", None)
        if isinstance(nested, ValidationError):
            yield from _fields(nested, pointer, names)
        elif entry["type"] == "extra_forbidden":
            yield FieldProblem(pointer=pointer, detail="there is no such field")
        else:
            reason = str(cause) if isinstance(cause, ValueError) else entry["msg"]
            yield FieldProblem(pointer=pointer, detail=reason)


def invalid_field(name: str, detail: str) -> Problem:
    field = FieldProblem(pointer=f"/{name}", detail=detail)
    return Problem("InvalidRequest", f"/{name}: {detail}", fields=[field])


def no_document(document_id: str, collection: str) -> Problem:
    """The problem of a document that is not there, or that the caller does not see."""
    return Problem("NotFound", f"there is no document {document_id!r} in {collection!r}")


def problem_response(http: HttpRequest, problem: Problem) -> Response:
    http.scope["problem"] = problem.name
    body = to_json(problem.details(http.scope["request_id"]))
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


async def _answer(http: HttpRequest, error: Exception) -> Response:
    if isinstance(error, LagottoError):
        problem = problem_of(error)
        if problem.status >= 500 and not isinstance(error, DeadlineExceeded):
            http.scope["failure"] = error
    elif isinstance(error, HTTPException):  # what the router or the parser of forms has to say
        names = {404: "NotFound", 405: "MethodNotAllowed", 413: "ContentTooLarge"}
        name, detail = names.get(error.status_code), error.detail
        if name is not None:
            detail = f"{http.method} {http.url.path}: {detail}"
        problem = Problem(name or "BadRequest", detail, headers=error.headers)
    else:
        assert isinstance(error, Problem)
        problem = error
    return problem_response(http, problem)


HANDLERS: Mapping[type[Exception], Callable[[HttpRequest, Exception], Awaitable[Response]]] = (
    dict.fromkeys((HTTPException, Problem, LagottoError), _answer)
)
"""For the application, and for each one mounted in it that is a Starlette of its own."""
