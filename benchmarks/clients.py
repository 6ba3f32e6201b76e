"""Many clients search one base at once: queries per second, and how long each query takes.

    python benchmarks/clients.py [--store sqlite|postgresql] [--clients 1,8] [--chunks 100000]
                                 [--queries 100] [--json]

The texts, vectors and queries of scale.py; hybrid searches, query vectors given. A client is a
process of its own, or a task of one process that all share. Each one warms up, all start together,
and each runs so many queries of its own, one after the other. Milliseconds of wall time; queries
per second from the start until the last client has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from threading import Barrier
from typing import NamedTuple

import numpy as np

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from places import temporary_location
from scale import Corpus, GivenVectors, Query, build

WARM_UP = 20
PATIENCE = 300.0
"""Seconds that clients wait for the slowest one to be ready."""


class Run(NamedTuple):
    """When a client began and ended, and how long each of its queries took, in seconds."""

    began: float
    ended: float
    latencies: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="postgresql")
    parser.add_argument("--clients", default="1,8")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {}
    with temporary_location(options.store) as location:
        corpus = Corpus(options.chunks)
        asyncio.run(build(location, corpus, None))
        for clients in map(int, options.clients.split(",")):
            shares = _shares(corpus, clients, options.queries)
            for kind, run in (("processes", in_processes), ("tasks", in_tasks)):
                figures[f"{clients} {kind}"] = summary(run(location, shares))
    if options.json:
        print(json.dumps({options.store: figures}, indent=2))
    else:
        _print(f"{options.store}, {options.chunks} chunks", figures)


def _shares(corpus: Corpus, clients: int, count: int) -> list[list[Query]]:
    """Queries of its own for each client, first those to warm up with."""
    each = WARM_UP + count
    queries = corpus.queries(clients * each)
    return [queries[start : start + each] for start in range(0, len(queries), each)]


def in_processes(location: str, shares: Sequence[list[Query]]) -> list[Run]:
    """Each client as a process, which opens the base for itself."""
    context, count = get_context("spawn"), len(shares)
    with context.Manager() as manager, ProcessPoolExecutor(count, mp_context=context) as pool:
        barrier = manager.Barrier(count, timeout=PATIENCE)
        return list(pool.map(_process, [location] * count, shares, [barrier] * count))


def _process(location: str, queries: list[Query], barrier: Barrier) -> Run:
    async def all_are_ready() -> None:
        barrier.wait()

    async def run() -> Run:
        async with _base(location, queries) as base:
            return await _client(base, queries, all_are_ready)

    return asyncio.run(run())


def in_tasks(location: str, shares: Sequence[list[Query]]) -> list[Run]:
    """Each client as a task; all of them share one open base."""

    async def run() -> list[Run]:
        barrier = asyncio.Barrier(len(shares))
        async with _base(location, [query for share in shares for query in share]) as base:
            return await asyncio.gather(*(_client(base, share, barrier.wait) for share in shares))

    return asyncio.run(run())


def _base(location: str, queries: Sequence[Query]) -> AsyncKnowledgeBase:
    embedder = GivenVectors()
    embedder.vectors = {query.text: query.vector for query in queries}
    return AsyncKnowledgeBase(location, embedder=embedder)


async def _client(
    base: AsyncKnowledgeBase,
    queries: Sequence[Query],
    all_are_ready: Callable[[], Awaitable[object]],
) -> Run:
    for query in queries[:WARM_UP]:
        await base.retrieve(query.text)
    await all_are_ready()
    moments = [time.perf_counter()]
    for query in queries[WARM_UP:]:
        await asyncio.sleep(0)  # other tasks run: an embedded base may answer without waiting
        await base.retrieve(query.text)
        moments.append(time.perf_counter())
    return Run(moments[0], moments[-1], np.diff(moments).tolist())


def summary(runs: Sequence[Run]) -> dict[str, float]:
    """Throughput of all clients together, and percentiles over all queries."""
    latencies = np.concatenate([run.latencies for run in runs])
    span = max(run.ended for run in runs) - min(run.began for run in runs)
    figures = {"queries_per_s": len(latencies) / span}
    for share in (50, 95):
        figures[f"p{share}_ms"] = 1000 * float(np.percentile(latencies, share))
    return {name: round(value, 1) for name, value in figures.items()}


def _print(title: str, figures: dict[str, dict[str, float]]) -> None:
    print(f"{title:32} {'queries/s':>10} {'p50 ms':>8} {'p95 ms':>8}")
    for name, row in figures.items():
        print(f"{name:32} {row['queries_per_s']:10.1f} {row['p50_ms']:8.1f} {row['p95_ms']:8.1f}")


if __name__ == "__main__":
    main()
