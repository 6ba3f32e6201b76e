"""Speed, recall and size of a base as it grows, with synthetic texts and vectors.

    python benchmarks scale [--store sqlite|postgresql|...] [--chunks 10000,100000,1000000]
                            [--queries 100] [--text-index tantivy|fts5] [--plot FILE]

Texts, vectors and queries are those of synthetic.py, so that no embedding is measured. Filters let
through 10 %, 1 %, and the query's own topic. Milliseconds of CPU and of wall time; recall against
an exact scan. CPU time is this process's, without that of servers, which are started for the
occasion: `server_cpu` is theirs, the mean of a search. `servers` are their CPU time until they rest
after the build, what they keep on the disk then, and their memory after the searches. Stores with
indexes on Qdrant are named in places.py. `--plot` draws the CPU time of searches as SVG.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.filters import And, Eq, Filter, Lt
from places import PLACES, Place, temporary_place
from synthetic import Corpus, GivenVectors, Query, build, make_entry

LONGEST_SETTLING = 3_600.0
RESTING = 4.0
"""Seconds in which servers that rest take no more than a twentieth of CPU time."""
MODES: tuple[Literal["semantic", "keyword", "hybrid"], ...] = ("semantic", "keyword", "hybrid")


class Watch:
    """Wall and CPU time of something done many times."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def __enter__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._start
        self.wall.append((time.perf_counter() - wall) * 1000)
        self.cpu.append((time.process_time() - cpu) * 1000)

    def summary(self) -> dict[str, float]:
        """Medians and 95th percentiles."""
        rows = {"cpu": self.cpu, "wall": self.wall}
        return {
            f"{name}_p{share}": round(float(np.percentile(values, share)), 2)
            for name, values in rows.items()
            for share in (50, 95)
        }


