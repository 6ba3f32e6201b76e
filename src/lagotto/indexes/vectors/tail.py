"""Rows added since the base was written."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vectors
from lagotto.indexes.filter_keys import ChunkKeys
from lagotto.indexes.vectors.places import Places
from lagotto.indexes.vectors.segment import Segment
from lagotto.indexes.vectors.sketch import Frame, Sketch

FIRST = 64


class Tail:
    """Room that grows by doubling, so that adding a row takes the same time however many there are.

    New rows go behind those that segments handed out earlier can see, or into new, larger arrays:
    a segment stays as it was. Only one thread may append. `frame` is that of the base's sketch.
    """

    def __init__(self, dimension: int, *, frame: Frame | None) -> None:
        self._frame = frame
        self._used = 0
        self._keys = np.empty(FIRST, dtype=np.int64)
        self._rows = np.empty((FIRST, dimension), dtype=np.float32)
        words = frame.words if frame else 0
        self._codes = np.empty((words, FIRST), dtype=np.uint64)

    def append(self, keys: ChunkKeys, rows: Vectors, *, alive: NDArray[np.bool_] | None) -> Segment:
        """The segment with `keys` and `rows` behind the rows so far, of which `alive` count."""
        end = self._used + len(keys)
        if end > len(self._keys):
            self._grow(max(end, 2 * len(self._keys)))
        self._keys[self._used : end] = keys
        self._rows[self._used : end] = rows
        if self._frame:
            self._codes[:, self._used : end] = self._frame.encode(rows)
        self._used = end
        if alive is not None:
            alive = np.concatenate([alive, np.ones(len(keys), dtype=np.bool_)])
        return self._segment(alive)

    def _segment(self, alive: NDArray[np.bool_] | None) -> Segment:
        keys = self._keys[: self._used]
        sketch = Sketch(self._frame, self._codes[:, : self._used]) if self._frame else None
        return Segment(keys, self._rows[: self._used], Places(keys), alive, sketch)

    def _grow(self, size: int) -> None:
        used = slice(self._used)
        keys, rows, codes = self._keys, self._rows, self._codes
        self._keys = np.empty(size, dtype=np.int64)
        self._rows = np.empty((size, rows.shape[1]), dtype=np.float32)
        self._codes = np.empty((len(codes), size), dtype=np.uint64)
        self._keys[used], self._rows[used] = keys[used], rows[used]
        self._codes[:, used] = codes[:, used]
