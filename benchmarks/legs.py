"""Legs of an embedded base one after another, and side by side in threads.

    OPENBLAS_NUM_THREADS=1 python benchmarks legs [--chunks 12000] [--queries 120]

Decides IMMEDIATE_CHUNKS in lagotto/indexes/base.py. Hybrid searches without embedding costs, in
turns: medians of a search, and wall and CPU time per search, all in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.indexes.tantivy import index as text_index
from lagotto.indexes.vectors import index as vector_index
from lagotto.testing.hash_embedder import HashEmbedder
from synthetic import WORDS

ROUNDS = 3
LIMITS = {"one by one": 10**9, "side by side": 0}


async def measured(path: Path, queries: list[str], clients: int) -> tuple[float, float, float]:
    """The median of a search, and wall and CPU time per search, in milliseconds."""
    times: list[float] = []
    async with AsyncKnowledgeBase(path, embedder=HashEmbedder(dimension=384)) as base:
        for query in queries[:20]:
            await base.retrieve(query)
        left = iter(queries)

        async def client() -> None:
            for query in left:
                begun = time.perf_counter()
                await base.retrieve(query)
                times.append(time.perf_counter() - begun)

        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(client() for _ in range(clients)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return 1e3 * statistics.median(times), 1e3 * wall / len(queries), 1e3 * cpu / len(queries)


async def run(chunks: int, count: int) -> None:
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb.db"
        async with AsyncKnowledgeBase(path, embedder=HashEmbedder(dimension=384)) as base:
            texts = (" ".join(chance.choices(WORDS, k=100)) for _ in range(chunks))
            await base.add(*(Document(text=text) for text in texts))
        queries = [" ".join(chance.choices(WORDS, k=6)) for _ in range(count)]
        for _ in range(ROUNDS):
            for name, limit in LIMITS.items():
                text_index.IMMEDIATE_CHUNKS = vector_index.IMMEDIATE_CHUNKS = limit  # type: ignore[attr-defined]
                for clients in (1, 8):
                    median, wall, cpu = await measured(path, queries, clients)
                    print(f"{name:12} {clients} clients: {median:.2f}, {wall:.2f}, {cpu:.2f} CPU")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=12_000)
    parser.add_argument("--queries", type=int, default=120)
    asked = parser.parse_args()
    asyncio.run(run(asked.chunks, asked.queries))
