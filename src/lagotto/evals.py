"""How well a base ranks: judged queries, metrics with intervals, a table of settings."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from lagotto.base.judgements import RelevanceJudgement, relevant_documents
from lagotto.errors import ConfigError
from lagotto.results import Results

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.base.client import Client


QUERIES = "queries.jsonl"
SPANS = "spans.jsonl"
QRELS = ("qrels/test.tsv", "qrels.tsv")
"""Where relevance is, in a folder in BEIR's layout; the first that is there counts."""

T = TypeVar("T")
Name = TypeVar("Name", bound=Hashable)

DocumentName = tuple[str | None, str]
"""The collection of a document, None for any, and its id."""
MarkedSpan = tuple[str, int, int]
"""A document and the offsets of evidence in its text."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query, and the relevance of the documents that were judged for it, above 0 if relevant."""

    text: str
    relevance: Mapping[DocumentName, int] = field(default_factory=dict)

    def relevant(self) -> list[DocumentName]:
        """The documents that should be found."""
        return [name for name, gain in self.relevance.items() if gain > 0]


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A query, and the spans of documents that are evidence for its answer."""

    text: str
    spans: Sequence[MarkedSpan]


def read_judgements(judgements: Iterable[RelevanceJudgement]) -> list[JudgedQuery]:
    """The queries of judgements in a base, for which at least one document is relevant."""
    judged = relevant_documents(judgements).items()
    queries = (JudgedQuery(text, dict(documents.items())) for text, documents in judged)
    return [query for query in queries if query.relevant()]


def read_beir(folder: Path) -> list[JudgedQuery]:
    """The judged queries of a folder in the layout of BEIR, in the order of their file.

    Those without a relevant document are left out. ConfigError if a file is missing or wrong.
    """
    relevance = _relevance(folder)
    queries = (JudgedQuery(text, relevance.get(name, {})) for name, text in _texts(folder))
    return [query for query in queries if query.relevant()]


def read_spans(folder: Path) -> list[MarkedQuery]:
    """The queries of a folder with `spans.jsonl` beside `queries.jsonl`; none without that file.

    A line has `query_id`, `corpus_id` and `spans`, each with `start` and `end` in characters.
    """
    if not (folder / SPANS).is_file():
        return []
    spans: dict[str, list[MarkedSpan]] = defaultdict(list)
    for query, document, marked in _marked(folder / SPANS):
        spans[query] += [(document, start, end) for start, end in marked]
    return [MarkedQuery(text, spans[name]) for name, text in _texts(folder) if spans.get(name)]


def _texts(folder: Path) -> list[tuple[str, str]]:
    """The ids and the texts of queries."""

    def text(row: Any) -> tuple[str, str]:
        if not row["text"].strip():
            raise ValueError
        return str(row["_id"]), row["text"].strip()

    remedy = 'is no query; write {"_id": "1", "text": "..."}'
    return list(dict(_rows(folder / QUERIES, text, remedy)).items())


def _relevance(folder: Path) -> dict[str, dict[DocumentName, int]]:
    """By query id. The columns are query-id, corpus-id and score, separated by tabs."""
    grades: dict[str, dict[DocumentName, int]] = defaultdict(dict)
    path = next((folder / name for name in QRELS if (folder / name).is_file()), None)
    if path is None and (folder / SPANS).is_file():  # a document with evidence is relevant
        for query, document, _ in _marked(folder / SPANS):
            grades[query][None, document] = 1
        return grades
    if path is None:
        raise ConfigError(f"{folder} has no {' or '.join(QRELS)}: which documents are relevant?")
    for number, row in enumerate(csv.DictReader(_lines(path), delimiter="\t"), 2):
        try:
            grades[row["query-id"]][None, row["corpus-id"]] = int(row["score"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{path}: line {number} should have query-id, corpus-id and score, a whole number"
            ) from None
    return grades


def _marked(path: Path) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """The query, the document and the spans of each line."""

    def marked(row: Any) -> tuple[str, str, list[tuple[int, int]]]:
        spans = [(int(span["start"]), int(span["end"])) for span in row["spans"]]
        return str(row["query_id"]), str(row["corpus_id"]), spans

    return _rows(path, marked, "lacks query_id, corpus_id or spans with start and end")


def _rows(path: Path, read: Callable[[Any], T], problem: str) -> Iterator[T]:
    """What is read from each line of JSON; blank ones among queries are skipped."""
    for number, line in enumerate(_lines(path), 1):
        try:
            if line.strip() or path.name != QUERIES:
                yield read(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigError(f"{path}: line {number} {problem}") from None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start} is invalid") from error


def ndcg(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """Normalised discounted cumulative gain with linear gains, as trec_eval has it."""
    gains = (relevance.get(name, 0) for name in ranking[:depth])
    ideal = sorted((gain for gain in relevance.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(ideal) if ideal else 0.0


def _discounted(gains: Iterable[int]) -> float:
    return sum(max(gain, 0) / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def recall(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """The share of the relevant documents that are among the first `depth`."""
    relevant = {name for name, gain in relevance.items() if gain > 0}
    return len(relevant.intersection(ranking[:depth])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """1 / the rank of the first relevant document, 0 if it is not among the first `depth`."""
    ranks = (rank for rank, name in enumerate(ranking[:depth], 1) if relevance.get(name, 0) > 0)
    return 1 / next(ranks, float("inf"))


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
BUDGETS = (400, 1000, 2000, 4000)


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
    measured: dict[str, list[tuple[float, float, float]]] = {}
    for name, settings in systems.items():
        measured[name] = []
        for start in range(0, len(queries), AT_ONCE):
            batch = queries[start : start + AT_ONCE]
            answers = base.retrieve_many(
                [query.text for query in batch], **{"top_k": PASSAGES, **settings}
            )
            measured[name] += map(_measure, batch, answers)
            notes |= dict.fromkeys(note for results in answers for note in results.degraded)
            if progress is not None:
                progress(len(batch))
    reference = list(systems)[-1]
    best = [gain for gain, _, _ in measured[reference]]
    rows = []
    for name, scores in measured.items():
        gains, ranks, recalls = (list(each) for each in zip(*scores, strict=True))
        paired = [one - other for one, other in zip(gains, best, strict=True)]
        difference = None if name == reference else interval(paired)
        means = interval(ranks).mean, interval(recalls).mean
        rows.append(SystemScores(name, interval(gains), *means, difference))
    return Evaluation(len(queries), tuple(rows), tuple(notes))


def _measure(query: JudgedQuery, results: Results) -> tuple[float, float, float]:
    """The nDCG, the reciprocal rank and the recall of the answer to a query."""
    judged = query.relevance
    names = (  # judged in any collection, or in its own
        (None if (None, hit.document_id) in judged else hit.collection, hit.document_id)
        for hit in results
    )
    ranking = list(dict.fromkeys(names))
    first = reciprocal_rank(ranking, judged, depth=DEPTH)
    return ndcg(ranking, judged, depth=DEPTH), first, recall(ranking, judged, depth=RECALL_DEPTH)


@dataclass(frozen=True, slots=True)
class EvidenceScores:
    """Packs of one budget: the mean share of the evidence in them, and of their tokens."""

    budget: int
    recall: float
    tokens: float


def evaluate_packs(
    base: KnowledgeBase | Client,
    queries: Sequence[MarkedQuery],
    settings: Settings,
    *,
    budgets: Sequence[int] = BUDGETS,
) -> list[EvidenceScores]:
    """The recall of evidence in packs of each budget; `settings` are arguments of `context`."""
    rows, count = [], max(1, len(queries))
    for budget in budgets:
        recalled, tokens = 0.0, 0
        for query in queries:
            pack = base.context(query.text, **{**settings, "max_tokens": budget})
            chunks = [(one.document_id, one.start, one.end) for one in pack.selected_chunks]
            evidence = _characters(query.spans)
            recalled += len(evidence & _characters(chunks)) / max(1, len(evidence))
            tokens += pack.tokens
        rows.append(EvidenceScores(budget, recalled / count, tokens / count))
    return rows


def _characters(spans: Iterable[MarkedSpan]) -> set[tuple[str, int]]:
    return {(name, offset) for name, start, end in spans for offset in range(start, end)}
