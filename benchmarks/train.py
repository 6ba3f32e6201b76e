"""Learn the weights of the rerankers `lexical` and `maxsim`.

    python benchmarks train DATASET... [--not FOLDER...] [--queries 600]
        [--cache FOLDER] [--out FOLDER]

A data set is a folder in BEIR's layout. Learned from are `queries_train.jsonl` and
`qrels_train.tsv` if it has them, else queries that quality.py and rerank.py leave out of their
sample; never those of the folders behind `--not`. The weights make the right passage the most
likely among the candidates (a softmax over them); every set counts alike. Then scale and bias are
fitted, so that the score is the log-odds of being right. Printed is what is gained on one half of
each set, learned from its other half and the other sets, or from the other sets alone; the last
fit is on everything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beir import interval, mean, read_jsonl, shown
from candidates import Asked, collect, training_queries
from lagotto.documents import in_context
from lagotto.embedders import TokenEmbedder, create_embedder
from lagotto.embedders.base import TokenVectors
from lagotto.rerankers.lexical import LEXICAL_FEATURES, MAXSIM_FEATURES, maxsim_features

OUT = Path(__file__).parent.parent / "src/lagotto/rerankers"
LEARNED = {"lexical": LEXICAL_FEATURES, "maxsim": MAXSIM_FEATURES}
"""The rerankers, and the features that each of them has."""

STEPS, RATE, PENALTY = 300, 0.05, 1e-3

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    """A query: the features of its candidates, which are right, and what it counts for."""

    asked: Asked
    features: Numbers
    relevant: Numbers
    weight: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--not", dest="banned", nargs="*", type=Path, default=[])
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    sets = asyncio.run(training_sets(options))
    for name, features in LEARNED.items():
        columns = [MAXSIM_FEATURES.index(feature) for feature in features]
        for held_out in sets:
            _show(name, held_out, sets, columns)
        learned = fitted([one for some in sets.values() for one in some], columns)
        (options.out / f"{name}.json").write_text(json.dumps(learned, indent=2) + "\n")


async def training_sets(options: argparse.Namespace) -> dict[str, list[Example]]:
    """The examples of each data set."""
    banned = {row["_id"] for path in options.banned for row in read_jsonl(path / "queries.jsonl")}
    embedder = create_embedder("minilm")
    assert isinstance(embedder, TokenEmbedder)
    sets = {}
    for dataset in options.datasets:
        queries = training_queries(dataset, most=options.queries, banned=banned)
        asked = await collect(dataset, queries, cache=options.cache)
        sets[dataset.name] = await examples(asked, embedder)
    return sets


async def examples(asked: Sequence[Asked], embedder: TokenEmbedder) -> list[Example]:
    """Those whose candidates hold a right one; together they count for 1."""
    useful = [one for one in asked if one.relevant().any()]
    passages = await _passages(useful, embedder)
    found = []
    for one in useful:
        (query,) = await embedder.token_vectors([one.query], role="query")
        tokens = [passages[candidate.id] for candidate in one.candidates]
        features = maxsim_features(one.query, one.candidates, query, tokens)
        found.append(Example(one, features, one.relevant(), 1 / len(useful)))
    return found


async def _passages(asked: Sequence[Asked], embedder: TokenEmbedder) -> dict[str, TokenVectors]:
    """The token vectors of every passage by its id; that takes gigabytes, but each run once."""
    texts = {one.id: in_context(one.title, one.text) for some in asked for one in some.candidates}
    vectors = await embedder.token_vectors(list(texts.values()))
    return dict(zip(texts, vectors, strict=True))


def fitted(some: Sequence[Example], columns: Sequence[int]) -> dict[str, object]:
    """Weights and bias as the rerankers read them."""
    weights = learn(some, columns)
    scale, bias = calibrate(some, columns, weights)
    names = [MAXSIM_FEATURES[column] for column in columns]
    learned = dict(zip(names, (weights * scale).round(3).tolist(), strict=True))
    return {"weights": learned, "bias": round(bias, 3)}


def learn(some: Sequence[Example], columns: Sequence[int]) -> Numbers:
    """The weights under which right candidates are the likeliest, by gradient descent (Adam)."""
    features = [one.features[:, columns] for one in some]
    spread = np.concatenate(features).std(axis=0) + 1e-9
    rows = [(one / spread, each) for one, each in zip(features, some, strict=True)]
    weights, first, second = (np.zeros(len(columns)) for _ in range(3))
    for step in range(1, STEPS + 1):
        gradient = PENALTY * weights
        for scaled, each in rows:
            error = softmax(scaled @ weights) - each.relevant / each.relevant.sum()
            gradient += each.weight * (error @ scaled)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        moved = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = weights - RATE * moved
    result: Numbers = weights / spread
    return result


def softmax(values: Numbers) -> Numbers:
    """Shares that add up to 1."""
    powers: Numbers = np.exp(values - values.max())
    powers /= powers.sum()
    return powers


def calibrate(
    some: Sequence[Example], columns: Sequence[int], weights: Numbers
) -> tuple[float, float]:
    """The scale and bias that make log-odds of the weighted sums, by Newton's method."""
    sums = np.concatenate([one.features[:, columns] @ weights for one in some])
    right = np.concatenate([one.relevant for one in some])
    share = np.concatenate([np.full(len(one.relevant), one.weight) for one in some])
    inputs = np.stack([sums - sums.mean(), np.ones(len(sums))])
    values = np.zeros(2)
    for _ in range(30):
        likely = 1 / (1 + np.exp(-values @ inputs))
        gradient = inputs @ (share * (likely - right))
        curvature = (inputs * (share * likely * (1 - likely))) @ inputs.T
        values -= np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
    scale, bias = values.tolist()
    return scale, bias - scale * float(sums.mean())


def _show(name: str, dataset: str, sets: dict[str, list[Example]], columns: Sequence[int]) -> None:
    """What is gained on half of a set, learned from the other half, and from other sets alone."""
    held_out, others = (
        sets[dataset][1::2],
        [one for other, some in sets.items() if other != dataset for one in some],
    )
    for source, some in (("with", [*sets[dataset][::2], *others]), ("without", others)):
        if not some:
            continue
        weights = learn(some, columns)
        before = [one.asked.ndcg([each.score for each in one.asked.candidates]) for one in held_out]
        after = [one.asked.ndcg((one.features[:, columns] @ weights).tolist()) for one in held_out]
        print(
            f"{name:8} {dataset:12} learned {source:7} its other half: {mean(before):.4f} -> "
            f"{mean(after):.4f}, {shown(interval(after, before))}",
            flush=True,
        )
