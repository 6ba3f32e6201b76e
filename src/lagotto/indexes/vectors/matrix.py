"""The vectors of one model: a base segment, a tail of newer rows, snapshots to search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.indexes.base import ChunkKeys, LogPosition
from lagotto.indexes.hits import Hits
from lagotto.indexes.vectors.generations import read_generation, read_newest, write_generation
from lagotto.indexes.vectors.places import Places
from lagotto.indexes.vectors.ranking import Scores
from lagotto.indexes.vectors.segment import VectorSegment
from lagotto.indexes.vectors.sketch import Frame, Sketch
from lagotto.indexes.vectors.snapshot import MatrixSnapshot, check_vectors
from lagotto.indexes.vectors.tuning import Tuning

FIRST_ROWS = 64
"""The capacity of a new tail."""


class Tail:
    """Rows added since the base was written, in arrays that grow by doubling.

    New rows go behind the rows of segments handed out earlier, or into new, larger arrays, so a
    segment never changes. Only one thread may append. `frame` is the one of the base's sketch.
    """

    def __init__(self, dimension: int, *, frame: Frame | None) -> None:
        self._frame = frame
        self._used = 0
        self._keys = np.empty(FIRST_ROWS, dtype=np.int64)
        self._rows = np.empty((FIRST_ROWS, dimension), dtype=np.float32)
        words = frame.words if frame else 0
        self._codes = np.empty((words, FIRST_ROWS), dtype=np.uint64)

    def append(
        self, keys: ChunkKeys, rows: Vectors, *, alive: NDArray[np.bool_] | None
    ) -> VectorSegment:
        """Append `keys` and `rows`; the new segment, in which `alive` old rows count."""
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

    def _segment(self, alive: NDArray[np.bool_] | None) -> VectorSegment:
        keys = self._keys[: self._used]
        sketch = Sketch(self._frame, self._codes[:, : self._used]) if self._frame else None
        return VectorSegment(keys, self._rows[: self._used], Places(keys), alive, sketch)

    def _grow(self, size: int) -> None:
        used = slice(self._used)
        keys, rows, codes = self._keys, self._rows, self._codes
        self._keys = np.empty(size, dtype=np.int64)
        self._rows = np.empty((size, rows.shape[1]), dtype=np.float32)
        self._codes = np.empty((len(codes), size), dtype=np.uint64)
        self._keys[used], self._rows[used] = keys[used], rows[used]
        self._codes[:, used] = codes[:, used]


class VectorMatrix:
    """Chunk keys and their unit vectors under one model; finds the nearest to a query.

    Contract: scores are exact cosines, hits are sorted by score, then by key, and a filter never
    loses a result. Up to 20,000 rows the search is exact; beyond, the benchmark measures its
    recall. Any number of threads may search while others add, remove or save. These changes
    exclude each other, and a search sees each of them completely or not at all.

    The index is derived from the rows of the store and can be discarded. Added rows stay in memory
    until `save` writes them; `saved` is the position of the last change that was written.
    """

    def __init__(self, model_id: str, *, dimension: int, tuning: Tuning | None = None) -> None:
        self.model_id = model_id
        self.dimension = dimension
        self.saved: LogPosition | None = None
        self._tuning = tuning or Tuning()
        self._writing = Lock()
        self._saving = Lock()
        self._snapshot: MatrixSnapshot
        self._tail: Tail
        self._start_from(VectorSegment.empty(dimension))

    @classmethod
    def load(
        cls, folder: Path, *, model_id: str, dimension: int, tuning: Tuning | None = None
    ) -> Self | None:
        """The index last saved in `folder`, None if there is none.

        Raises IndexDamagedError if it is damaged, or of another model, dimension or version.
        """
        generation = read_newest(folder, model_id=model_id, dimension=dimension)
        if generation is None:
            return None
        index = cls(model_id, dimension=dimension, tuning=tuning)
        index._start_from(generation.base)
        index.saved = generation.position
        return index

    def __len__(self) -> int:
        return len(self._snapshot)

    @property
    def keys(self) -> ChunkKeys:
        """All keys, ascending."""
        return self._snapshot.keys

    @property
    def wants_compaction(self) -> bool:
        """Whether enough rows are new or removed to make `save` or `compacted` worthwhile."""
        snapshot = self._snapshot
        return snapshot.loose() > max(self._tuning.loose_rows, len(snapshot.base.keys) // 4)

    def snapshot(self) -> MatrixSnapshot:
        """The present state of the index, for several consistent reads."""
        return self._snapshot

    def search(self, query: Vector, k: int, *, allowed: ChunkKeys | None = None) -> Hits:
        """The `k` nearest of all rows, or of those whose keys are `allowed`."""
        return self._snapshot.search(query, k, allowed=allowed)

    def search_many(
        self, queries: Vectors, k: int, *, allowed: ChunkKeys | None = None
    ) -> list[Hits]:
        """The result of `search` for each query; faster where all rows are scored."""
        return self._snapshot.search_many(queries, k, allowed=allowed)

    def scores(self, query: Vector, keys: ChunkKeys) -> Scores:
        """The cosine of each of `keys`, NaN for those that are not in the index."""
        return self._snapshot.scores(query, keys)

    def add(self, keys: ChunkKeys, vectors: Vectors) -> None:
        """Add rows, replacing those with the same keys; of a repeated key the last counts."""
        check_vectors(vectors, dimension=self.dimension)
        keys, last = np.unique(keys[::-1], return_index=True)
        rows = vectors[::-1][last]
        with self._writing:
            rest = self._snapshot.without(keys)
            tail = self._tail.append(keys, rows, alive=rest.tail.alive)
            self._snapshot = replace(rest, tail=tail)

    def remove(self, keys: ChunkKeys) -> None:
        """Remove rows; unknown keys are ignored."""
        with self._writing:
            self._snapshot = self._snapshot.without(keys)

    def compacted(self) -> VectorMatrix:
        """A new index in memory with the same rows, all in its base."""
        snapshot = self._snapshot
        rows = np.concatenate([np.empty((0, self.dimension), np.float32), *snapshot.blocks()])
        index = VectorMatrix(self.model_id, dimension=self.dimension, tuning=self._tuning)
        index._start_from(VectorSegment.of(snapshot.keys, rows, tuning=self._tuning))
        index.saved = self.saved
        return index

    @property
    def stamp(self) -> int | None:
        """The number of the last change that was saved, None if none was."""
        return self.saved.number if self.saved else None

    def save(self, folder: Path, *, stamp: int, token: int = 0) -> None:
        """Write all rows as a new base to `folder`, and map them from there.

        The former base stays valid until the new one is complete. Failures are StoreErrors, and
        leave the index unchanged. Searches and changes continue meanwhile: `stamp` and `token` are
        those of the last change made before the call.
        """
        with self._saving:
            saved = self._snapshot
            position = LogPosition(stamp, token)
            path = write_generation(folder, saved, model_id=self.model_id, position=position)
            written = read_generation(path, model_id=self.model_id, dimension=self.dimension)
            with self._writing:
                self._continue_from(written.base, saved)
                self.saved = position

    def _continue_from(self, base: VectorSegment, saved: MatrixSnapshot) -> None:
        """Start from a base with what was in `saved`, and repeat what has changed since."""
        later = self._snapshot
        self._start_from(base)
        keys, rows = later.tail.living_from(len(saved.tail.keys))
        gone = np.concatenate([keys, np.setdiff1d(saved.keys, later.keys, assume_unique=True)])
        rest = self._snapshot.without(gone)
        tail = self._tail.append(keys, rows, alive=None)
        self._snapshot = replace(rest, tail=tail)

    def _start_from(self, base: VectorSegment) -> None:
        frame = base.sketch.frame if base.sketch else None
        self._tail = Tail(self.dimension, frame=frame)
        self._snapshot = MatrixSnapshot(base, VectorSegment.empty(self.dimension), self._tuning)
