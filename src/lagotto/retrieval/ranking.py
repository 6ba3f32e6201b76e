"""The candidates in a total order, with their passages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, ChunkSection, Document, Span, Vectors
from lagotto.indexes.base import ChunkKeys
from lagotto.results import cited_row
from lagotto.retrieval.fusion import Candidates, Scores
from lagotto.stores.base import Passage

Rows = NDArray[np.int64]
"""0-based positions among candidates."""

ReadPassages = Callable[[ChunkKeys], Awaitable[Sequence[Passage]]]


class ChunkSource(Protocol):
    """Where the chunks of candidates are read: a view of the store, or chunks made just now."""

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        """The chunks of `keys` with their texts, in that order, without those that are gone."""
        ...

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        """The vector of each of `keys`, a row each."""
        ...

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        """The parents of `chunks`, by id."""
        ...

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        """The chunks around each of `chunks`, at least those that `View.neighbours` describes."""
        ...


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage on its way through the stages, with its score so far.

    `row` is its position among the candidates. `child` is the chunk that was found, if the
    passage is its parent now. `rerank` is on the reranker's own scale, `rerank_score` in [0, 1].
    `cited` is the section that it is cited by, once that is known.
    """

    passage: Passage
    score: float
    row: int
    best_rank: int
    child: Chunk | None = None
    parent: Chunk | None = None
    section: str | None = None
    rerank: float | None = None
    rerank_score: float | None = None
    answerable: bool | None = None
    evidence: Span | None = None
    cited: ChunkSection | None = None

    @property
    def found(self) -> Chunk:
        """The chunk that the legs found."""
        return self.child or self.passage.chunk

    @property
    def location_fields(self) -> dict[str, Any]:
        """The location that the hit is cited by."""
        fields = self.passage.chunk.location_fields()
        if self.cited is not None:
            fields |= self.cited.location_fields()
        document = self.passage.document
        if row := cited_row(document.kind, document.metadata):
            fields["row_range"] = row
        return fields


async def rank(
    read: ReadPassages,
    candidates: Candidates,
    scores: Scores,
    *,
    count: int,
    rows: Rows | None = None,
) -> list[Ranked]:
    """The best `count`, of `rows` only if given: by score, best rank in a leg, document, offset.

    Keys depend on the order in which documents were added, so ties are broken by the passages.
    """
    best_ranks = candidates.best_ranks()
    order = np.lexsort((best_ranks, -scores))
    if rows is not None:
        order = order[np.isin(order, rows)]
    if len(order) > count:
        last = order[count - 1]
        beyond = (scores[order] < scores[last]) | (
            (scores[order] == scores[last]) & (best_ranks[order] > best_ranks[last])
        )
        order = order[~beyond]
    row_of = {int(candidates.keys[row]): int(row) for row in order}
    ranked = []
    for passage in await read(candidates.keys[order]):
        row = row_of[passage.key]
        ranked.append(Ranked(passage, float(scores[row]), row, int(best_ranks[row])))
    ranked.sort(key=total_order)
    return ranked[:count]


def total_order(item: Ranked) -> tuple[float, int, str, str, str, str, int, str]:
    """The sort key of hits: score, best rank in a leg, document, offset in it."""
    chunk = item.passage.chunk
    tie = (*document_order(item.passage.document), chunk.start, chunk.id)
    return (-item.score, item.best_rank, *tie)


def document_order(document: Document) -> tuple[str, str, str, str]:
    """The sort key of documents that tie: by their sources, as ids may be hashes of these.

    The files of a folder keep their order when the folder is moved; hashes of their paths do not.
    """
    return document.collection, document.source, document.source_ref or "", document.id


def above(ranked: Sequence[Ranked], threshold: float | None) -> list[Ranked]:
    """The hits with a score of `threshold` or more."""
    return [item for item in ranked if threshold is None or item.score >= threshold]


def document_of(item: Ranked) -> tuple[str, str]:
    """The collection and id of a hit's document."""
    return item.passage.document.collection, item.passage.document.id
