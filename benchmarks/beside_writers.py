"""How long a search takes beside writers, and right after a write, at a given size.

    python benchmarks/beside_writers.py [--chunks 100000] [--text-index tantivy|fts5]
                                        [--writers 0,1,3] [--seconds 20] [--base FOLDER]

Texts and vectors are those of `scale.py`. Writers are processes of their own that add documents of
five chunks, one per transaction, `--rate` per second each (0: as fast as they can); every tenth
time they replace a document, every twentieth time they remove one. Then the first search after
`add` and `remove` of several sizes, called on the base that searches, and in another process. Wall
time in milliseconds; `cpu` is that of the process that searches, all threads. `--base` keeps the
base in a folder, for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Vectors
from lagotto.embedders.base import Role
from lagotto.filters import Eq, In
from lagotto.stores.base import Entry
from lagotto.stores.registry import create_store
from scale import DIMENSION, Corpus, GivenVectors, Lines, Query, _entry, _unit, build

PAUSE = 0.01
"""Seconds between two searches, so that they sample the writers' whole cycle."""


CHUNKERS.register(Lines.id, lambda _parameters, _tokenizer: Lines())

Change = tuple[str, int, int]
"""Add so many documents with names from a number on, or remove those from a number to another."""


class DrawnVectors(GivenVectors):
    """An embedder that draws the vectors of texts it has not been told."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return np.stack([self.vectors[t] if t in self.vectors else _drawn(t) for t in texts])


def _drawn(text: str) -> Vectors:
    chance = np.random.default_rng(zlib.crc32(text.encode()))
    drawn: Vectors = _unit(chance.normal(size=(1, DIMENSION)))[0]
    return drawn


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


async def change(base: AsyncKnowledgeBase, what: Change) -> None:
    """Add or remove documents."""
    kind, first, second = what
    if kind == "add":
        new = [f"a{first}-{number}" for number in range(second)]
        await base.add(*(entry.document for entry in entries(new, seed=first)))
    else:
        await base.remove(filters=In("number", tuple(range(first, second))))


async def change_as_told(location: str) -> None:
    """Make the changes that stdin names, one per line."""
    async with AsyncKnowledgeBase(location, embedder=DrawnVectors()) as base:
        print("ready", flush=True)
        for line in sys.stdin:
            await change(base, json.loads(line))
            print("done", flush=True)


class OtherProcess:
    """A process that has the same base open."""

    def __init__(self, location: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--change", location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    async def change(self, what: Change) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        await asyncio.to_thread(self._answer)

    def _answer(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


async def after_writes(
    base: AsyncKnowledgeBase,
    make: Callable[[Change], Awaitable[None]],
    queries: Sequence[Query],
    *,
    times: int,
) -> dict[str, Any]:
    """The first search after a change, for changes of several kinds."""
    names, numbers = count(1_000), count()
    kinds: dict[str, tuple[int, Callable[[], Change]]] = {
        "add 1 document": (times, lambda: ("add", next(names), 1)),
        "add 20 documents": (times // 2, lambda: ("add", next(names), 20)),
        "add 200 documents": (times // 4, lambda: ("add", next(names), 200)),
        "remove 1 % of the base": (times // 4, lambda: ("remove", n := next(numbers), n + 1)),
        "remove 30 % of the base": (1, lambda: ("remove", n := next(numbers), n + 30)),
    }
    figures: dict[str, Any] = {}
    for name, (repeats, what) in kinds.items():
        now, then, cpu = list[float](), list[float](), list[float]()
        for number in range(repeats):
            await make(what())
            used = time.process_time()
            for took in (now, then):
                start = time.perf_counter()
                await base.retrieve(queries[number % len(queries)].text)
                took.append(time.perf_counter() - start)
                if took is now:
                    cpu.append(time.process_time() - used)
            await asyncio.sleep(0.2)
        figures[name] = {"first": summary(now), "cpu": summary(cpu), "second": summary(then)}
        later = await search_for(base, queries, seconds=5)
        figures[name]["5 s after"] = later
    return figures


@asynccontextmanager
async def copied(
    location: str, embedder: GivenVectors
) -> AsyncIterator[tuple[AsyncKnowledgeBase, str]]:
    """A copy of the base, after some searches, and where it is."""
    beside = Path(location).parent
    with tempfile.TemporaryDirectory(dir=beside, ignore_cleanup_errors=True) as folder:
        copy = str(Path(folder) / "kb.db")
        shutil.copy(location, copy)
        shutil.copytree(f"{location}.index", f"{copy}.index")
        async with AsyncKnowledgeBase(copy, embedder=embedder) as base:
            for text in list(embedder.vectors)[:20]:
                await base.retrieve(text)
            yield base, copy


async def measure(options: argparse.Namespace, folder: Path, *, made: bool) -> None:
    location = str(folder / "kb.db")
    corpus = Corpus(options.chunks)
    if made:
        for _ in corpus.entries():  # the queries are made of them
            pass
    else:
        print(json.dumps({"build": await build(location, corpus, options.text_index)}), flush=True)
    queries = corpus.queries(100)
    gc.collect()
    gc.freeze()  # the corpus is the benchmark's own: a search should not pay for scanning it
    embedder = DrawnVectors()
    embedder.vectors = {query.text: query.vector for query in queries}
    async with copied(location, embedder) as (base, copy):
        for number in map(int, options.writers.split(",")):
            with writers(copy, number, rate=options.rate):
                figures = await search_for(base, queries, seconds=options.seconds)
            print(json.dumps({f"{number} writers": figures}), flush=True)
            await asyncio.sleep(2)
    async with copied(location, embedder) as (base, _):
        after = await after_writes(base, partial(change, base), queries, times=options.times)
        show("own", after)
    async with copied(location, embedder) as (base, copy):
        other = OtherProcess(copy)
        after = await after_writes(base, other.change, queries, times=options.times)
        show("another's", after)
        other.close()


def show(whose: str, figures: dict[str, Any]) -> None:
    for name, numbers in figures.items():
        print(json.dumps({f"{whose}: {name}": numbers}), flush=True)


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
    parser.add_argument("--change")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.write:
        asyncio.run(write(options.write, seed=options.seed, rate=options.rate))
        return
    if options.change:
        asyncio.run(change_as_told(options.change))
        return
    if options.base:
        options.base.mkdir(parents=True, exist_ok=True)
        asyncio.run(measure(options, options.base, made=(options.base / "kb.db").exists()))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options, Path(folder), made=False))


if __name__ == "__main__":
    main()
