"""Two checkouts against each other: how fast they search, or how well they rank.

    python benchmarks checkouts speed BEFORE AFTER [--chunks 100000] [--queries 60] [--rounds 6]
                                   [--text-index tantivy|fts5]
    python benchmarks checkouts quality BEFORE AFTER --datasets DATASET... [--queries 1000]
                                   [--cache FOLDER]

BEFORE and AFTER are folders with a checkout each, for example of `git worktree add`.

`speed`: each builds the base of its own `scale.py` in a process of its own; then the two search in
turns, a block of queries at a time, so that what else the machine does falls on both. CPU
milliseconds, median and minimum, and the ratio after / before.

`quality`: each ranks the data sets with its own `quality.py`. nDCG@10 of text leg, hybrid and RRF,
and the difference with a paired bootstrap interval of 95 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from beir import interval, read_questions, shown

MODES = ("hybrid", "semantic", "keyword")
FILTERS = ("all", "10 %", "1 %", "own topic")
SYSTEMS = ("text", "hybrid", "rrf")
WARM_UP = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", choices=["speed", "quality"])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--datasets", nargs="+", type=Path, default=[])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--text-index", choices=["tantivy", "fts5"])
    options = parser.parse_args()
    if options.action == "speed":
        speed(options)
        return
    print(f"{'nDCG@10':32}{'before':>8}{'after':>8}   difference")
    for dataset in options.datasets:
        quality(dataset, options)


def speed(options: argparse.Namespace) -> None:
    """CPU time of searches, in turns."""
    given = [options.chunks, options.queries or 60, options.text_index or ""]
    workers = [Worker(path, "searches", given) for path in (options.before, options.after)]
    for worker in workers:
        worker.answer()
    head = ["before", "after", "ratio", "ratio of minima"]
    print(f"{'CPU ms':22}" + "".join(f"{name:>17}" for name in head))
    for mode in MODES:
        for where in FILTERS:
            row = _ratios(*_in_turns(workers, mode, where, options.rounds))
            shown = "".join(f"{value:>17.3f}" for value in row)
            print(f"{f'{mode}, {where}':22}" + shown, flush=True)
    for worker in workers:
        worker.close()


def quality(dataset: Path, options: argparse.Namespace) -> None:
    """nDCG@10 of one data set."""
    given = [dataset, options.queries or 1000, options.cache or ""]
    workers = [Worker(path, "gains", given) for path in (options.before, options.after)]
    before, after = (worker.answer() for worker in workers)
    for worker in workers:
        worker.close()
    for system in SYSTEMS:
        difference = shown(interval(after[system], before[system]))
        means = f"{np.mean(before[system]):8.4f}{np.mean(after[system]):8.4f}"
        name = f"{dataset.name} {system}"
        print(f"{name:32}{means}   {difference}", flush=True)


class Worker:
    """A process with the sources of a checkout."""

    def __init__(self, checkout: Path, task: str, given: Sequence[object]) -> None:
        paths = [
            checkout.resolve() / "src",
            checkout.resolve() / "benchmarks",
            Path(__file__).parent,
        ]
        code = f"import asyncio, checkouts, sys; asyncio.run(checkouts.{task}(*sys.argv[1:]))"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, given)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, mode: str, where: str) -> list[float]:
        """The CPU milliseconds of each query."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([mode, where]) + "\n")
        self._process.stdin.flush()
        times: list[float] = self.answer()
        return times

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


async def gains(dataset: str, count: str, cache: str) -> None:
    """Print the nDCG@10 of every query, by system."""
    module: Any = import_module("quality")
    options = argparse.Namespace(
        embedder="minilm", chunker="recursive:256/32", cache=Path(cache) if cache else None
    )
    with tempfile.TemporaryDirectory() as folder:
        options.cache = options.cache or Path(folder)
        asked, judged = read_questions(Path(dataset), int(count))
        async with module.filled("sqlite", Path(dataset), options) as base:
            found = {
                system: module.gains_of(
                    await module.rank(base, asked, module.SYSTEMS[system]), judged
                )
                for system in SYSTEMS
            }
    print(json.dumps(found), flush=True)


async def searches(chunks: str, count: str, text_index: str) -> None:
    """Search when told to, and print the times."""
    scale: Any = import_module("scale")

    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder) / "kb.db")
        corpus = scale.Corpus(int(chunks))
        await scale.build(location, corpus, text_index or None)
        queries = corpus.queries(int(count))
        embedder = scale.GivenVectors()
        embedder.vectors = {query.text: query.vector for query in queries}
        async with scale.AsyncKnowledgeBase(location, embedder=embedder) as base:
            await base.retrieve(queries[0].text)
            await asyncio.sleep(5)  # what is done in the background after the first search
            print(json.dumps("ready"), flush=True)
            for line in sys.stdin:
                mode, where = json.loads(line)
                print(json.dumps(await _times(base, scale, queries, mode, where)), flush=True)


async def _times(base: Any, scale: Any, queries: Any, mode: str, where: str) -> list[float]:
    times = []
    for query in queries:
        filters = scale._filters(query)[where]
        start = time.process_time()
        await base.retrieve(query.text, mode=mode, filters=filters)
        times.append((time.process_time() - start) * 1000)
    return times


def _in_turns(
    workers: list[Worker], mode: str, where: str, rounds: int
) -> tuple[list[float], list[float]]:
    before: list[float] = []
    after: list[float] = []
    for turn in range(rounds + WARM_UP):
        pairs = list(zip(workers, (before, after), strict=True))
        for worker, times in pairs if turn % 2 else reversed(pairs):
            new = worker.ask(mode, where)
            if turn >= WARM_UP:
                times.extend(new)
    return before, after


def _ratios(before: list[float], after: list[float]) -> tuple[float, float, float, float]:
    old, new = float(np.median(before)), float(np.median(after))
    return old, new, new / old, min(after) / min(before)
