"""Requests per second of a server, and how long each takes, embedding included.

    python benchmarks/serve.py [--chunks 10000,100000] [--clients 1,8,32] [--seconds 5]
                               [--workers 1,2] [--json]

A base with the texts of scale.py, vectors of that size, and MiniLM for the queries; the server is
`lagotto serve` as a process of its own, on the loopback interface, with and without batching of
queries. A client sends one query after the other on one connection; the clients are tasks of
one process, which takes CPU time from the server on a small machine. The settings of one number of
clients are measured one after another. Milliseconds; the share of each stage is from /metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import numpy as np

from lagotto.server.serve import VARIABLE
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import Entry
from scale import Corpus, build, temporary_location

MODEL, EMBEDDER = "all-MiniLM-L6-v2", "minilm"
SERVER = "from lagotto.server.serve import serve_environment; serve_environment()"
STAGE = re.compile(r'lagotto_search_duration_seconds_sum\{stage="(\w+)",[^}]*\} (\S+)')


class EmbeddedCorpus(Corpus):
    """A corpus whose base takes queries from a real embedder."""

    def entries(self) -> Iterator[Entry]:
        """The entries, as that embedder would have made them."""
        for entry in super().entries():
            yield replace(entry, model_id=MODEL, embedder=EMBEDDER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", default="10000")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--workers", default="1")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = []
    for chunks in map(int, options.chunks.split(",")):
        with temporary_location("sqlite") as location:
            corpus = EmbeddedCorpus(chunks)
            asyncio.run(build(location, corpus, None))
            queries = [query.text for query in corpus.queries(200)]
            for workers in map(int, options.workers.split(",")):
                for batching in (True, False):
                    with serving(location, workers=workers, batching=batching) as url:
                        for clients in map(int, options.clients.split(",")):
                            measured = asyncio.run(load(url, queries, clients, options.seconds))
                            row = {
                                "chunks": chunks, "workers": workers, "batching": batching,
                                "clients": clients, **measured,
                            }  # fmt: skip
                            figures.append(row)
                            if not options.json:
                                print(row, flush=True)
                        stages = stages_of(url)
                    if not options.json:
                        print({"stages": stages}, flush=True)
    if options.json:
        print(json.dumps(figures, indent=2))


@contextmanager
def serving(location: str, *, workers: int, batching: bool) -> Iterator[str]:
    """A server on the base, in processes of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = ServerSettings(
        location=location, port=port, workers=workers, batching=batching, concurrency=64
    )
    environment = {**os.environ, VARIABLE: settings.model_dump_json()}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


async def load(url: str, queries: list[str], clients: int, seconds: float) -> dict[str, float]:
    """What so many clients at once measure in so many seconds."""
    spent: list[float] = []
    failed = 0
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal failed
        async with httpx.AsyncClient(timeout=60) as http:
            index = number
            while time.perf_counter() < until:
                started = time.perf_counter()
                body = {"query": queries[index % len(queries)]}
                answer = await http.post(f"{url}/v1/retrieve", json=body)
                failed += answer.status_code != 200
                spent.append(1000 * (time.perf_counter() - started))
                index += clients

    started = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    took = time.perf_counter() - started
    p50, p95, p99 = (round(float(value), 1) for value in np.percentile(spent, (50, 95, 99)))
    return {
        "requests_s": round(len(spent) / took, 1), "p50": p50, "p95": p95, "p99": p99,
        "errors": failed,
    }  # fmt: skip


def stages_of(url: str) -> dict[str, float]:
    """The share of each stage in the time of searches, in percent."""
    found = {name: float(value) for name, value in STAGE.findall(httpx.get(f"{url}/metrics").text)}
    total = found.pop("total", 0.0) or 1.0
    return {name: round(100 * value / total, 1) for name, value in found.items()}


if __name__ == "__main__":
    main()
