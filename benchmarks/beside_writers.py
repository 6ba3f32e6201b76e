"""How long a search takes beside writers, and right after a write, at a given size.

    python benchmarks/beside_writers.py [--chunks 100000] [--text-index tantivy|fts5]
                                        [--writers 0,1,3] [--seconds 20] [--base FOLDER]

Texts and vectors are those of `scale.py`. Writers are processes of their own that add documents of
five chunks, one per transaction, `--rate` per second each (0: as fast as they can); every tenth
time they replace a document, every twentieth time they remove one. Then a single process measures
the first search after writes of several sizes. Wall time in milliseconds. `--base` keeps the base
in a folder, for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from lagotto.filters import Eq, In
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.stores.base import Entry, Store
from lagotto.stores.registry import create_store
from scale import DIMENSION, Corpus, GivenVectors, Query, _entry, _unit, build

PAUSE = 0.01
"""Seconds between two searches, so that they sample the writers' whole cycle."""


def entries(names: Iterable[str], *, seed: int) -> Iterator[Entry]:
    """Documents of five chunks, with new texts."""
    chance = np.random.default_rng(seed)
    words = Corpus(0).words
    for number, name in enumerate(names):
        drawn = (chance.pareto(1.07, (5, 120)) * 2).astype(np.int64) % len(words)
        vectors = _unit(chance.normal(size=(5, DIMENSION)))
        texts = [" ".join(words[row]) for row in drawn]
        yield _entry(name, texts, vectors, {"topic": 0, "number": number % 100})


def names(prefix: str) -> Iterator[str]:
    """New names, and now and then one that there is."""
    for number in count():
        yield f"{prefix}-{number}"
        if number % 10 == 9:
            yield f"{prefix}-{number - 5}"


async def write(location: str, *, seed: int, rate: float) -> None:
    """Write until killed."""
    store = create_store(location)
    await store.open()
    print("ready", flush=True)
    for number, entry in enumerate(entries(names(f"w{seed}"), seed=seed)):
        await store.write([entry])
        if number % 20 == 19:
            await store.delete(Eq("id", f"w{seed}-{number // 2}"))
        if rate:
            await asyncio.sleep(1 / rate)


@contextmanager
def writers(location: str, number: int, *, rate: float) -> Iterator[None]:
    """So many processes that write."""
    command = [sys.executable, __file__, "--write", location, "--rate", str(rate), "--seed"]
    processes = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE)
        for seed in range(1, number + 1)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def search_for(
    base: AsyncKnowledgeBase, queries: Sequence[Query], *, seconds: float
) -> dict[str, float]:
    """Searches one after the other, for so long."""
    end = time.monotonic() + seconds
    times: list[float] = []
    degraded = 0
    while time.monotonic() < end:
        start = time.perf_counter()
        found = await base.retrieve(queries[len(times) % len(queries)].text)
        times.append(time.perf_counter() - start)
        degraded += bool(found.degraded)
        await asyncio.sleep(PAUSE)
    return summary(times) | {"searches": len(times), "degraded": degraded}


def summary(times: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 50, "p95": 95, "max": 100}
    return {n: round(1000 * float(np.percentile(times, p)), 1) for n, p in shares.items()}


async def after_writes(
    base: AsyncKnowledgeBase, store: Store, queries: Sequence[Query], *, times: int
) -> dict[str, Any]:
    """The first search after a write, for writes of several kinds."""
    seeds = iter(range(1_000, 10_000))

    async def add(documents: int) -> None:
        seed = next(seeds)
        new = [f"a{seed}-{number}" for number in range(documents)]
        await store.write(list(entries(new, seed=seed)))

    async def remove(numbers: range) -> None:
        await store.delete(In("number", tuple(numbers)))

    kinds: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
        "add 1 document": (times, lambda: add(1)),
        "add 20 documents": (times // 2, lambda: add(20)),
        "add 200 documents": (times // 4, lambda: add(200)),
        "remove 1 % of the base": (1, lambda: remove(range(1))),
        "remove 30 % of the base": (1, lambda: remove(range(1, 31))),
    }
    figures: dict[str, Any] = {}
    for name, (repeats, change) in kinds.items():
        first, second = list[float](), list[float]()
        for number in range(repeats):
            await change()
            for took in (first, second):
                start = time.perf_counter()
                await base.retrieve(queries[number % len(queries)].text)
                took.append(time.perf_counter() - start)
            await asyncio.sleep(0.2)
        figures[name] = {"first": summary(first), "second": summary(second)}
        later = await search_for(base, queries, seconds=5)
        figures[name]["5 s after"] = later
    return figures


@asynccontextmanager
async def opened(location: str, embedder: GivenVectors) -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(location, embedder=embedder) as base:
        for text in list(embedder.vectors)[:20]:
            await base.retrieve(text)
        yield base


async def measure(options: argparse.Namespace, folder: Path, *, made: bool) -> None:
    location = str(folder / "kb.db")
    corpus = Corpus(options.chunks)
    if made:
        for _ in corpus.entries():  # the queries are made of them
            pass
    else:
        print(json.dumps({"build": await build(location, corpus, options.text_index)}), flush=True)
    queries = corpus.queries(100)
    embedder = GivenVectors()
    embedder.vectors = {query.text: query.vector for query in queries}
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy = Path(temporary) / "kb.db"
        shutil.copy(location, copy)
        shutil.copytree(f"{location}.index", f"{copy}.index")
        async with opened(str(copy), embedder) as base:
            for number in map(int, options.writers.split(",")):
                with writers(str(copy), number, rate=options.rate):
                    figures = await search_for(base, queries, seconds=options.seconds)
                print(json.dumps({f"{number} writers": figures}), flush=True)
                await asyncio.sleep(2)
            store = create_store(str(copy))
            await store.open()
            after = await after_writes(base, store, queries, times=options.times)
            for name, numbers in after.items():
                print(json.dumps({name: numbers}), flush=True)
            await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--text-index", choices=["tantivy", "fts5"])
    parser.add_argument("--writers", default="0,1,3")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--times", type=int, default=12)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--write")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.write:
        asyncio.run(write(options.write, seed=options.seed, rate=options.rate))
        return
    if options.base:
        options.base.mkdir(parents=True, exist_ok=True)
        asyncio.run(measure(options, options.base, made=(options.base / "kb.db").exists()))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options, Path(folder), made=False))


if __name__ == "__main__":
    main()
