"""A server on a base as large as wanted, in processes of its own, and the load of many clients.

A client is a task with one connection, which sends a request when it has the last answer. It reads
no more of an answer than its status and its length: on a small machine the load generator and the
server share the CPUs, and a full HTTP client would take more of them than some servers do.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.server.serve import VARIABLE
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import Entry
from synthetic import Corpus

SERVER = """
import os
from lagotto.server.serve import VARIABLE, ServerSettings, serve
serve(ServerSettings.model_validate_json(os.environ[VARIABLE]))
"""
STAGE = re.compile(r'lagotto_search_duration_seconds_sum\{stage="(\w+)",[^}]*\} (\S+)')
Request = Callable[[int], bytes]
"""The bytes of the request with a number; no two clients ask for the same one."""


class EmbeddedCorpus(Corpus):
    """A corpus whose base takes queries and documents like one that MiniLM has made."""

    def entries(self) -> Iterator[Entry]:
        """The entries, as that embedder and the default chunker would have made them."""
        for entry in super().entries():
            chunks = [
                chunk.model_copy(update={"chunker_id": DEFAULT_CHUNKER}) for chunk in entry.chunks
            ]
            yield replace(entry, chunks=chunks, model_id="all-MiniLM-L6-v2", embedder="minilm")


@contextmanager
def serving(
    location: str, *, workers: int = 1, batching: bool = True, concurrency: int = 64, key: str = ""
) -> Iterator[tuple[str, int]]:
    """A server on the base; its address, and the id of its process, or of that of its workers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    settings = ServerSettings(
        location=location, port=port, workers=workers, batching=batching, concurrency=concurrency
    )
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**os.environ, VARIABLE: settings.model_dump_json()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(process, url)
        for _ in range(8 * workers):  # each worker loads its model and its indexes
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            httpx.post(f"{url}/v1/retrieve", json={"query": "warm up"}, headers=headers, timeout=60)
        yield url, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"no server answers at {url}")
        time.sleep(0.1)


def post(url: str, path: str, body: object, key: str = "") -> bytes:
    """The bytes of a request with a body of JSON."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
    head += f"Authorization: Bearer {key}\r\n" * bool(key)
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


def stages_of(url: str) -> dict[str, float]:
    """The share of each stage in the time of searches, in percent, from the metrics."""
    found = {name: float(value) for name, value in STAGE.findall(httpx.get(f"{url}/metrics").text)}
    total = found.pop("total", 0.0) or 1.0
    return {name: round(100 * value / total, 1) for name, value in found.items()}


def memory_of(pid: int) -> float:
    """Megabytes that a process and its children have in memory and share with nobody."""
    return _megabytes(pid, r"Private_\w+")


def anonymous_of(pid: int) -> float:
    """Megabytes of the heap, without mapped files, which the system may drop."""
    return _megabytes(pid, "Anonymous")


def _megabytes(pid: int, field: str) -> float:
    kilobytes = 0
    for each in (pid, *_children(pid)):
        text = Path(f"/proc/{each}/smaps_rollup").read_text()
        kilobytes += sum(map(int, re.findall(rf"^{field}:\s+(\d+)", text, re.MULTILINE)))
    return round(kilobytes / 1024, 1)


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text().split()]


def print_table(rows: list[dict[str, Any]]) -> None:
    """Rows as a Markdown table; what a row does not have is left out of it."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)]
    lines += [[str(row.get(name, "")) for name in names] for row in rows]
    for line in lines:
        print(f"| {' | '.join(line)} |")
