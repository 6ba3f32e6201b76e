"""One line of JSON per request, without queries and texts; what fails unforeseen ends here."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import traceback
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagotto.server.callers_trace import callers_trace
from lagotto.server.problems import MEDIA_TYPE, Problem

LOGGER = logging.getLogger("lagotto.server")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLog:
    """Gives each request an id, logs its outcome, and turns failures into a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["request_id"] = request_id = _request_id(scope)
        scope["started"] = time.monotonic()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            elif not message.get("more_body", False):
                _log(scope, status)  # before the caller can ask for the metrics
            await send(message)

        try:
            with callers_trace(scope["headers"]):
                await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            _log(scope, status)
            raise
        except Exception as exc:  # noqa: BLE001 the edge of the server
            scope["failure"] = exc
            if not status:
                await _send_failure(send_with_id, request_id)
        _log(scope, status)


def _request_id(scope: Scope) -> str:
    """The id that the caller or a proxy gave, if it has the form of one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _REQUEST_ID.fullmatch(given) else uuid4().hex


async def _send_failure(send: Send, request_id: str) -> None:
    problem = Problem("InternalError", "the server failed; its log has more under the request id")
    body = problem.details(request_id).model_dump_json().encode()
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _log(scope: Scope, status: int) -> None:
    """Log and count a request, once."""
    if scope.setdefault("logged", False):
        return
    scope["logged"] = True
    operation = scope.get("operation")  # a name, see mounting.py
    seconds = time.monotonic() - scope["started"]
    outcome = status or 499  # the client was gone before the answer
    if state := scope["state"].get("server"):
        state.count_request(operation or "none", outcome, seconds)
    failure = scope.get("failure")
    if not LOGGER.isEnabledFor(logging.INFO) and failure is None:
        return
    line = {
        "request_id": scope["request_id"],
        "method": scope["method"],
        "operation": operation,
        "status": outcome,
        "ms": round(1000 * seconds, 1),
        "key": scope.get("key_id"),
        "problem": scope.get("problem"),
        "query": scope.get("logged_query"),
    }
    told = {name: value for name, value in line.items() if value is not None}
    if failure is not None:
        told["error"] = "".join(traceback.format_exception(failure))
    LOGGER.log(logging.ERROR if failure else logging.INFO, json.dumps(told))
