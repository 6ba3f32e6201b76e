"""From keys to rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.filter_keys import ChunkKeys
from lagotto.indexes.vectors.ranking import Positions

SPARSE = 8
"""Table entries per key beyond which a table takes too much memory."""


class Places:
    """Finds the rows of keys; of a key that occurs twice, the later row.

    Keys are numbered in the order of writing, so they are dense: a table with an entry for every
    number from the least key to the greatest is 20 times as fast as bisection. Where deletions
    have left too few keys, bisection is used. Either is built when first needed.
    """

    def __init__(self, keys: ChunkKeys) -> None:
        self._keys = keys

    def find(self, wanted: ChunkKeys) -> Positions:
        """The position of each of `wanted`, -1 for unknown keys."""
        found = np.full(len(wanted), -1, dtype=np.intp)
        if len(self._keys) and len(wanted):
            low, high = self._bounds
            inside = np.flatnonzero((wanted >= low) & (wanted <= high))
            if len(inside):
                found[inside] = self._look_up(wanted[inside])
        return found

    def _look_up(self, wanted: ChunkKeys) -> Positions:
        low, high = self._bounds
        if high - low < SPARSE * len(self._keys):
            return self._table[wanted - low].astype(np.intp)
        order, ascending = self._sorted
        last = np.searchsorted(ascending, wanted, side="right") - 1
        return np.where(ascending[last] == wanted, order[last], -1)

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
