"""What every request passes: its id and log line, what browsers may do, clients that leave."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import MutableHeaders
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagotto.server.problems import LOGGER, Problem, problem_response

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

FOREIGN = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site. Another port of this machine is the same site, and may be anybody's."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer that does not say otherwise: browsers neither guess its type, nor show it to
pages of other sites, nor keep it for the next user of the machine."""


class HttpMiddleware(ABC):
    """Passes what is no request, the start and the end of the server, on to `app`. Pure ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class RequestLog(HttpMiddleware):
    """Gives each answer an id and HEADERS, logs it, and turns failures into a problem."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # the id that the caller or a proxy gave, if it has the form of one
        request_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = request_id if _REQUEST_ID.fullmatch(request_id) else uuid4().hex
        scope["request_id"], scope["started"] = request_id, time.monotonic()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in (*HEADERS.items(), ("X-Request-Id", request_id)):
                    headers.setdefault(name, value)
            elif not message.get("more_body", False):
                _log(scope, status)  # before the caller can ask for the metrics
            await send(message)

        problem = None
        try:
            with callers_trace(scope["headers"]):
                await self.app(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # by the server: clients that leave are seen to before
            problem = Problem("Unavailable", "the server is ending; send the request again")
        except Exception as exc:  # noqa: BLE001 the edge of the server
            scope["failure"] = exc
            detail = "the server failed; its log has more under the request id"
            problem = Problem("InternalError", detail)
        if problem and not status:
            response = problem_response(HttpRequest(scope), problem)
            await response(scope, receive, send_with_headers)
        _log(scope, status)


def _log(scope: Scope, status: int) -> None:
    if scope.setdefault("logged", False):
        return
    scope["logged"] = True
    operation = scope.get("operation")
    seconds = time.monotonic() - scope["started"]
    outcome = status or 499  # the client was gone before the answer
    if state := scope["state"].get("server"):
        state.metrics.count_request(operation or "none", outcome, seconds)
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
    entry = {name: value for name, value in line.items() if value is not None}
    if failure is not None:
        entry["error"] = "".join(traceback.format_exception(failure))
    LOGGER.log(logging.ERROR if failure else logging.INFO, json.dumps(entry))


@contextmanager
def callers_trace(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """Make the trace of a request's headers the current one, unless there is one already.

    Like spans, only if the program has loaded OpenTelemetry.
    """
    with ExitStack() as stack:
        if "opentelemetry.trace" in sys.modules:
            from opentelemetry import context, propagate, trace

            if not trace.get_current_span().get_span_context().is_valid:
                carrier = {name.decode("latin-1"): text.decode("latin-1") for name, text in headers}
                stack.callback(context.detach, context.attach(propagate.extract(carrier)))
        yield


class BrowserGuard(HttpMiddleware):
    """Refuses what pages of other sites ask for, unless their origin is `allowed`.

    A browser sends whatever a page asks for, with the network of its user: `<img>` and `<object>`
    run a search, and tell the page whether it succeeded. Browsers name the page that asks (Origin),
    or how it is related to the server (Sec-Fetch-Site), which no page can change. Links may lead to
    `views`, the addresses of pages that are the same for everybody.
    """

    def __init__(self, app: ASGIApp, *, allowed: Collection[str], views: Collection[str]) -> None:
        super().__init__(app)
        self._allowed = allowed
        self._views = views

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, http = self.app, HttpRequest(scope)
        if self._is_foreign(http):
            refused = "pages of other sites may not use this server; see --cors-origin"
            app = problem_response(http, Problem("Forbidden", refused))
        await app(scope, receive, send)

    def _is_foreign(self, http: HttpRequest) -> bool:
        origin = http.headers.get("origin")
        if origin in self._allowed:
            return False
        if origin is not None:
            try:
                is_own = urlsplit(origin).netloc == http.headers.get("host")
            except ValueError:  # `http://[`
                is_own = False
            if not is_own:
                return True
        if http.headers.get("sec-fetch-site") not in FOREIGN:
            return False
        # a view is shown by itself, not in a frame of another page
        navigation = http.headers.get("sec-fetch-mode"), http.headers.get("sec-fetch-dest")
        return http.url.path not in self._views or navigation != ("navigate", "document")


class CancelOnDisconnect(HttpMiddleware):
    """Cancels the work on a request when its client disconnects.

    Once the body is complete, nobody but this waits for messages, and the application
    is told of the disconnect here.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        complete, gone = asyncio.Event(), asyncio.Event()

        async def next_message() -> Message:
            if complete.is_set():
                await gone.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                complete.set()
            return message

        working = asyncio.ensure_future(self.app(scope, next_message, send))

        async def watch() -> None:
            await complete.wait()
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()
            working.cancel()

        watching = asyncio.create_task(watch())
        try:
            await asyncio.wait([working])
            with suppress(asyncio.CancelledError):
                await working
        finally:
            for task in (watching, working):
                task.cancel()
            await asyncio.wait([watching, working])
