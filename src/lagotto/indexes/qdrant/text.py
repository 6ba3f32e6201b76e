"""Full text on a Qdrant server: sparse vectors of our own BM25 weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from qdrant_client import grpc, models

from lagotto.concurrency import checkpoint
from lagotto.indexes.base import (
    ChangeLog,
    ChunkKeys,
    ChunkText,
    ContextText,
    PreparedTexts,
    text_rules,
)
from lagotto.indexes.qdrant.conditions import TERMS
from lagotto.indexes.qdrant.following import QdrantFollower, is_of
from lagotto.indexes.qdrant.points import NewPoint
from lagotto.indexes.qdrant.state import CollectionState
from lagotto.indexes.qdrant.term_dictionary import TermDictionary
from lagotto.indexes.qdrant.text_search import SPARSE, QdrantText
from lagotto.indexes.qdrant.weights import chunk_vector
from lagotto.indexes.registry import IndexSite
from lagotto.terms import index_terms

SAMPLED = 4_000
"""Changes from whose chunks the mean length is estimated before a collection is filled."""

DRIFTED = (0.8, 1.2)
"""Where the mean length has left this share of the one that weights were computed with, a search
reads many more chunks than it returns: the collection is built again."""


class QdrantTextIndex(QdrantFollower):
    """A TextIndex in a collection of a Qdrant server."""

    role = "text"

    def __init__(self, site: IndexSite) -> None:
        super().__init__(site, made_with=text_rules())
        self._dictionary = TermDictionary()

    def stored_length(self, terms: int, /) -> int:
        return terms

    def follow(self, changes: ChangeLog) -> QdrantText | None:
        state = self._caught_up(changes)
        if state.position != changes.head:
            return None
        return QdrantText(self.server, state, changes, self._dictionary)

    def latest(self, changes: ChangeLog) -> QdrantText | None:
        state = self._state
        if state is None or not is_of(changes, state.position):
            return None
        return QdrantText(self.server, state, changes, self._dictionary)

    def prepare(self, texts: Iterable[ContextText]) -> PreparedTexts:
        """Nothing to prepare."""
        return {}

    def add_chunks(self, changes: ChangeLog, *, since: int, prepared: PreparedTexts) -> None:
        """Nothing to do: the index follows later."""

    def remove_documents(self, changes: ChangeLog, document_keys: Sequence[int]) -> None:
        """Nothing to do: the index follows later."""

    def _create(self, changes: ChangeLog) -> CollectionState:
        return self.collections.create(
            sparse={SPARSE: models.SparseVectorParams()},
            keywords=(TERMS,),
            mean=self._known_mean(changes) or _estimated_mean(changes),
        )

    def _known_mean(self, changes: ChangeLog) -> float | None:
        """The mean length by the collection that is built again."""
        state = self._state
        if state is None or not state.chunks or not is_of(changes, state.position):
            return None
        return state.mean_length

    def _points(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> Iterator[NewPoint]:
        for chunk in changes.added_texts(start, stop):
            checkpoint()
            terms = index_terms(chunk.text, chunk.language)
            counts = Counter(terms)
            vector = chunk_vector(counts, length=len(terms), mean=state.mean)
            payload = {TERMS: sorted(counts), "length": len(terms)}
            vectors = grpc.NamedVectors(vectors={SPARSE: grpc.Vector(sparse=vector)})
            yield NewPoint(chunk.key, grpc.Vectors(vectors=vectors), payload, len(terms))

    def _keys(self, changes: ChangeLog, start: int, stop: int) -> ChunkKeys:
        return np.array([chunk.key for chunk in changes.added_texts(start, stop)], np.int64)

    def _outdated(self, state: CollectionState) -> bool:
        least, most = DRIFTED
        drift = state.mean_length / state.mean
        return state.chunks > 0 and not least <= drift <= most


def _estimated_mean(changes: ChangeLog) -> float:
    """The mean length of the chunks of a log, or of a sample if there are many."""
    last = changes.head.number
    keys = np.arange(1, last + 1, dtype=np.int64)
    if last > SAMPLED:
        keys = np.sort(np.random.default_rng(last).choice(last, SAMPLED, replace=False) + 1)
    lengths = [_length(chunk) for chunk in changes.texts_of(keys)]
    return sum(lengths) / max(1, len(lengths)) or 1.0


def _length(chunk: ChunkText) -> int:
    checkpoint()
    return len(index_terms(chunk.text, chunk.language))
