"""A real HTTP server on 127.0.0.1 that does what a test tells it to, faults included."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent; header names are lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer: `body` as it is if it is bytes, as JSON otherwise.

    `delay` seconds pass first; `drop` closes the connection without a word.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


Handler = Callable[[Request], Reply]


class ScriptedServer:
    """Answers POSTs by route; what `script` queued for a path comes first, one per request.

    Every request is kept in `requests`. Use it as a context manager; `url` is where it listens.
    """

    def __init__(self, routes: Mapping[str, Handler]) -> None:
        self.requests: list[Request] = []
        self._routes = dict(routes)
        self._scripts: dict[str, deque[Reply | Handler]] = defaultdict(deque)
        self._closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))
        self._http.daemon_threads = False  # so that closing waits for answers under way
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def url(self) -> str:
        """The root address, without a slash at its end."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def script(self, path: str, *replies: Reply | Handler) -> None:
        """Answer the next requests to `path` with these, then as usual again."""
        self._scripts[path].extend(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reply(self, request: Request) -> Reply:
        """The answer to a request, after its delay."""
        self.requests.append(request)
        script = self._scripts[request.path]
        chosen = script.popleft() if script else self._routes.get(request.path, _not_found)
        reply = chosen if isinstance(chosen, Reply) else chosen(request)
        self._closing.wait(reply.delay)
        return reply


def _not_found(request: Request) -> Reply:
    return Reply({"error": f"there is no {request.path}"}, status=404)


def _handler_class(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class RequestHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply(Request(self.path, headers, body))
            if reply.drop:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            try:
                self._send(reply)
            except ConnectionError:
                return  # the client has given up waiting

        def _send(self, reply: Reply) -> None:
            raw = isinstance(reply.body, bytes)
            body = reply.body if raw else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "text/plain" if raw else "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Keep the test's output clean."""

    return RequestHandler
