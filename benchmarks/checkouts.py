"""Whether searches became slower from one checkout to another: both measured in turns.

    python benchmarks/checkouts.py BEFORE AFTER [--chunks 100000] [--queries 60] [--rounds 6]
                                   [--text-index tantivy|fts5] [--json]

BEFORE and AFTER are folders with a checkout each, for example of `git worktree add`. Each builds
the base of its own `scale.py` in a process of its own; then the two search in turns, a block of
queries at a time, so that what else the machine does falls on both. CPU milliseconds, median and
minimum, and the ratio after / before.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

MODES = ("hybrid", "semantic", "keyword")
FILTERS = ("all", "10 %", "1 %", "own topic")
WARM_UP = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--text-index", choices=["tantivy", "fts5"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    workers = [Worker(checkout, options) for checkout in (options.before, options.after)]
    for worker in workers:
        worker.wait()
    rows = {
        f"{mode}, {where}": _ratio(*_in_turns(workers, mode, where, options.rounds))
        for mode in MODES
        for where in FILTERS
    }
    for worker in workers:
        worker.close()
    print(json.dumps(rows, indent=2) if options.json else _table(rows))


class Worker:
    """A process that has built its base, and searches it when told to."""

    def __init__(self, checkout: Path, options: argparse.Namespace) -> None:
        paths = [str(checkout.resolve() / name) for name in ("src", "benchmarks")]
        text_index = options.text_index or ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(options.chunks), str(options.queries), text_index],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(Path(__file__).parent)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, mode: str, where: str) -> list[float]:
        """The CPU milliseconds of each query."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([mode, where]) + "\n")
        self._process.stdin.flush()
        times: list[float] = self.wait()
        return times

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


WORKER = "import asyncio, checkouts, sys; asyncio.run(checkouts.serve(*sys.argv[1:]))"


async def serve(chunks: str, count: str, text_index: str) -> None:
    """What a worker does, with the sources of its checkout."""
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
    names = inspect.signature(base.retrieve).parameters
    argument = "filters" if "filters" in names else "where"  # its name in older checkouts
    times = []
    for query in queries:
        filters = {argument: scale._filters(query)[where]}
        start = time.process_time()
        await base.retrieve(query.text, mode=mode, **filters)
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


def _ratio(before: list[float], after: list[float]) -> dict[str, float]:
    medians = float(np.median(before)), float(np.median(after))
    least = min(before), min(after)
    return {
        "before": round(medians[0], 2),
        "after": round(medians[1], 2),
        "ratio": round(medians[1] / medians[0], 3),
        "ratio of minima": round(least[1] / least[0], 3),
    }


def _table(rows: dict[str, dict[str, float]]) -> str:
    head = ["before", "after", "ratio", "ratio of minima"]
    lines = [f"{'CPU ms':22}" + "".join(f"{name:>17}" for name in head)]
    for name, row in rows.items():
        lines.append(f"{name:22}" + "".join(f"{row[key]:>17}" for key in head))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
