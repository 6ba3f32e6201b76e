"""From chunks to documents: a document is as good as its best chunk says, leg by leg."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Document
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.stores.base import Passage

NOT_FOUND = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class DocumentGroups:
    """The documents that candidates belong to.

    `owners` says which document each candidate is of; `candidates` has a row per document.
    """

    documents: Sequence[Document]
    owners: NDArray[np.int64]
    candidates: Candidates


def collapse(candidates: Candidates, passages: Sequence[Passage]) -> DocumentGroups:
    """The documents of the candidates, whose passages are given in the same order.

    In each leg a document has the score of its best chunk, and the rank that its best chunk gives
    it among documents.
    """
    names = [(item.document.collection, item.document.id) for item in passages]
    different = sorted(set(names))
    place_of = {name: place for place, name in enumerate(different)}
    owners = np.array([place_of[name] for name in names], np.int64)
    documents = {name: item.document for name, item in zip(names, passages, strict=True)}
    legs = {
        leg: _of_documents(found, owners, len(different)) for leg, found in candidates.legs.items()
    }
    keys = np.arange(len(different))
    return DocumentGroups([documents[name] for name in different], owners, Candidates(keys, legs))


def _of_documents(found: LegScores, owners: NDArray[np.int64], count: int) -> LegScores:
    scores = np.full(count, -np.inf)
    np.maximum.at(scores, owners, found.scores)
    best = np.full(count, NOT_FOUND)
    np.minimum.at(best, owners, np.where(found.ranks > 0, found.ranks, NOT_FOUND))
    listed = best < NOT_FOUND
    ranks = np.where(listed, 1 + np.searchsorted(np.sort(best[listed]), best), 0)
    return LegScores(scores, ranks.astype(np.int64))
