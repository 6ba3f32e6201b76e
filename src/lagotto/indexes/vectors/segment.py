"""Rows that never change, and the search in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.indexes.filter_keys import ChunkKeys
from lagotto.indexes.hits import Hits, top_k
from lagotto.indexes.vectors.checksums import RowChecksums
from lagotto.indexes.vectors.places import Places
from lagotto.indexes.vectors.ranking import Positions, Scores, best_of_each, dots
from lagotto.indexes.vectors.sketch import Sketch
from lagotto.indexes.vectors.tuning import Tuning

FEW = 3
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
    places: Places
    alive: NDArray[np.bool_] | None = None
    sketch: Sketch | None = None
    checksums: RowChecksums | None = None

    @classmethod
    def of(cls, keys: ChunkKeys, rows: Vectors, *, tuning: Tuning) -> Self:
        """A segment of these rows, with a sketch if they are many."""
        sketch = Sketch.of(rows) if len(rows) > tuning.exact_rows else None
        return cls(keys, rows, Places(keys), sketch=sketch)

    @classmethod
    def empty(cls, dimension: int) -> Self:
        """A segment without rows."""
        keys = np.empty(0, dtype=np.int64)
        return cls(keys, np.empty((0, dimension), dtype=np.float32), Places(keys))

    def __len__(self) -> int:
        return len(self.keys) if self._living is None else len(self._living)

    @property
    def living_keys(self) -> ChunkKeys:
        """The keys of the rows that count, in their order."""
        return self.keys if self._living is None else self.keys[self._living]

    def find(self, keys: ChunkKeys) -> Positions:
        """The position of each key's row, -1 for keys of other segments."""
        found = self.places.find(keys)
        if self.alive is not None:
            found[~self.alive[found] & (found >= 0)] = -1
        return found

    def without(self, keys: ChunkKeys) -> Self:
        """The segment without the rows of `keys`; unknown keys are ignored."""
        found = self.find(keys)
        gone = found[found >= 0]
        if not len(gone):
            return self
        alive = np.ones(len(self.keys), dtype=np.bool_) if self.alive is None else self.alive.copy()
        alive[gone] = False
        return replace(self, alive=alive)

    def choose(self, allowed: ChunkKeys | None) -> Positions | None:
        """The positions of the living rows with allowed keys; None stands for all rows."""
        if allowed is None:
            return self._living
        found = self.find(allowed)
        return found[found >= 0]

    def search(self, query: Vector, *, k: int, among: Positions | None, tuning: Tuning) -> Hits:
        """The best `k` of the rows at `among`."""
        count = tuning.candidates_for(k, rows=len(self.keys))
        if self.sketch and self._many(among, count):
            among = self.sketch.nearest(query, count=count, among=among)
        keys = self.keys if among is None else self.keys.take(among)
        return top_k(keys, self._scored(query, among), k)

    def search_each(
        self, queries: Vectors, *, k: int, among: Positions | None, tuning: Tuning
    ) -> Iterable[Hits]:
        """The result of `search` for each of `queries`."""
        if self.sketch and self._many(among, tuning.candidates_for(k, rows=len(self.keys))):
            return (self.search(query, k=k, among=among, tuning=tuning) for query in queries)
        self.verify(among)
        if among is None:
            return best_of_each(self.keys, self.rows, queries, k=k)
        return best_of_each(self.keys[among], self.rows[among], queries, k=k)

    def fill(self, scores: Scores, query: Vector, keys: ChunkKeys) -> None:
        """Fill in the scores of those `keys` that are in this segment."""
        found = self.find(keys)
        here = np.flatnonzero(found >= 0)
        scores[here] = self._scored(query, found[here])

    def copy_rows(self, target: Vectors, keys: ChunkKeys) -> None:
        """Fill in the rows of those `keys` that are in this segment."""
        found = self.find(keys)
        here = np.flatnonzero(found >= 0)
        self.verify(found[here])
        target[here] = self.rows.take(found[here], axis=0)

    def living_from(self, start: int) -> tuple[ChunkKeys, Vectors]:
        """Keys and rows of the living rows from a position on."""
        later = np.arange(start, len(self.keys))
        if self.alive is not None:
            later = later[self.alive[later]]
        self.verify(later)
        return self.keys[later], self.rows[later]

    def verify(self, positions: Positions | None = None) -> None:
        """Compare rows with their checksums, if they have any: those at `positions`, or all."""
        if self.checksums is not None:
            self.checksums.verify(positions)

    def _scored(self, query: Vector, among: Positions | None) -> Scores:
        self.verify(among)
        return dots(self.rows, query, among)

    @cached_property
    def _living(self) -> Positions | None:
        return None if self.alive is None else np.flatnonzero(self.alive)

    def _many(self, among: Positions | None, count: int) -> bool:
        return len(self.keys if among is None else among) > FEW * count
