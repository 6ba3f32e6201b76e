"""How much of the marked evidence is in a pack: data whose spans are known."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagotto.errors import ConfigError
from lagotto.evals.judged_queries import SPANS, lines_of, texts_of

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.base.client import Client
    from lagotto.context import ContextPack

BUDGETS = (400, 1000, 2000, 4000)

MarkedSpan = tuple[str, int, int]
"""A document and the offsets of evidence in its text."""


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A query, and the spans of documents that are evidence for its answer."""

    text: str
    spans: Sequence[MarkedSpan]


@dataclass(frozen=True, slots=True)
class EvidenceScores:
    """Packs of one budget: the mean share of the evidence in them, and of their tokens."""

    budget: int
    recall: float
    tokens: float


def read_spans(folder: Path) -> list[MarkedQuery]:
    """The queries of a folder with `spans.jsonl` beside `queries.jsonl`; none without that file.

    A line has `query_id`, `corpus_id` and `spans`, each with `start` and `end` in characters.
    """
    path = folder / SPANS
    if not path.is_file():
        return []
    spans: dict[str, list[MarkedSpan]] = defaultdict(list)
    for number, line in enumerate(lines_of(path), 1):
        try:
            row = json.loads(line)
            name = str(row["corpus_id"])
            found = [(name, int(span["start"]), int(span["end"])) for span in row["spans"]]
            spans[str(row["query_id"])] += found
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(
                f"{path}: line {number} lacks query_id, corpus_id or spans with start and end"
            ) from None
    texts = texts_of(folder).items()
    return [MarkedQuery(text, spans[name]) for name, text in texts if spans.get(name)]


def evaluate_packs(
    base: KnowledgeBase | Client,
    queries: Sequence[MarkedQuery],
    settings: Mapping[str, Any],
    *,
    budgets: Sequence[int] = BUDGETS,
) -> list[EvidenceScores]:
    """The recall of evidence in packs of each budget; `settings` are arguments of `context`."""
    rows = []
    for budget in budgets:
        packs = [
            base.context(query.text, **{**settings, "max_tokens": budget}) for query in queries
        ]
        found = [
            evidence_recall(
                query.spans, [(c.document_id, c.start, c.end) for c in p.selected_chunks]
            )
            for query, p in zip(queries, packs, strict=True)
        ]
        count = max(1, len(queries))
        tokens = sum(pack.tokens for pack in packs)
        rows.append(EvidenceScores(budget, sum(found) / count, tokens / count))
    return rows


def _spans(pack: ContextPack) -> list[MarkedSpan]:
    return [(chunk.document_id, chunk.start, chunk.end) for chunk in pack.selected_chunks]


def evidence_recall(marked: Iterable[MarkedSpan], found: Iterable[MarkedSpan]) -> float:
    """The share of the marked characters that are in what was found."""
    wanted, given = _characters(marked), _characters(found)
    return len(wanted & given) / len(wanted) if wanted else 0.0


def _characters(spans: Iterable[MarkedSpan]) -> set[tuple[str, int]]:
    return {(name, offset) for name, start, end in spans for offset in range(start, end)}
