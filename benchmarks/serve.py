"""Requests per second of a server, and how long each takes, embedding included.

    python benchmarks serve [--chunks 10000,100000] [--clients 1,8,32] [--seconds 4]
                               [--workers 1,2] [--mixed 0]

A base with the texts of scale.py, vectors of that size, and MiniLM for the queries; the server is
`lagotto serve` in processes of its own, on the loopback interface, with and without batches of
queries. Every query is a new one, so none is in the cache. The clients are tasks of one process,
which takes CPU time from the server on a small machine. Batches on and off are measured in turns,
twice, and the better figure counts. Milliseconds; the share of each stage is from /metrics.

`--mixed SECONDS` is for reads and writes at once, on the last base: 8 clients search, one adds
documents, replaces them, removes them and reads them; errors, and the memory of the server over
time, as far as it shares it with nobody: all of it, and the heap without mapped files. With
MALLOC_ARENA_MAX=16 in the environment it is that of a server that leaves malloc as it is.
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
    serving,
    stages_of,
)
from places import temporary_place
from synthetic import build

Row = dict[str, Any]
ROUNDS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", default="10000")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--workers", default="1")
    parser.add_argument("--mixed", type=float, default=0.0)
    options = parser.parse_args()
    sizes = [int(size) for size in options.chunks.split(",")]
    clients = [int(count) for count in options.clients.split(",")]
    for chunks in sizes:
        with temporary_place("sqlite") as place:
            location = place.location
            corpus = EmbeddedCorpus(chunks)
            asyncio.run(build(location, corpus, None))
            texts = [query.text for query in corpus.queries(400)]
            for workers in map(int, options.workers.split(",")):
                measured(location, texts, workers, clients, options.seconds, chunks)
            if options.mixed and chunks == sizes[-1]:
                mixed(location, texts, options.mixed, chunks)


def measured(
    location: str, texts: list[str], workers: int, clients: list[int], seconds: float, chunks: int
) -> None:
    """The figures of one base and one number of workers."""
    best: dict[tuple[bool, int], Row] = {}
    stages: list[Row] = []
    for number in range(ROUNDS):
        for batching in (True, False):
            with serving(location, workers=workers, batching=batching) as (url, pid):
                for count in clients:
                    found = asyncio.run(searches(url, texts, count, seconds / ROUNDS))
                    row = {"chunks": chunks, "workers": workers, "batching": batching,
                           "clients": count, **found}  # fmt: skip
                    former = best.get((batching, count))
                    if former is None or found["requests_s"] > former["requests_s"]:
                        best[batching, count] = row
                if number == 0 and batching:
                    stages = [{"chunks": chunks, "workers": workers, "memory_mb": memory_of(pid),
                               "stages": stages_of(url)}]  # fmt: skip
    rows = [best[key] for key in sorted(best, key=lambda key: (key[1], not key[0]))] + stages
    for row in rows:
        print(row, flush=True)


async def searches(url: str, texts: list[str], clients: int, seconds: float) -> dict[str, float]:
    """What so many clients measure; each query has a number of its own."""
    start = time.monotonic_ns() % 10**9

    def request(number: int) -> bytes:
        query = f"{texts[number % len(texts)]} {start + number}"
        return post(url, "/v1/retrieve", {"query": query})

    return await load(url, request, clients=clients, seconds=seconds)


def mixed(location: str, texts: list[str], seconds: float, chunks: int) -> None:
    """Reads and writes at once."""
    with serving(location, batching=False) as (url, pid):
        found = asyncio.run(_mixed(url, pid, texts, seconds))
    print({"chunks": chunks, "mixed_s": seconds, **found}, flush=True)


async def _mixed(url: str, pid: int, texts: list[str], seconds: float) -> Row:
    memory: list[float] = []
    heap: list[float] = []
    written: Counter[str] = Counter()

    async def watch() -> None:
        while True:
            memory.append(memory_of(pid))
            heap.append(anonymous_of(pid))
            await asyncio.sleep(max(1.0, seconds / 60))

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        writing = group.create_task(_write(url, texts, seconds, written))
        found = await searches(url, texts, 8, seconds)
        await writing
        watching.cancel()
    sizes = {"memory_mb": over_time(memory), "heap_mb": over_time(heap)}
    return {**found, "writes": dict(written), **sizes}


def over_time(values: list[float]) -> Row:
    """The first, the median of each quarter, and the largest."""
    quarters = [round(float(np.median(part)), 1) for part in np.array_split(values, 4) if len(part)]
    return {"start": values[0], "quarters": quarters, "most": max(values)}


async def _write(url: str, texts: list[str], seconds: float, done: Counter[str]) -> None:
    """Add, replace, remove and read, one after another; what fails is counted as errors."""
    connection = Connection(url)
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        number += 1
        name = f"new{number % 50}"
        text = f"{number} {texts[number % len(texts)]}. " * 40
        status, answer = await connection.ask(
            post(url, "/v1/documents", {"documents": [{"id": name, "text": text}]})
        )
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