async def measure(chunks: int, count: int, store: str, text_index: str | None) -> dict[str, Any]:
    """All figures for one size."""
    with temporary_place(store) as place:
        location = place.location
        corpus = Corpus(chunks)
        indexes = place.indexes or {"text_index": text_index}
        figures: dict[str, Any] = {"build": await build(location, corpus, **indexes)}
        figures["servers"] = {"settle_s": await _settle(place)}
        figures["servers"] |= {"cpu_s": place.server_seconds(), "disk_mb": place.server_disk_mb()}
        queries = corpus.queries(count)
        embedder = GivenVectors()
        embedder.vectors = {query.text: query.vector for query in queries}
        start = time.perf_counter()
        async with AsyncKnowledgeBase(location, embedder=embedder) as base:
            await base.retrieve(queries[0].text)
            figures["open_and_first_query_s"] = round(time.perf_counter() - start, 3)
            figures["search"] = await _searches(base, queries, place)
            figures["recall"] = await _recall(base, corpus, queries)
            figures["add_one_and_see_it"] = await _add_one(base, embedder, corpus)
            figures["disk_mb"] = round((await base.info()).bytes_on_disk / 1e6)
            figures["servers"]["ram_mb"] = place.server_mb()
        figures["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return figures


async def _settle(place: Place) -> float:
    """Wait until the servers rest: they build graphs and merge segments after the last write."""
    start = time.perf_counter()
    used = place.server_seconds()
    while place.servers and time.perf_counter() - start < LONGEST_SETTLING:
        await asyncio.sleep(RESTING)
        used, before = place.server_seconds(), used
        if used - before < 0.05 * RESTING:
            break
    return round(time.perf_counter() - start, 1)


def _filters(query: Query) -> dict[str, Filter]:
    return {
        "all": And(),
        "10 %": Lt("number", 10),
        "1 %": Eq("number", 0),
        "own topic": Eq("topic", query.topic),
    }


async def _searches(
    base: AsyncKnowledgeBase, queries: Sequence[Query], place: Place
) -> dict[str, Any]:
    """Once to warm up, and to see what a new filter costs; then each kind of search by itself."""
    first = {name: Watch() for name in _filters(queries[0])}
    for query in queries:
        for name, where in _filters(query).items():
            with first[name]:
                await base.retrieve(query.text, filters=where)
    figures = {f"hybrid, {name}, first time": watch.summary() for name, watch in first.items()}
    for name in first:
        for mode in MODES:
            watch, before = Watch(), place.server_seconds()
            for query in queries:
                with watch:
                    await base.retrieve(query.text, filters=_filters(query)[name], mode=mode)
            served = 1000 * (place.server_seconds() - before) / len(queries)
            figures[f"{mode}, {name}"] = {**watch.summary(), "server_cpu": round(served, 1)}
    return figures


async def _recall(
    base: AsyncKnowledgeBase, corpus: Corpus, queries: Sequence[Query]
) -> dict[str, float]:
    """The share of the exact best 10 and 100 that the semantic leg finds."""
    found: dict[str, list[float]] = {}
    for query in queries[:50]:
        exact = corpus.vectors @ query.vector
        masks = {
            "all": np.ones(len(exact), bool),
            "10 %": corpus.numbers < 10,
            "1 %": corpus.numbers == 0,
            "own topic": corpus.topics == query.topic,
        }
        for name, where in _filters(query).items():
            allowed = np.where(masks[name], exact, -np.inf)
            async with base.store.view(where) as view:
                for k in (10, 100):
                    hits = await view.semantic(query.vector, k=k)
                    best = np.sort(allowed)[::-1][:k]
                    good = np.count_nonzero(hits.scores >= best[-1] - 1e-6)
                    found.setdefault(f"@{k}, {name}", []).append(min(good / k, 1.0))
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


async def _add_one(
    base: AsyncKnowledgeBase, embedder: GivenVectors, corpus: Corpus
) -> dict[str, float]:
    watch = Watch()
    for number in range(10):
        word = f"newword{number}"
        vector = corpus.vectors[number]
        embedder.vectors[word] = vector
        with watch:
            await base.store.write([make_entry(f"new{number}", [word], vector[None], {})])
            hits = await base.retrieve(word, mode="keyword", fuzzy={"mode": "off"})
        assert [hit.document_id for hit in hits] == [f"new{number}"]
    return watch.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", default="10000,100000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--store", choices=PLACES, default="sqlite")
    parser.add_argument("--text-index", choices=["tantivy", "fts5"])
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    searches = {}
    for chunks in map(int, options.chunks.split(",")):
        figures = asyncio.run(measure(chunks, options.queries, options.store, options.text_index))
        searches[chunks] = figures["search"]
        print(f"\n{chunks} chunks")
        _print(figures, indent=1)
    if options.plot:
        options.plot.write_text(plot(searches), encoding="utf-8")


LINES = {
    "hybrid, all": "#4c78a8",
    "hybrid, 1 %": "#f58518",
    "semantic, all": "#54a24b",
    "keyword, all": "#b279a2",
}
"""What is drawn, in which colour."""


def plot(searches: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
    """CPU milliseconds, median, by the number of chunks; both scales are logarithmic."""
    sizes = list(searches)
    times = {name: [searches[size][name]["cpu_p50"] for size in sizes] for name in LINES}
    x = _scale(sizes, 60, 460)
    y = _scale([taken for line in times.values() for taken in line], 270, 30)
    parts = []
    for name, color in LINES.items():
        line = [(x(size), y(taken)) for size, taken in zip(sizes, times[name], strict=True)]
        points = " ".join(f"{left:.0f},{top:.0f}" for left, top in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
        for (left, top), taken in zip(line, times[name], strict=True):
            parts.append(f'<circle cx="{left:.0f}" cy="{top:.0f}" r="3" fill="{color}"/>')
            parts.append(f'<text x="{left - 8:.0f}" y="{top - 6:.0f}">{taken:.1f}</text>')
        left, top = line[-1]
        parts.append(f'<text x="{left + 24:.0f}" y="{top + 6:.0f}" fill="{color}">{name}</text>')
    parts += [f'<text x="{x(size) - 20:.0f}" y="295">{size:,}</text>' for size in sizes]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="620" height="310" '
        'font-family="sans-serif" font-size="12"><text x="20" y="14">CPU ms of a search, by the '
        f"number of chunks</text>{''.join(parts)}</svg>\n"
    )


def _scale(values: Sequence[float], start: int, end: int) -> Callable[[float], float]:
    """Positions for values, from the least at `start` to the greatest at `end`."""
    low, high = np.log(min(values)), np.log(max(values))
    return lambda value: float(start + (end - start) * (np.log(value) - low) / (high - low))


def _print(value: dict[str, Any], *, indent: int) -> None:
    for name, item in value.items():
        plain = not isinstance(item, dict) or not any(isinstance(x, dict) for x in item.values())
        shown = " ".join(f"{k}={v}" for k, v in item.items()) if isinstance(item, dict) else item
        print("  " * indent + f"{name:28}", shown if plain else "", flush=True)
        if not plain:
            _print(item, indent=indent + 1)
