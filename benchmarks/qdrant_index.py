"""Indexes on a Qdrant server: how fast they follow, and how long searches take.

    python benchmarks/qdrant_index.py [--chunks 20000] [--nodes 1] [--options "shards=3&replicas=2"]

Starts a server of its own, or a cluster, on this machine. Synthetic chunks: 80 words of a Zipf
vocabulary, vectors around 200 centres. Recall is against the exact nearest.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from statistics import median

import numpy as np

from lagotto.documents import Vectors
from lagotto.filters import Eq
from lagotto.indexes.base import FilterKeys, Hits, TextSnapshot, VectorSnapshot
from lagotto.indexes.qdrant import open_qdrant_text, open_qdrant_vectors
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.testing.indexes import MemoryChangeLog
from servers import qdrant_cluster

DIMENSION = 384
SEARCHES = 50
K = 10


def made_log(chunks: int) -> MemoryChangeLog:
    """Chunks of which every tenth is of another color."""
    chosen = np.random.default_rng(1)
    centres = chosen.standard_normal((200, DIMENSION))
    log = MemoryChangeLog()
    for number in range(chunks):
        vector = centres[number % 200] + chosen.standard_normal(DIMENSION)
        words = " ".join(f"w{word}" for word in chosen.zipf(1.3, 80) if word < 50_000)
        color = "red" if number % 10 == 0 else "blue"
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        log.add(words, unit, fields={"color": (color,)})
    return log


async def timed(name: str, search: Callable[[int], Awaitable[Hits]]) -> None:
    """Print the median and the 95th percentile of many searches."""
    times = []
    for number in range(SEARCHES):
        started = time.perf_counter()
        await search(number)
        times.append(1000 * (time.perf_counter() - started))
    print(f"{name}: p50 {median(times):.1f} ms, p95 {np.percentile(times, 95):.1f} ms")


async def _by_words(
    words: TextSnapshot, asked: Sequence[TextQuery], allowed: FilterKeys | None, number: int
) -> Hits:
    return await words.search(asked[number], k=K, allowed=allowed)


async def _by_vectors(
    nearest: VectorSnapshot, queries: Vectors, allowed: FilterKeys | None, number: int
) -> Hits:
    return await nearest.search(queries[number], k=K, allowed=allowed)


async def measure(site: IndexSite, log: MemoryChangeLog) -> None:
    text = open_qdrant_text(site)
    vectors = open_qdrant_vectors(site, model_id="m", dimension=DIMENSION)
    started = time.perf_counter()
    words = text.follow(log)
    print(f"text: {len(log.chunks) / (time.perf_counter() - started):.0f} chunks/s")
    started = time.perf_counter()
    nearest = vectors.follow(log)
    print(f"vectors: {len(log.chunks) / (time.perf_counter() - started):.0f} chunks/s")
    assert words is not None
    assert nearest is not None
    every = np.array(sorted(log.chunks), np.int64)
    red = FilterKeys(every[::10], where=Eq("color", "red"))
    rows = np.array([log.vectors[key] for key in every.tolist()])
    queries = rows[:: max(1, len(rows) // SEARCHES)][:SEARCHES]
    asked = [
        TextQuery(tuple((Term(f"w{number % 90 + shift}"),) for shift in (2, 40, 300)))
        for number in range(SEARCHES)
    ]
    for name, allowed in (("", None), (", 10 % allowed", red)):
        await timed(f"text{name}", partial(_by_words, words, asked, allowed))
        await timed(f"vectors{name}", partial(_by_vectors, nearest, queries, allowed))
    found = [set((await nearest.search(row, k=K, allowed=None)).keys.tolist()) for row in queries]
    right = [set(every[np.argsort(-(rows @ row))[:K]].tolist()) for row in queries]
    share = np.mean([len(one & other) / K for one, other in zip(found, right, strict=True)])
    print(f"recall@{K}: {share:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--options", default="")
    given = parser.parse_args()
    log = made_log(given.chunks)
    with qdrant_cluster(given.nodes, on_disk=True) as nodes:
        address = f"{nodes[0].address('bench')}&{given.options}".rstrip("&")
        site = IndexSite(secrets.token_hex(16), timeout=60, address=address)
        asyncio.run(measure(site, log))


if __name__ == "__main__":
    main()
