"""From how many vectors on pgvector's HNSW graph pays, against a scan of all of them.

    python benchmarks/graph.py [--chunks 2000,5000,10000,20000,50000] [--queries 100] [--k 100]

The corpus of `scale.py`, in a base on a server started for the occasion. Both ways answer the same
queries in turn, as the semantic leg asks them, a statement each: wall time in milliseconds as a
median, and the mean CPU time of the server, workers included (Linux only). Recall is the share of
the scan's nearest `k` that the graph finds; the plan is the server's, for the graph's statement.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lagotto.filters import And
from lagotto.indexes.base import Hits
from lagotto.stores.postgres import vector_index
from lagotto.stores.postgres.database import create_single
from lagotto.stores.postgres.store import PostgresStore
from lagotto.stores.postgres.types import VectorParameter
from lagotto.stores.postgres.vector_index import _NEAR, MARGIN, PgVectors
from lagotto.stores.sql.view import SqlView
from places import temporary_location
from scale import Corpus, Query, build


@dataclass(slots=True)
class Way:
    """One way of finding the nearest vectors, and what it took; `server` runs the statements."""

    search: Callable[[Query], Awaitable[Hits]]
    server: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def take(self, query: Query) -> Hits:
        """Search, and take the time."""
        cpu, started = cpu_of(self.server), time.perf_counter()
        found = await self.search(query)
        self.wall.append(1000 * (time.perf_counter() - started))
        self.cpu.append(cpu_of(self.server) - cpu)
        return found

    def __str__(self) -> str:
        half = len(self.wall) // 2  # the first round warms up
        return f"{np.median(self.wall[half:]):6.2f} wall {np.mean(self.cpu[half:]):6.2f} CPU"


def cpu_of(process: int) -> float:
    """Milliseconds of CPU time of a server process, and of the workers that have ended."""
    status = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    parent = Path(f"/proc/{status[1]}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    own = int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0])
    return own / 1e6 + sum(map(int, parent[13:15])) * 1000 / os.sysconf("SC_CLK_TCK")


async def measure(chunks: int, queries: int, k: int) -> str:
    """A line of figures for one size."""
    with temporary_location("postgresql") as location:
        corpus = Corpus(chunks)
        vector_index.GRAPH_FROM = chunks + 1
        await build(location, corpus, None)
        vector_index.GRAPH_FROM = 1
        store = PostgresStore(location)
        await store.open()
        started = time.perf_counter()
        await vector_index.build_graph(create_single(store.address))
        seconds = time.perf_counter() - started
        async with store.view(And()) as view:
            assert isinstance(view, SqlView)
            vectors = view._vectors
            assert isinstance(vectors, PgVectors)
            assert vectors.indexed
            figures = await compare(vectors, corpus.queries(queries), k)
        await store.close()
    return f"{chunks:8}  {figures}  built in {seconds:5.1f} s"


async def compare(vectors: PgVectors, queries: Sequence[Query], k: int) -> str:
    """Scan and graph in turn."""
    ((server,),) = await vectors.reader.rows("SELECT pg_backend_pid()")
    scan = Way(lambda query: vectors._exact(query.vector, k), server)
    near = Way(lambda query: vectors._near(query.vector, k), server)
    shares = []
    for query in [*queries, *queries]:
        exact, found = await scan.take(query), await near.take(query)
        shares.append(len(np.intersect1d(exact.keys, found.keys)) / len(exact))
    plan = await planned(vectors, queries[0], k)
    return f"scan {scan}  graph {near}  recall@{k} {np.mean(shares):.4f}  {plan}"


async def planned(vectors: PgVectors, query: Query, k: int) -> str:
    """How the server reads the vectors when the graph is asked for."""
    statement = _NEAR.format(dimension=vectors.dimension, limit=k + MARGIN)
    asked = {"query": VectorParameter(query.vector)}
    rows = await vectors.reader.rows(f"EXPLAIN {statement}", asked)
    lines = [str(line).strip() for (line,) in rows]
    return next(line for line in lines if "Scan" in line and "Subquery" not in line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", default="2000,5000,10000,20000,50000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--k", type=int, default=100)
    options = parser.parse_args()
    for chunks in map(int, options.chunks.split(",")):
        print(asyncio.run(measure(chunks, options.queries, options.k)), flush=True)


if __name__ == "__main__":
    main()
