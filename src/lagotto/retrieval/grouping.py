"""From chunks to documents: a document is as good as its best chunk, leg by leg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document
from lagotto.results import LegScore
from lagotto.retrieval.explanation import leg_scores
from lagotto.retrieval.fusion import Candidates, Fused, LegScores
from lagotto.retrieval.ranking import document_order
from lagotto.stores.base import Passage

NOT_FOUND = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that was found: its fused score, its score in each leg, and its best chunk."""

    document: Document
    score: float
    legs: Mapping[str, LegScore]
    best_chunk: Chunk

    @property
    def name(self) -> tuple[str, str]:
        """The collection and id."""
        return self.document.collection, self.document.id


@dataclass(frozen=True, slots=True)
class DocumentGroups:
    """The documents that candidates belong to.

    `owners` is the index of each candidate's document; `candidates` has a row per document.
    """

    documents: Sequence[Document]
    owners: NDArray[np.int64]
    candidates: Candidates

    def rows_of(self, documents: Sequence[FoundDocument]) -> NDArray[np.int64]:
        """The rows of the candidates that belong to `documents`."""
        wanted = {item.name for item in documents}
        chosen = [
            index
            for index, item in enumerate(self.documents)
            if (item.collection, item.id) in wanted
        ]
        return np.flatnonzero(np.isin(self.owners, chosen))


def collapse(candidates: Candidates, passages: Sequence[Passage]) -> DocumentGroups:
    """The documents of the candidates, whose passages are given in the same order.

    In each leg a document has the score of its best chunk, and the rank that its best chunk gives
    it among documents.
    """
    names = [(item.document.collection, item.document.id) for item in passages]
    documents = {name: item.document for name, item in zip(names, passages, strict=True)}
    different = sorted(documents.values(), key=document_order)
    index_of = {(item.collection, item.id): index for index, item in enumerate(different)}
    owners = np.array([index_of[name] for name in names], np.int64)
    legs = {
        leg: _of_documents(found, owners, len(different)) for leg, found in candidates.legs.items()
    }
    keys = np.arange(len(different))
    grouped = Candidates(keys, legs, candidates.depth)
    return DocumentGroups(different, owners, grouped)


def rank_documents(
    groups: DocumentGroups, fused: Fused, best_chunks: Mapping[tuple[str, str], Chunk]
) -> list[FoundDocument]:
    """The documents in a total order: score, best rank in a leg, source.

    `best_chunks` are by collection and id.
    """
    order = np.lexsort((groups.candidates.best_ranks(), -fused.scores))
    found = []
    for row in order.tolist():
        document = groups.documents[row]
        best = best_chunks[document.collection, document.id]
        legs = leg_scores(row, groups.candidates, fused)
        found.append(FoundDocument(document, float(fused.scores[row]), legs, best))
    return found


def _of_documents(found: LegScores, owners: NDArray[np.int64], count: int) -> LegScores:
    scores = np.full(count, -np.inf)
    np.maximum.at(scores, owners, found.scores)
    best = np.full(count, NOT_FOUND)
    np.minimum.at(best, owners, np.where(found.ranks > 0, found.ranks, NOT_FOUND))
    listed = best < NOT_FOUND
    ranks = np.where(listed, 1 + np.searchsorted(np.sort(best[listed]), best), 0)
    return LegScores(scores, ranks.astype(np.int64))
