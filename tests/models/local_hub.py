"""A model hub on 127.0.0.1, in the file layout of the Hugging Face hub, with faults on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from tests.servers.scripted import Reply, Request, ScriptedServer


@dataclass(frozen=True, slots=True)
class Fault:
    """How one answer goes wrong: another status, a connection that ends early, other headers."""

    status: int | None = None
    sent: int | None = None
    location: str | None = None
    chunked: bool = False
    content_range: str | None = None


class LocalHub(ScriptedServer):
    """Serves `files` by their paths on the hub; ranges are served if their ETag is right.

    `faults` are used up, one per request. `fetched` has the path and the Range header of every
    request so far.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__({})
        self.files = files
        self.linked: Mapping[str, str] = {}
        self.etags = True
        self.faults: deque[Fault] = deque()
        self.fetched: list[tuple[str, str | None]] = []

    def reply(self, request: Request) -> Reply:
        wanted = request.headers.get("range")
        self.fetched.append((request.path, wanted))
        fault = self.faults.popleft() if self.faults else Fault()
        content = self.files.get(request.path)
        if content is None or fault.status:
            return Reply(b"no", status=fault.status or 404)
        if fault.location:
            return Reply(status=302, headers={"Location": fault.location})
        etag = f'"{sha256(content).hexdigest()[:20]}"'
        headers = {"ETag": etag} if self.etags else {}
        if request.path in self.linked:
            headers["X-Linked-Etag"] = f'"{self.linked[request.path]}"'
        status = 200
        if wanted and request.headers.get("if-range") == etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return Reply(status=416)
            sent = f"bytes {start}-{len(content) - 1}/{len(content)}"
            headers["Content-Range"] = fault.content_range or sent
            status, content = 206, content[start:]
        return Reply(
            content, status=status, headers=headers, sent=fault.sent, sized=not fault.chunked
        )
