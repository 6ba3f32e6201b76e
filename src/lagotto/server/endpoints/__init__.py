"""All operations of the API, and those on the server itself: is it well, what do problems mean?"""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse, Response

from lagotto.errors import LagottoError
from lagotto.server.endpoints import documents, search, tasks
from lagotto.server.events import EVENT_OPERATIONS
from lagotto.server.operations import Call, Operation
from lagotto.server.problems import Problem, problem_names, title_of
from lagotto.server.responses import HealthAnswer

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name} – Lagotto</title>
<link rel="stylesheet" href="/assets/base.css">
</head>
<body><main><h1>{name}</h1><p>{text}</p></main></body>
</html>
"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'",
    "X-Content-Type-Options": "nosniff",
}


async def health(call: Call) -> object:
    """Answer that the process is there."""
    return {"status": "ok"}


async def ready(call: Call) -> object:
    """Answer that the base can be searched; Unavailable otherwise, and while shutting down."""
    if call.state.stopping.is_set():
        raise Problem("Unavailable", "the server is shutting down")
    try:
        await call.state.embedder()
        await call.state.base.info()
    except LagottoError:
        raise Problem("Unavailable", "the base can't be used; the log has the reason") from None
    return {"status": "ok"}


async def metrics(call: Call) -> Response:
    """Answer with the metrics of this process, for Prometheus."""
    return Response(call.state.metrics.text(), media_type="text/plain; version=0.0.4")


async def problem_page(call: Call) -> Response:
    """Answer with what a kind of problem means."""
    name = call.path("name")
    if name not in problem_names():
        raise Problem("NotFound", f"there is no kind of problem called {name!r}")
    return HTMLResponse(PAGE.format(name=name, text=escape(title_of(name))), headers=HEADERS)


STATUS_OPERATIONS = (
    Operation("GET", "/healthz", "health", "Is the process there?", health, HealthAnswer, None),
    Operation(
        "GET", "/readyz", "ready", "Can the base be searched?",
        ready, HealthAnswer, None, problems=(503,),
    ),
    Operation(
        "GET", "/metrics", "metrics", "Metrics of this process, for Prometheus.",
        metrics, None, "admin", media_type="text/plain",
    ),
    Operation(
        "GET", "/problems/{name}", "problem", "What a kind of problem means.",
        problem_page, None, None, problems=(404,), media_type="text/html",
    ),
)  # fmt: skip

OPERATIONS: tuple[Operation, ...] = (
    *search.OPERATIONS,
    *EVENT_OPERATIONS,
    *tasks.OPERATIONS,
    *documents.OPERATIONS,
    *documents.OPTION_OPERATIONS,
    *documents.JUDGEMENT_OPERATIONS,
    *search.MODEL_OPERATIONS,
    *STATUS_OPERATIONS,
)
