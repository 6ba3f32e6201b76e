"""Evaluate settings: the same judged queries with each of them, and what the differences are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lagotto.errors import ConfigError
from lagotto.evals.bootstrap import Interval, interval
from lagotto.evals.judged_queries import DocumentName, JudgedQuery
from lagotto.evals.metrics import ndcg, recall, reciprocal_rank
from lagotto.results import Results

Settings = Mapping[str, Any]
"""The keyword arguments of `retrieve`."""

DEPTH = 10
RECALL_DEPTH = 100
PASSAGES = 120
"""Passages asked for, so that some hundred documents are among them."""
AT_ONCE = 50
"""Queries of one call, whose vectors are computed in batches."""


class EvaluatedBase(Protocol):
    """What evaluation asks of a base, wherever it is."""

    @property
    def retrieve_many(self) -> Callable[..., list[Results]]:
        """The results of each of several queries, with the settings of all."""
        ...


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

    `degraded` are the notes of searches that could not do what was asked for, each once.
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
    base: EvaluatedBase,
    queries: Sequence[JudgedQuery],
    systems: Mapping[str, Settings],
    *,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Ask every query with the settings of each system; the last one is the reference.

    A document ranks by its best passage. `progress` is told the number of queries that were asked.
    """
    if not queries:
        raise ConfigError("there is no query with a relevant document, so nothing to evaluate")
    notes: dict[str, None] = {}
    measured: dict[str, _Measured] = {}
    for name, settings in systems.items():
        scores = _Measured([], [], [])
        for start in range(0, len(queries), AT_ONCE):
            batch = queries[start : start + AT_ONCE]
            asked = {"top_k": PASSAGES, **settings}
            found = base.retrieve_many([query.text for query in batch], **asked)
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
