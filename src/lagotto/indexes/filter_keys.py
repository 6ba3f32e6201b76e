"""The chunks that a filter allows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lagotto.filters import Filter

ChunkKeys = NDArray[np.int64]
"""A store's own numbers for its chunks; a number is never used again."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FilterKeys:
    """The chunks that a search may find, ascending.

    Where these are all chunks of some documents, `documents` are their keys: there are fewer of
    them, so an index finds them in less time. Every one of the chunks matches `where`, if it is
    given: an index that knows the fields of chunks may search only those that match, and leave out
    what is not among the keys.
    """

    keys: ChunkKeys
    documents: NDArray[np.int64] | None = None
    where: Filter | None = None
    _mask: list[Mask] = field(default_factory=list, repr=False)

    def mask(self, size: int) -> Mask:
        """For each key below `size`, whether it is allowed; where keys begin near 0."""
        known = self._mask[0] if self._mask else None
        if known is None or len(known) != size:
            known = np.zeros(size, np.bool_)
            known[self.keys[self.keys < size]] = True
            self._mask[:] = [known]
        return known

    def contains(self, keys: ChunkKeys) -> Mask:
        """For each of `keys`, whether it is allowed."""
        return are_among(keys, self.keys)


LARGEST_TABLE = 2**26
"""A table has a byte for every number between the least key and the greatest."""


def are_among(keys: NDArray[np.integer], others: NDArray[np.integer]) -> Mask:
    """For each of `keys`, whether it is one of `others`.

    Keys are mostly dense, and then a table is ten times as quick as sorting.
    """
    if not len(others):
        return np.zeros(len(keys), np.bool_)
    dense = int(others.max()) - int(others.min()) < LARGEST_TABLE
    return np.isin(keys, others, kind="table" if dense else "sort")
