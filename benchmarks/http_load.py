"""Requests over loopback, as many as so many clients get answered in a time.

A client is a task with one connection, which sends a request when it has the last answer. It reads
no more of an answer than its status and its length: on a small machine the load generator and the
server share the CPUs, and a full HTTP client would take more of them than some servers do.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np

Request = Callable[[int], bytes]
"""The bytes of the request with a number; no two clients ask for the same one."""


def post(url: str, path: str, body: object) -> bytes:
    """The bytes of a request with a body of JSON."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
    return (
        f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        + data
    )


def get(url: str, path: str) -> bytes:
    """The bytes of a request without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n\r\n".encode()


class Connection:
    """A connection that is kept."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer; 0 if the connection broke."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=2**24)
        reader, writer = self._streams
        writer.write(request)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = await self._body(reader, head)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            return 0, b""
        return int(head.split(b" ", 2)[1]), body

    async def _body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
        _, _, after = head.partition(b"content-length:")
        if after:
            return await reader.readexactly(int(after.partition(b"\r\n")[0]))
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def load(url: str, request: Request, *, clients: int, seconds: float) -> dict[str, float]:
    """Requests per second, milliseconds and failures, of so many clients at once."""
    spent: list[float] = []
    statuses: Counter[int] = Counter()
    number = 0
    until = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal number
        connection = Connection(url)
        while time.perf_counter() < until:
            number += 1
            asked, started = request(number), time.perf_counter()
            status, _ = await connection.ask(asked)
            spent.append(1000 * (time.perf_counter() - started))
            statuses[status] += 1
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.perf_counter() - started
    p50, p95, p99 = (round(float(value), 1) for value in np.percentile(spent, (50, 95, 99)))
    failed = sum(count for status, count in statuses.items() if not 200 <= status < 300)
    return {
        "requests_s": round(len(spent) / took, 1), "p50": p50, "p95": p95, "p99": p99,
        "errors": failed,
    }  # fmt: skip
