"""Checksums of the rows on disk, a block of rows at a time.

A disk or a stray writer may change a few bytes, and one garbage row can outrank all others. So the
rows of a block are compared with their checksum before the first of them is used; a block that was
compared once is trusted as long as the file is mapped.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vectors
from lagotto.errors import IndexDamagedError
from lagotto.indexes.vectors.ranking import Positions

Sums = NDArray[np.uint32]

BLOCK_BYTES = 1 << 14
"""A search through a sketch reads single rows all over the file, and verifies a block for each."""


def rows_per_block(dimension: int) -> int:
    """How many rows share a checksum: a power of two."""
    return 1 << max(0, (BLOCK_BYTES // (4 * dimension)).bit_length() - 1)


def block_sums(rows: Vectors) -> Iterator[int]:
    """The checksum of each block of `rows`."""
    step = rows_per_block(rows.shape[1])
    for start in range(0, len(rows), step):
        yield zlib.crc32(rows[start : start + step].data)


class RowChecksums:
    """The rows of a file with their checksums; raises IndexDamagedError where they differ."""

    def __init__(self, rows: Vectors, sums: Sums, *, path: Path) -> None:
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
        blocks = self._every if positions is None else positions >> self._shift
        unseen = np.unique(blocks[~self._intact[blocks]])
        for block in unseen.tolist():
            self._verify_block(block)
        if positions is None or (len(unseen) and bool(self._intact.all())):
            self._all_intact = True

    @cached_property
    def _every(self) -> Positions:
        return np.arange(len(self._sums), dtype=np.intp)

    def _verify_block(self, block: int) -> None:
        start = block << self._shift
        rows = self._rows[start : start + (1 << self._shift)]
        if zlib.crc32(rows.data) != self._sums[block]:
            raise IndexDamagedError(
                f"{self._path} is damaged: wrong checksum of the rows from {start} on"
            )
        self._intact[block] = True
