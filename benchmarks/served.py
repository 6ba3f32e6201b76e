"""A base as large as wanted, and the server on it in processes of its own, for benchmarks."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.server.serve import VARIABLE
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import Entry
from scale import Corpus

MODEL, EMBEDDER = "all-MiniLM-L6-v2", "minilm"
SERVER = "from lagotto.server.serve import serve_environment; serve_environment()"
STAGE = re.compile(r'lagotto_search_duration_seconds_sum\{stage="(\w+)",[^}]*\} (\S+)')


class EmbeddedCorpus(Corpus):
    """A corpus whose base takes queries and documents like one that MiniLM has made."""

    def entries(self) -> Iterator[Entry]:
        """The entries, as that embedder and the default chunker would have made them."""
        for entry in super().entries():
            chunks = [
                chunk.model_copy(update={"chunker_id": DEFAULT_CHUNKER}) for chunk in entry.chunks
            ]
            yield replace(entry, chunks=chunks, model_id=MODEL, embedder=EMBEDDER)


@contextmanager
def serving(location: str, *, workers: int = 1, batching: bool = True) -> Iterator[tuple[str, int]]:
    """A server on the base; its address, and the id of its process, or of that of its workers."""
    port = free_port()
    settings = ServerSettings(
        location=location, port=port, workers=workers, batching=batching, concurrency=64
    )
    environment = {**os.environ, VARIABLE: settings.model_dump_json()}
    url = f"http://127.0.0.1:{port}"
    with running([sys.executable, "-c", SERVER], url=url, ready="/readyz", env=environment) as pid:
        for _ in range(8 * workers):  # each worker loads its model and its indexes
            httpx.post(f"{url}/v1/retrieve", json={"query": "warm up"}, timeout=60)
        yield url, pid


@contextmanager
def running(
    command: Sequence[str], *, url: str, ready: str, env: dict[str, str], cwd: Path | None = None
) -> Iterator[int]:
    """A server of any kind that answers at `ready`; ended by SIGTERM."""
    process = subprocess.Popen(
        command, env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 120
        while True:
            try:
                if httpx.get(url + ready).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command[0]} does not answer at {url}{ready}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


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
