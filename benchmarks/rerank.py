"""What rerankers gain: nDCG@10 before and after, with intervals, and where they hurt.

    python benchmarks rerank DATASET... [--queries 1000] [--reranker NAME]... [--only]
        [--cache FOLDER]

A data set is a folder in BEIR's layout; its documents go through the normal ingest, 50 fused
candidates go to each reranker, and a document ranks by its best candidate. Intervals are of the
paired difference to the fused order (bootstrap, 95 %). `--reranker` adds one by name, such as
`maxsim` or `ms-marco-minilm-l12`, and with `--only` there are no others. `--cache` keeps vectors
for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from beir import interval, mean, read_questions, shown
from candidates import (
    SAMPLE,
    Asked,
    Queries,
    collect,
    scores,
)
from lagotto.embedders import TokenEmbedder, create_embedder
from lagotto.rerankers import Reranker, create_reranker

NAMES = ("overlap", "overlap-idf", "lexical")


@dataclass(frozen=True, slots=True)
class Gain:
    """One reranker on one data set; `better` and `worse` count queries."""

    reranker: str
    ndcg_10: float
    gain: list[float]
    """Its interval: lower bound, mean, upper bound."""
    better: int
    worse: int
    milliseconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=SAMPLE)
    parser.add_argument("--reranker", action="append", default=[])
    parser.add_argument("--only", action="store_true")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    for dataset in options.datasets:
        _print(dataset.name, asyncio.run(measure(dataset, options)))


async def measure(dataset: Path, options: argparse.Namespace) -> list[Gain]:
    """Every reranker on one data set."""
    queries = Queries(*read_questions(dataset, options.queries))
    asked = await collect(dataset, queries, cache=options.cache)
    asked = [one for one in asked if one.candidates]
    fused = [one.ndcg([each.score for each in one.candidates]) for one in asked]
    table = [Gain("(fused order)", mean(fused), [0.0] * 3, 0, 0, 0.0)]
    for name, reranker in _rerankers(options).items():
        table.append(await _gain(name, reranker, asked, fused))
        await reranker.close()
    return table


def _rerankers(options: argparse.Namespace) -> dict[str, Reranker]:
    embedder = create_embedder("minilm")
    assert isinstance(embedder, TokenEmbedder)
    names = options.reranker if options.only else (*NAMES, *options.reranker)
    return {name: create_reranker(name, embedder=embedder) for name in names}


async def _gain(
    name: str, reranker: Reranker, asked: Sequence[Asked], fused: Sequence[float]
) -> Gain:
    values, times = [], []
    for one in asked:
        start = time.process_time()
        made = await scores(reranker, one)
        times.append(time.process_time() - start)
        values.append(one.ndcg(made))
    gains = [after - before for after, before in zip(values, fused, strict=True)]
    return Gain(
        reranker=name,
        ndcg_10=mean(values),
        gain=interval(values, fused),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        milliseconds=float(np.median(times)) * 1000,
    )


def _print(name: str, table: Sequence[Gain]) -> None:
    print(f"\n{name:24} {'nDCG@10':>8} {'gain, 95 % interval':>28} better worse     ms")
    for row in table:
        print(
            f"{row.reranker:24} {row.ndcg_10:8.4f} {shown(row.gain):>28} "
            f"{row.better:6} {row.worse:5} {row.milliseconds:6.1f}",
            flush=True,
        )
