"""Requests per second of a server, and how long each takes, embedding included.

    python benchmarks serve [--chunks 10000,100000] [--clients 1,8,32] [--seconds 4]
                               [--workers 1,2] [--vectors] [--mixed 0] [--mixed-clients 9]

A base with the texts of scale.py, vectors of that size, and MiniLM for the queries; the server is
`lagotto serve` in processes of its own, on the loopback interface, with and without batches of
queries. Every query is a new one, so none is in the cache. The clients are tasks of one process,
which takes CPU time from the server on a small machine. Batches on and off are measured in turns,
twice, and the better figure counts. Milliseconds; the share of each stage is from /metrics.

With `--vectors` requests bring their vectors, and nothing is embedded.

`--mixed SECONDS` is for reads and writes at once, on the last base: of so many clients an eighth,
but at least one, adds documents, replaces them, removes them and reads them, and all others search.
It prints errors, the time until an upload is acknowledged, and the memory of the server over time,
as far as it shares it with nobody: all of it, and the heap without mapped files. With
MALLOC_ARENA_MAX=16 in the environment it is that of a server that leaves malloc as it is.

    python benchmarks serve --clients 1 --vectors              # one client with vectors
    python benchmarks serve --clients '' --mixed 180 --mixed-clients 32
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from typing import Any

import numpy as np

from load import (
    Connection,
    EmbeddedCorpus,
    anonymous_of,
    get,
    load,
    memory_of,
    post,
    print_table,
    serving,
    stages_of,
)
from places import temporary_place
from synthetic import build

Row = dict[str, Any]
ROUNDS = 2
WRITERS = 8
"""One of so many mixed clients writes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", default="10000")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--workers", default="1")
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--mixed", type=float, default=0.0)
    parser.add_argument("--mixed-clients", type=int, default=9)
    options = parser.parse_args()
    sizes = [int(size) for size in options.chunks.split(",")]
    clients = [int(count) for count in options.clients.split(",") if count]
    rows: list[Row] = []
    for chunks in sizes:
        with temporary_place("sqlite") as place:
            location = place.location
            corpus = EmbeddedCorpus(chunks)
            asyncio.run(build(location, corpus, None))
            queries = [
                {"query": query.text, "query_vector": query.vector.tolist()}
                if options.vectors
                else {"query": query.text}
                for query in corpus.queries(400)
            ]
            for workers in map(int, options.workers.split(",") if clients else ()):
                about = {"chunks": chunks, "workers": workers}
                found = measured(location, queries, workers, clients, options.seconds)
                rows += [{**about, **row} for row in found]
            if options.mixed and chunks == sizes[-1]:
                found = [mixed(location, queries, options.mixed, options.mixed_clients)]
                rows += [{"chunks": chunks, "mixed_s": options.mixed, **row} for row in found]
    print_table(rows)


def measured(
    location: str, queries: list[Row], workers: int, clients: list[int], seconds: float
) -> list[Row]:
    """The figures of one base and one number of workers."""
    best: dict[tuple[bool, int], Row] = {}
    stages: list[Row] = []
    for number in range(ROUNDS):
        for batching in (True, False):
            with serving(location, workers=workers, batching=batching) as (url, pid):
                for count in clients:
                    found = asyncio.run(searches(url, queries, count, seconds / ROUNDS))
                    row = {"batching": batching, "clients": count, **found}
                    former = best.get((batching, count))
                    if former is None or found["requests_s"] > former["requests_s"]:
                        best[batching, count] = row
                if number == 0 and batching:
                    stages = [{"memory_mb": memory_of(pid), "stages": stages_of(url)}]
    return [best[key] for key in sorted(best, key=lambda key: (key[1], not key[0]))] + stages


async def searches(url: str, queries: list[Row], clients: int, seconds: float) -> dict[str, float]:
    """What so many clients measure; each query has a number of its own."""
    start = time.monotonic_ns() % 10**9

    def request(number: int) -> bytes:
        wanted = queries[number % len(queries)]
        return post(url, "/v1/retrieve", {**wanted, "query": f"{wanted['query']} {start + number}"})

    return await load(url, request, clients=clients, seconds=seconds)


def mixed(location: str, queries: list[Row], seconds: float, clients: int) -> Row:
    """Reads and writes at once."""
    with serving(location, batching=False) as (url, pid):
        return asyncio.run(_mixed(url, pid, queries, seconds, clients))


async def _mixed(url: str, pid: int, queries: list[Row], seconds: float, clients: int) -> Row:
    memory: list[float] = []
    heap: list[float] = []
    written: Counter[str] = Counter()
    acknowledged: list[float] = []

    async def watch() -> None:
        while True:
            memory.append(memory_of(pid))
            heap.append(anonymous_of(pid))
            await asyncio.sleep(max(1.0, seconds / 60))

    writers = max(1, clients // WRITERS)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        texts = [query["query"] for query in queries]
        writing = [
            group.create_task(_write(url, number, texts, seconds, written, acknowledged))
            for number in range(writers)
        ]
        found = await searches(url, queries, clients - writers, seconds)
        await asyncio.gather(*writing)
        watching.cancel()
    p50, p99 = np.percentile(acknowledged, (50, 99)).round(1).tolist()
    return {
        "clients": clients, **found, "acknowledged_p50": p50, "acknowledged_p99": p99,
        **written, "memory_mb": over_time(memory), "heap_mb": over_time(heap),
    }  # fmt: skip


def over_time(values: list[float]) -> str:
    """The first, the median of each quarter, and the largest."""
    quarters = [round(float(np.median(part))) for part in np.array_split(values, 4) if len(part)]
    return f"{values[0]:.0f}: {' '.join(map(str, quarters))}, most {max(values):.0f}"


async def _write(
    url: str, writer: int, texts: list[str], seconds: float, done: Counter[str],
    acknowledged: list[float],
) -> None:  # fmt: skip
    """Add, replace, remove and read, one after another; what fails is counted as errors."""
    connection = Connection(url)
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        number += 1
        name = f"new{writer}-{number % 50}"
        text = f"{number} {texts[number % len(texts)]}. " * 40
        asked = post(url, "/v1/documents", {"documents": [{"id": name, "text": text}]})
        started = time.perf_counter()
        status, answer = await connection.ask(asked)
        acknowledged.append(1000 * (time.perf_counter() - started))
        if status != 202 or not await _ended(url, connection, json.loads(answer)["id"]):
            done["errors"] += 1
            continue
        done["added"] += 1
        status, answer = await connection.ask(get(url, f"/v1/documents/{name}"))
        done["errors"] += status != 200 or json.loads(answer)["text"] != text
        if number % 5 == 0:
            status, _ = await connection.ask(
                post(url, "/v1/documents/remove", {"ids": [name], "collection": "default"})
            )
            done["removed" if status == 200 else "errors"] += 1
    connection.close()


async def _ended(url: str, connection: Connection, task: str) -> bool:
    """Whether a task succeeds."""
    while True:
        status, answer = await connection.ask(get(url, f"/v1/tasks/{task}"))
        state = json.loads(answer)["state"] if status == 200 else "failed"
        if state not in ("enqueued", "processing"):
            return bool(state == "succeeded")
        await asyncio.sleep(0.02)
