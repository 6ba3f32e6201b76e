"""Evaluate settings on the same judged queries: metrics, and differences with intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from lagotto.errors import ConfigError
from lagotto.evals.judged_queries import DocumentName, JudgedQuery
from lagotto.results import Results

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.base.client import Client

Name = TypeVar("Name", bound=Hashable)


def ndcg(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """Normalised discounted cumulative gain with linear gains, as trec_eval has it."""
    gains = (relevance.get(name, 0) for name in ranking[:depth])
    ideal = sorted((gain for gain in relevance.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(ideal) if ideal else 0.0


def recall(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """The share of the relevant documents that are among the first `depth`."""
    relevant = _relevant(relevance)
    return len(relevant.intersection(ranking[:depth])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """1 / the rank of the first relevant document, 0 if it is not among the first `depth`."""
    relevant: Collection[Name] = _relevant(relevance)
    ranks = (rank for rank, name in enumerate(ranking[:depth], 1) if name in relevant)
    return 1 / next(ranks, float("inf"))


def _relevant(relevance: Mapping[Name, int]) -> set[Name]:
    return {name for name, gain in relevance.items() if gain > 0}


def _discounted(gains: Iterable[int]) -> float:
    return sum(max(gain, 0) / log2(rank + 1) for rank, gain in enumerate(gains, 1))


RESAMPLED = 2000


class Interval(NamedTuple):
    """A mean and the bounds of its interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The mean of `values`, one per query, with its interval; always the same for the same values.

    For the difference of two systems give the differences query by query: the interval is paired.
    """
    measured = np.asarray(values, np.float64)
    chance = np.random.default_rng(0)
    drawn = chance.integers(len(measured), size=(RESAMPLED, len(measured)))
    low, high = np.percentile(measured[drawn].mean(axis=1), [2.5, 97.5])
    return Interval(float(measured.mean()), float(low), float(high))


Settings = Mapping[str, Any]
"""The keyword arguments of `retrieve`."""

DEPTH = 10
RECALL_DEPTH = 100
PASSAGES = 120
"""Passages requested, so that some hundred documents are among them."""
AT_ONCE = 50
"""Queries of one call, whose vectors are computed in batches."""


@dataclass(frozen=True, slots=True)
class SystemScores:
    """The means of one system over all queries; `difference` is that from the reference."""

    name: str
    ndcg: Interval
    reciprocal_rank: float
    recall: float
    difference: Interval | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores of each system on the same queries.

    `degraded` are the notes of searches that could not run as requested, each once.
    """

    queries: int
    systems: tuple[SystemScores, ...]
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Measured:
    """The metrics of one system, query by query."""

    ndcg: list[float]
    reciprocal_rank: list[float]
    recall: list[float]


def evaluate(
    base: KnowledgeBase | Client,
    queries: Sequence[JudgedQuery],
    systems: Mapping[str, Settings],
    *,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Ask every query with the settings of each system; the last one is the reference.

    A document ranks by its best passage. `progress` gets the number of queries that were run.
    """
    if not queries:
        raise ConfigError("there is no query with a relevant document, so nothing to evaluate")
    notes: dict[str, None] = {}
    measured: dict[str, _Measured] = {}
    for name, settings in systems.items():
        scores = _Measured([], [], [])
        for start in range(0, len(queries), AT_ONCE):
            batch = queries[start : start + AT_ONCE]
            found = base.retrieve_many(
                [query.text for query in batch], **{"top_k": PASSAGES, **settings}
            )
            for query, results in zip(batch, found, strict=True):
                notes.update(dict.fromkeys(results.degraded))
                _measure(query, results, scores)
            if progress is not None:
                progress(len(batch))
        measured[name] = scores
    reference = list(systems)[-1]
    rows = tuple(_summary(name, measured, reference) for name in systems)
    return Evaluation(len(queries), rows, tuple(notes))


def _measure(query: JudgedQuery, results: Results, scores: _Measured) -> None:
    ranking = list(dict.fromkeys(_name(query, hit.collection, hit.document_id) for hit in results))
    scores.ndcg.append(ndcg(ranking, query.relevance, depth=DEPTH))
    scores.reciprocal_rank.append(reciprocal_rank(ranking, query.relevance, depth=DEPTH))
    scores.recall.append(recall(ranking, query.relevance, depth=RECALL_DEPTH))


def _name(query: JudgedQuery, collection: str, document_id: str) -> DocumentName:
    """The document as the query was judged for it: in any collection, or in its own."""
    anywhere = (None, document_id)
    return anywhere if anywhere in query.relevance else (collection, document_id)


def _summary(name: str, measured: Mapping[str, _Measured], reference: str) -> SystemScores:
    scores = measured[name]
    pairs = zip(scores.ndcg, measured[reference].ndcg, strict=True)
    return SystemScores(
        name=name,
        ndcg=interval(scores.ndcg),
        reciprocal_rank=interval(scores.reciprocal_rank).mean,
        recall=interval(scores.recall).mean,
        difference=None if name == reference else interval([one - other for one, other in pairs]),
    )
