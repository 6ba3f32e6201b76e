"""The record's vectors decide the scores, whatever an index proposes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lagotto.concurrency import checkpoint
from lagotto.documents import Vector, Vectors
from lagotto.indexes.base import ChangeLog, ChunkKeys
from lagotto.indexes.hits import NO_HITS, Hits, merge_hits, top_k
from lagotto.indexes.vectors.ranking import dots

READ_AT_ONCE = 5_000


class RecordVectors:
    """The vectors of one state of the record under a model.

    For indexes that hold approximations, or are behind a network. `best` and `scores` give the same
    scores, in the total order of Hits; a chunk that the record does not have is left out, or has
    the score 0.
    """

    def __init__(self, changes: ChangeLog, *, model_id: str, dimension: int) -> None:
        self._changes = changes
        self._model_id = model_id
        self._dimension = dimension

    async def best(self, query: Vector, keys: ChunkKeys, *, k: int) -> Hits:
        """The `k` chunks with the greatest cosines among those of `keys` that exist."""
        return await self._changes.run(lambda: self.best_of(query, keys, k=k))

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        """The cosine of each of `keys`, 0 for one that does not exist."""
        found, vectors = await self._changes.run(lambda: self.of(np.unique(keys)))
        scores = np.zeros(len(keys), np.float32)
        if len(found):
            positions = np.searchsorted(found, keys).clip(max=len(found) - 1)
            here = found[positions] == keys
            scores[here] = dots(vectors, query)[positions[here]]
        return scores

    async def best_of_all(self, query: Vector, *, k: int, last: int) -> Hits:
        """The `k` chunks with the greatest cosines among all up to the key `last`."""
        return await self._changes.run(lambda: _best(query, self._up_to(last), k))

    def best_of(self, query: Vector, keys: ChunkKeys, *, k: int) -> Hits:
        """As `best`, for code that runs in a thread."""
        return _best(query, self._batches(np.unique(keys)), k)

    def of(self, keys: ChunkKeys) -> tuple[ChunkKeys, Vectors]:
        """Those of `keys` that exist, ascending, and their vectors."""
        return self._changes.vectors_of(keys, model_id=self._model_id, dimension=self._dimension)

    def added(self, start: int, stop: int) -> tuple[ChunkKeys, Vectors]:
        """The chunks that were added in a range of changes, and their vectors."""
        return self._changes.added_vectors(
            start, stop, model_id=self._model_id, dimension=self._dimension
        )

    def _batches(self, keys: ChunkKeys) -> Iterator[tuple[ChunkKeys, Vectors]]:
        for start in range(0, len(keys), READ_AT_ONCE):
            yield self.of(keys[start : start + READ_AT_ONCE])

    def _up_to(self, last: int) -> Iterator[tuple[ChunkKeys, Vectors]]:
        for start, stop in self._changes.ranges(since=0):
            if start >= last:
                break
            yield self.added(start, min(stop, last))


def _best(query: Vector, rows: Iterator[tuple[ChunkKeys, Vectors]], k: int) -> Hits:
    best = NO_HITS
    for keys, vectors in rows:
        checkpoint()
        best = merge_hits([best, top_k(keys, dots(vectors, query), k)], k=k)
    return best
