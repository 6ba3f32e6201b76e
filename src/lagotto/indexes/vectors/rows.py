"""Rows of vectors that never change, the search in them, and snapshots of an index."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.errors import ConfigError, EmbeddingError, IndexDamagedError, ModelMismatchError
from lagotto.indexes.base import ChunkKeys, Hits, KeyedRows, merge_hits, top_k
from lagotto.indexes.vectors.sketch import Positions, Scores, Sketch, Tuning, dots

ROWS_COPIED = 8192
"""Rows copied at a time when the index is rewritten."""


@dataclass(frozen=True, slots=True)
class MatrixSnapshot:
    """A base and the tail of what came later; a key is alive in at most one of them.

    The keys in `allowed` are unique; if `k` of them are in the index, `k` come back, however few
    they are among all rows.
    """

    base: VectorSegment
    tail: VectorSegment
    tuning: Tuning

    def __len__(self) -> int:
        return len(self.base) + len(self.tail)

    @property
    def dimension(self) -> int:
        return int(self.base.rows.shape[1])

    @property
    def keys(self) -> ChunkKeys:
        return np.sort(np.concatenate([self.base.live_keys, self.tail.live_keys]))

    def search(self, query: Vector, k: int, *, allowed: ChunkKeys | None = None) -> Hits:
        """The `k` rows with the greatest cosine, greatest first, ties by key."""
        if k < 1:
            raise ConfigError(f"k is {k}: ask for at least one hit")
        check_vectors(query[None], dimension=self.dimension)
        parts = [part for part in (self.base, self.tail) if len(part.keys)] or [self.base]
        hits = [part.search(query, k=k, allowed=allowed, tuning=self.tuning) for part in parts]
        return hits[0] if len(hits) == 1 else merge_hits(hits, k=k)

    def scores(self, query: Vector, keys: ChunkKeys) -> Scores:
        """The cosine of each of `keys`, 0 for those that are not in the index."""
        check_vectors(query[None], dimension=self.dimension)
        scores = np.zeros(len(keys), dtype=np.float32)
        for part in (self.base, self.tail):
            here, positions = part.find(keys)
            scores[here] = part.scored(query, positions)
        return scores

    def blocks(self) -> Iterator[Vectors]:
        """All rows in the order of `keys`, in blocks."""
        keys = self.keys
        for start in range(0, len(keys), ROWS_COPIED):
            some = keys[start : start + ROWS_COPIED]
            rows = np.empty((len(some), self.dimension), dtype=np.float32)
            for part in (self.base, self.tail):
                here, positions = part.find(some)
                rows[here] = part.take(positions)
            yield rows

    def without(self, keys: ChunkKeys) -> MatrixSnapshot:
        return replace(self, base=self.base.without(keys), tail=self.tail.without(keys))

    def uncompacted(self) -> int:
        """The number of rows outside the base, and of dead rows in it."""
        return len(self.tail.keys) + len(self.base.keys) - len(self.base)


ROWS_SCORED_PER_CANDIDATE = 3
"""Scoring this many times the candidates takes no longer than selecting them by the sketch."""


@dataclass(frozen=True)
class VectorSegment:
    """Keys and their unit vectors; `alive` marks the rows that still count, None means all.

    A segment is never changed, so any number of threads may search it. With a sketch, a search
    scores only the rows that the sketch proposes, but scores them exactly. Rows with checksums,
    which come from a file, are verified before they are first used: IndexDamagedError.
    """

    keys: ChunkKeys
    rows: Vectors
    lookup: RowLookup
    alive: NDArray[np.bool_] | None = None
    sketch: Sketch | None = None
    checksums: RowChecksums | None = None

    @classmethod
    def empty(cls, dimension: int) -> Self:
        keys = np.empty(0, dtype=np.int64)
        return cls(keys, np.empty((0, dimension), dtype=np.float32), RowLookup(keys))

    def __len__(self) -> int:
        return len(self.keys) if self._live is None else len(self._live)

    @property
    def live_keys(self) -> ChunkKeys:
        """The keys of the rows that count, in their order."""
        return self.keys if self._live is None else self.keys[self._live]

    def find(self, keys: ChunkKeys) -> tuple[Positions, Positions]:
        """Which of `keys` have a live row here, by their index, and the positions of the rows."""
        positions = self.lookup.find(keys)
        here = positions >= 0
        if self.alive is not None:
            here &= self.alive[positions]
        return np.flatnonzero(here), positions[here]

    def without(self, keys: ChunkKeys) -> Self:
        """The segment without the rows of `keys`; unknown keys are ignored."""
        _, removed = self.find(keys)
        if not len(removed):
            return self
        alive = np.ones(len(self.keys), dtype=np.bool_) if self.alive is None else self.alive.copy()
        alive[removed] = False
        return replace(self, alive=alive)

    def search(self, query: Vector, *, k: int, allowed: ChunkKeys | None, tuning: Tuning) -> Hits:
        """The best `k` of the rows with allowed keys; None stands for all rows."""
        among = self._live if allowed is None else self.find(allowed)[1]
        count = tuning.candidates + tuning.per_hit * k + len(self.keys) // tuning.rows_per_candidate
        rows = len(self.keys if among is None else among)
        if self.sketch and rows > ROWS_SCORED_PER_CANDIDATE * count:
            among = self.sketch.nearest(query, count=count, among=among)
        keys = self.keys if among is None else self.keys.take(among)
        return top_k(keys, self.scored(query, among), k)

    def scored(self, query: Vector, among: Positions | None) -> Scores:
        """The cosines of the rows at `among`, or of all."""
        return dots(self.verify(among), query, among)

    def take(self, positions: Positions) -> Vectors:
        return self.verify(positions).take(positions, axis=0)

    def live_from(self, start: int) -> KeyedRows:
        """Keys and rows of the live rows from a position on."""
        later = np.arange(start, len(self.keys))
        if self.alive is not None:
            later = later[self.alive[later]]
        return self.keys[later], self.take(later)

    def verify(self, positions: Positions | None = None) -> Vectors:
        """The rows, those at `positions` or all compared with checksums, if they have any."""
        if self.checksums is not None:
            self.checksums.verify(positions)
        return self.rows

    @cached_property
    def _live(self) -> Positions | None:
        return None if self.alive is None else np.flatnonzero(self.alive)


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


MOST_ENTRIES_PER_KEY = 8
"""Table entries per key beyond which a table takes too much memory."""


class RowLookup:
    """Finds the rows of keys; of a key that occurs twice, the later row.

    Keys are numbered in the order of writing, so they are dense: a table with an entry for every
    number from the least key to the greatest is 20 times as fast as bisection. Where deletions
    have left too few keys, bisection is used. Either is built when first needed.
    """

    def __init__(self, keys: ChunkKeys) -> None:
        self._keys = keys

    def find(self, wanted: ChunkKeys) -> Positions:
        """The position of each of `wanted`, -1 for unknown keys."""
        positions = np.full(len(wanted), -1, dtype=np.intp)
        if not len(self._keys) or not len(wanted):
            return positions
        low, high = self._bounds
        inside = np.flatnonzero((wanted >= low) & (wanted <= high))
        if not len(inside):  # as for keys that are new: nothing needs to be built
            return positions
        some = wanted[inside]
        if high - low < MOST_ENTRIES_PER_KEY * len(self._keys):
            positions[inside] = self._table[some - low]
        else:
            order, ascending = self._sorted
            last = np.searchsorted(ascending, some, side="right") - 1
            positions[inside] = np.where(ascending[last] == some, order[last], -1)
        return positions

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        return int(self._keys.min()), int(self._keys.max())

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        low, high = self._bounds
        table = np.full(high - low + 1, -1, dtype=np.int32)
        table[self._keys - low] = np.arange(len(self._keys), dtype=np.int32)
        return table

    @cached_property
    def _sorted(self) -> tuple[Positions, ChunkKeys]:
        order = np.argsort(self._keys, kind="stable")
        return order, self._keys[order]


BLOCK_BYTES = 1 << 14
"""A search through a sketch reads single rows all over the file, and verifies a block for each."""


class RowChecksums:
    """The rows of a file with their checksums; raises IndexDamagedError where they differ."""

    def __init__(self, rows: Vectors, sums: NDArray[np.uint32], *, path: Path) -> None:
        self._rows = rows
        self._sums = sums
        self._path = path
        self._shift = rows_per_block(rows.shape[1]).bit_length() - 1
        self._intact = np.zeros(len(sums), np.bool_)
        self._all_intact = not len(sums)

    def verify(self, positions: Positions | None = None) -> None:
        """Make sure that the rows at `positions`, or all rows, are as they were written."""
        if self._all_intact:
            return
        blocks = np.arange(len(self._sums)) if positions is None else positions >> self._shift
        unseen = np.unique(blocks[~self._intact[blocks]])
        for block in unseen.tolist():
            start = block << self._shift
            rows = self._rows[start : start + (1 << self._shift)]
            if zlib.crc32(rows.data) != self._sums[block]:
                raise IndexDamagedError(
                    f"{self._path} is damaged: wrong checksum of the rows from {start} on"
                )
            self._intact[block] = True
        if positions is None or (len(unseen) and bool(self._intact.all())):
            self._all_intact = True


def rows_per_block(dimension: int) -> int:
    """How many rows share a checksum: a power of two."""
    return 1 << max(0, (BLOCK_BYTES // (4 * dimension)).bit_length() - 1)
