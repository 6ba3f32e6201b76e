"""The index at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lagotto.documents import Vector, Vectors
from lagotto.errors import ConfigError, EmbeddingError, ModelMismatchError
from lagotto.indexes.filter_keys import ChunkKeys
from lagotto.indexes.hits import Hits, merge_hits
from lagotto.indexes.vectors.ranking import Scores
from lagotto.indexes.vectors.segment import VectorSegment
from lagotto.indexes.vectors.tuning import Tuning

COPIED = 8192
"""Rows copied at a time when the index is rewritten."""


@dataclass(frozen=True, slots=True)
class MatrixSnapshot:
    """A base and the tail of what came later; a key is alive in at most one of them.

    A snapshot never changes, whatever happens to the index, so its answers are consistent. The
    keys in `allowed` are unique; if `k` of them are in the index, `k` come back, however few they
    are among all rows.
    """

    base: VectorSegment
    tail: VectorSegment
    tuning: Tuning

    def __len__(self) -> int:
        return len(self.base) + len(self.tail)

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        return int(self.base.rows.shape[1])

    @property
    def keys(self) -> ChunkKeys:
        """All keys in the index, ascending."""
        return np.sort(np.concatenate([self.base.living_keys, self.tail.living_keys]))

    def search(self, query: Vector, k: int, *, allowed: ChunkKeys | None = None) -> Hits:
        """The `k` rows with the greatest cosine, greatest first, ties by key."""
        check_count(k)
        check_vectors(query[None], dimension=self.dimension)
        found = [
            part.search(query, k=k, among=part.choose(allowed), tuning=self.tuning)
            for part in (self.base, self.tail)
        ]
        return merge_hits(found, k=k)

    def search_many(
        self, queries: Vectors, k: int, *, allowed: ChunkKeys | None = None
    ) -> list[Hits]:
        """The result of `search` for each query; faster where all rows are scored."""
        check_count(k)
        check_vectors(queries, dimension=self.dimension)
        base, tail = (
            part.search_each(queries, k=k, among=part.choose(allowed), tuning=self.tuning)
            for part in (self.base, self.tail)
        )
        return [merge_hits(pair, k=k) for pair in zip(base, tail, strict=True)]

    def scores(self, query: Vector, keys: ChunkKeys) -> Scores:
        """The cosine of each of `keys`, NaN for those that are not in the index."""
        check_vectors(query[None], dimension=self.dimension)
        scores = np.full(len(keys), np.nan, dtype=np.float32)
        for part in (self.base, self.tail):
            part.fill(scores, query, keys)
        return scores

    def blocks(self) -> Iterator[Vectors]:
        """All rows in the order of `keys`, in blocks."""
        keys = self.keys
        for start in range(0, len(keys), COPIED):
            some = keys[start : start + COPIED]
            rows = np.empty((len(some), self.dimension), dtype=np.float32)
            for part in (self.base, self.tail):
                part.copy_rows(rows, some)
            yield rows

    def without(self, keys: ChunkKeys) -> MatrixSnapshot:
        """The snapshot without the rows of `keys`."""
        return replace(self, base=self.base.without(keys), tail=self.tail.without(keys))

    def loose(self) -> int:
        """The number of rows outside the base, and of dead rows in it."""
        return len(self.tail.keys) + len(self.base.keys) - len(self.base)


def check_count(k: int) -> None:
    """ConfigError unless at least one hit is asked for."""
    if k < 1:
        raise ConfigError(f"k is {k}: ask for at least one hit")


def check_vectors(vectors: Vectors, *, dimension: int) -> None:
    """Raise unless all rows are float32 unit vectors of that dimension."""
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        raise ModelMismatchError(
            f"the index holds vectors of dimension {dimension}, not of the shape "
            f"{vectors.shape[1:]}; use the model that it was made with"
        )
    if vectors.dtype != np.float32:
        raise EmbeddingError(f"vectors are float32 here, not {vectors.dtype}; convert them")
    lengths = np.sqrt(np.vecdot(vectors, vectors))
    if not (np.abs(lengths - 1) < 1e-3).all():
        worst = lengths[np.argmax(np.where(np.isnan(lengths), np.inf, np.abs(lengths - 1)))]
        raise EmbeddingError(f"a vector has the length {worst}, not 1; normalise vectors first")
