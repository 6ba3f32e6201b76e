"""An HTTP server on 127.0.0.1 whose replies a test decides, faults included."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Request:
    """A request; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: `body` is sent as it is if it is bytes, else as JSON.

    It is sent after `delay` seconds; `drop` closes the connection without a response.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


Handler = Callable[[Request], Reply]


class ScriptedServer:
    """Answers requests by route; replies queued with `script` come first, one per request.

    `requests` has every request so far. The server listens at `url` inside of a `with` block.
    """

    def __init__(self, routes: Mapping[str, Handler]) -> None:
        self.requests: list[Request] = []
        self._routes = dict(routes)
        self._scripts: dict[str, deque[Reply | Handler]] = defaultdict(deque)
        self._closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))
        self._http.daemon_threads = False  # closing waits for replies under way
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def url(self) -> str:
        """The root URL, without a trailing slash."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def script(self, path: str, *replies: Reply | Handler) -> None:
        """Queue replies for the next requests to `path`; after them its route answers again."""
        self._scripts[path].extend(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reply(self, request: Request) -> Reply:
        """The reply to a request, after its delay."""
        self.requests.append(request)
        script = self._scripts[request.path]
        chosen = script.popleft() if script else self._routes.get(request.path, _not_found)
        reply = chosen if isinstance(chosen, Reply) else chosen(request)
        self._closing.wait(reply.delay)
        return reply


def _not_found(request: Request) -> Reply:
    return Reply({"error": f"no route for {request.path}"}, status=404)


def _handler_class(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class RequestHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply(Request(self.path, headers, body, self.command))
            if reply.drop:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            try:
                self._send(reply)
            except ConnectionError:
                return  # the client timed out

        def do_GET(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.do_POST()

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
            """Log nothing."""

    return RequestHandler
