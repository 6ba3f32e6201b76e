"""All operations of the API, and those on the server itself: is it well, what do problems mean?"""

from __future__ import annotations

import sys
from html import escape
from typing import Literal

from starlette.responses import HTMLResponse, Response

from lagotto.errors import LagottoError
from lagotto.server import events
from lagotto.server.endpoints import documents, search, tasks
from lagotto.server.operations import Call, operation, operations_of, record
from lagotto.server.problems import Problem, problem_names, title_of

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
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'self'"}
Health = record("Health", {"status": Literal["ok"]})


@operation("GET /healthz", Health, scope=None)
async def health(call: Call) -> object:
    """Is the process there?"""
    return {"status": "ok"}


@operation("GET /readyz", Health, scope=None, problems=(503,))
async def ready(call: Call) -> object:
    """Can the base be searched? Not while the server is shutting down."""
    if call.state.stopping.is_set():
        raise Problem("Unavailable", "the server is shutting down")
    try:
        await call.state.embedder()
        await call.state.base.info()
    except LagottoError:
        raise Problem("Unavailable", "the base can't be used; the log has the reason") from None
    return {"status": "ok"}


@operation("GET /metrics", None, scope="admin", media_type="text/plain")
async def metrics(call: Call) -> Response:
    """Metrics of this process, for Prometheus."""
    text = call.state.metrics.text(call.state.readings())
    return Response(text, media_type="text/plain; version=0.0.4")


@operation("GET /problems/{name}", None, scope=None, media_type="text/html")
async def problem(call: Call) -> Response:
    """What a kind of problem means."""
    name = call.path("name")
    if name not in problem_names():
        raise Problem("NotFound", f"there is no kind of problem called {name!r}")
    return HTMLResponse(PAGE.format(name=name, text=escape(title_of(name))), headers=HEADERS)


STATUS_OPERATIONS = operations_of(sys.modules[__name__])
OPERATIONS = (*operations_of(search, events, tasks, documents), *STATUS_OPERATIONS)
