"""A model hub on 127.0.0.1, in the file layout of the Hugging Face hub, with faults on request."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True, slots=True)
class Fault:
    """How one answer goes wrong: another status, a connection that ends early, other headers."""

    status: int | None = None
    sent: int | None = None
    location: str | None = None
    chunked: bool = False
    content_range: str | None = None


NO_FAULT = Fault()


@dataclass
class LocalHub:
    """Serves `files` by their paths on the hub; ranges are served if their ETag is right.

    `faults` are used up, one per request. `requests` has the path and the Range header of every
    request so far.
    """

    files: dict[str, bytes]
    linked: Mapping[str, str] = field(default_factory=dict)
    etags: bool = True
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"


def _handler(hub: LocalHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            wanted = self.headers.get("range")
            hub.requests.append((self.path, wanted))
            fault = hub.faults.popleft() if hub.faults else NO_FAULT
            content = hub.files.get(self.path)
            if content is None or fault.status:
                self._send(fault.status or 404, b"no", {})
            elif fault.location:
                self._send(302, b"", {"Location": fault.location})
            else:
                self._send_file(content, wanted, fault)

        def _send_file(self, content: bytes, wanted: str | None, fault: Fault) -> None:
            etag = f'"{sha256(content).hexdigest()[:20]}"'
            headers = {"ETag": etag} if hub.etags else {}
            if self.path in hub.linked:
                headers["X-Linked-Etag"] = f'"{hub.linked[self.path]}"'
            if not wanted or self.headers.get("if-range") != etag:
                self._send(200, content, headers, fault)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self._send(416, b"", {})
                return
            range_ = fault.content_range or f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206, content[start:], {**headers, "Content-Range": range_}, fault)

        def _send(
            self, status: int, body: bytes, headers: Mapping[str, str], fault: Fault = NO_FAULT
        ) -> None:
            self.send_response(status)
            if not fault.chunked:
                self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body if fault.sent is None else body[: fault.sent])
            except ConnectionError:
                return  # the client has seen enough

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    return Handler
