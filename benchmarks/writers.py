"""Several processes write to one base on PostgreSQL at once: documents per second.

    python benchmarks/writers.py [--writers 1,2] [--documents 400] [--rounds 3]

The documents of scale.py, five chunks each, into a base that has 10,000 chunks and a graph of their
vectors, which grows with every write. Each writer has documents of its own, and all start together;
medians of several rounds, in which the numbers of writers alternate. The server is safe: what it
acknowledges is on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from threading import Barrier

from lagotto.documents import Document
from lagotto.stores.base import Entry
from lagotto.stores.registry import create_store
from places import temporary_location
from scale import Corpus, build

STORED = 10_000
BATCH = 20


def write(location: str, entries: list[Entry], start: Barrier) -> tuple[float, float]:
    """When a process began and ended."""
    return asyncio.run(_write(location, entries, start))


async def _write(location: str, entries: list[Entry], start: Barrier) -> tuple[float, float]:
    store = create_store(location)
    await store.open()
    start.wait()
    began = time.time()
    for first in range(0, len(entries), BATCH):
        await store.write(entries[first : first + BATCH])
    ended = time.time()
    await store.close()
    return began, ended


def renamed(entry: Entry, name: str) -> Entry:
    """The same text under another name."""
    fields = {**entry.document.model_dump(exclude={"content_hash"}), "id": name}
    return Entry(Document(**fields), entry.chunks, entry.vectors, entry.model_id)


def rate(location: str, entries: list[Entry], writers: int, round_number: int) -> float:
    """Documents per second if so many processes share the work."""
    named = [
        renamed(entry, f"w{writers}-{round_number}-{index}") for index, entry in enumerate(entries)
    ]
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(writers, mp_context=context) as pool:
        start = manager.Barrier(writers)
        jobs = [pool.submit(write, location, named[n::writers], start) for n in range(writers)]
        times = [job.result() for job in jobs]
    return len(named) / (max(ended for _, ended in times) - min(began for began, _ in times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--writers", default="1,2")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    counts = [int(count) for count in options.writers.split(",")]
    with temporary_location("postgresql") as location:
        corpus = Corpus(STORED)
        asyncio.run(build(location, corpus, None))
        entries = list(islice(Corpus(5 * options.documents).entries(), options.documents))
        rates: dict[int, list[float]] = {count: [] for count in counts}
        for round_number in range(options.rounds):
            for count in counts:
                rates[count].append(rate(location, entries, count, round_number))
    for count, found in rates.items():
        print(f"{count} writers: {statistics.median(found):.0f} documents/s", sorted(found))


if __name__ == "__main__":
    main()
