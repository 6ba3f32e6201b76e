"""Errors as answers: problems, errors of the library, and what the router says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from lagotto.errors import DeadlineExceeded, LagottoError
from lagotto.server.problems import MEDIA_TYPE, Problem, problem_of


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
    if problem.status >= 500 and not isinstance(error, DeadlineExceeded):
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


HANDLERS: Mapping[type[Exception], Callable[[HttpRequest, Exception], Awaitable[Response]]] = {
    HTTPException: _http_problem,
    Problem: _problem,
    LagottoError: _error,
}
"""For the application, and for each one mounted in it that is a Starlette of its own."""
