"""The embedded vector index: a base segment and a tail of newer rows, saved from time to time."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.errors import IndexDamagedError, StoreBusyError, StoreDamagedError, StoreError
from lagotto.indexes.base import (
    DAMAGED,
    IMMEDIATE_CHUNKS,
    OTHER_HISTORY,
    START,
    ChangeLog,
    ChunkKeys,
    EmbeddedSnapshot,
    FilterKeys,
    Finding,
    Hits,
    LogPosition,
    VectorIndex,
    VectorSnapshot,
    damaged_index,
    index_state,
    is_of,
    missing_index,
    ok,
    other_history,
    problem,
)
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.vectors.files import Generation, read_generation, read_newest, write_generation
from lagotto.indexes.vectors.rows import MatrixSnapshot, RowLookup, VectorSegment, check_vectors
from lagotto.indexes.vectors.sketch import Frame, Sketch, Tuning

log = logging.getLogger(__name__)

WORTH_SAVING = 1_000
"""Fewer new rows are faster to read from the database at the next start than to save now."""

DAMAGED_RECORD = "restore the base from a backup, or add its documents to a new base"


class EmbeddedVectorIndex(VectorIndex[ChangeLog]):
    """Exact up to 20,000 rows, a sketch with exact scores beyond.

    Rows live in memory or in mapped files; they are saved to `folder` when many have changed.
    `latest` catches up: rows are read no faster from the record than into the index.
    """

    kind = "embedded"
    folder: Path
    position = START

    def __init__(
        self, folder: Path, *, indexes: IndexFolder, model_id: str, dimension: int
    ) -> None:
        self.folder = folder
        self._indexes = indexes
        self.model_id = model_id
        self.dimension = dimension
        self._rows: VectorMatrix | None = None
        self._changing = threading.Lock()

    def catch_up(self, changes: ChangeLog) -> EmbeddedVectors | None:
        with self._changing:
            rows = self._caught_up(changes)
            if self.position != changes.head:
                return None
            return EmbeddedVectors(self, rows.snapshot, changes)

    def applied_seq(self, changes: ChangeLog) -> int:
        position = self.position
        if position == START:
            try:
                saved = read_newest(self.folder, model_id=self.model_id, dimension=self.dimension)
            except IndexDamagedError:
                return 0
            position = saved.position if saved else START
        return position.seq if is_of(changes, position) else 0

    def reset_if_at(self, position: LogPosition) -> None:
        with self._changing:
            if self.position == position:
                self._start_anew(OTHER_HISTORY, "vector")

    def compact(self, changes: ChangeLog) -> None:
        """Save the rows if many are new or removed; searches follow the log meanwhile."""
        with self._changing:
            rows, position = self._rows, self.position
        if rows is not None and rows.wants_compaction:
            self._save(rows, position)

    def close(self) -> None:
        with self._changing:
            if self._rows is not None and self._rows.snapshot.uncompacted() >= WORTH_SAVING:
                self._save(self._rows, self.position)
            self._rows = None
            self.position = START

    def abandon(self) -> None:
        with self._changing:
            self._rows = None

    def check(self, changes: ChangeLog) -> Finding:
        try:
            saved = read_newest(self.folder, model_id=self.model_id, dimension=self.dimension)
            if saved is not None:
                saved.base.verify()
        except IndexDamagedError as exc:
            return damaged_index("vector", exc)
        position = saved.position if saved else START
        if changes.token_at(position.seq) != position.token:
            return other_history("vector")
        if saved and (other := self._other_vectors(saved, changes)):
            what = (
                f"{other} vectors in the database are not those of the vector index, whose "
                "checksums are right"
            )
            return problem(what, DAMAGED_RECORD)
        last = changes.head.seq
        newer = next(changes.ranges(since=position.seq, at_once=WORTH_SAVING), None)
        if newer is not None and newer[1] == last:
            what = (
                f"the vector index has {position.seq} of {last} changes; the rest are few "
                "enough to read at every start"
            )
            return ok(what)
        if saved is None:
            return missing_index("vector")
        return index_state("vector", changes, position.seq, where=self.folder)

    def _other_vectors(self, saved: Generation, changes: ChangeLog) -> int:
        """How many vectors of the record differ from the rows of the index."""
        differing = 0
        for start, stop in changes.ranges(since=0):
            try:
                keys, vectors = changes.added_vectors(
                    start,
                    min(stop, saved.position.seq),
                    model_id=self.model_id,
                    dimension=self.dimension,
                )
            except StoreDamagedError:  # which the check of the record names
                continue
            here, positions = saved.base.find(keys)
            differing += int((saved.base.take(positions) != vectors[here]).any(axis=1).sum())
        return differing

    def repaired(
        self, damaged: MatrixSnapshot, damage: IndexDamagedError, changes: ChangeLog
    ) -> MatrixSnapshot:
        """The rows read from the record again, after damage that a search has found."""
        with self._changing:
            if self._rows is None or self._rows.snapshot.base.rows is damaged.base.rows:
                self._start_anew(DAMAGED, "vector", damage)
            return self._caught_up(changes).snapshot

    def _caught_up(self, changes: ChangeLog) -> VectorMatrix:
        rows, head = self._rows or self._load(), changes.head
        if self.position == head or self.position.seq > head.seq:
            return rows
        if changes.token_at(self.position.seq) != self.position.token:
            rows = self._start_anew(OTHER_HISTORY, "vector")
        log.info("vector index: reading changes %d to %d", self.position.seq, head.seq)
        for start, stop in changes.ranges(since=self.position.seq):
            keys, vectors = changes.added_vectors(
                start, stop, model_id=self.model_id, dimension=self.dimension
            )
            rows.remove(changes.removed(start, stop))
            rows.add(keys, vectors)
            self.position = LogPosition(stop, changes.token_at(stop) or 0)
            if stop < head.seq and rows.wants_compaction:  # of so many, few should be in memory
                self._save(rows, self.position)
        return rows

    def _load(self) -> VectorMatrix:
        self._indexes.refuse_links()
        try:
            rows = VectorMatrix.load(self.folder, model_id=self.model_id, dimension=self.dimension)
        except IndexDamagedError as exc:
            return self._start_anew(DAMAGED, "vector", exc)
        self._rows = rows or VectorMatrix(self.model_id, dimension=self.dimension)
        self.position = self._rows.saved or START
        return self._rows

    def _start_anew(self, why: str, *values: object) -> VectorMatrix:
        log.warning(why, *values)
        try:
            self._indexes.delete(self.folder)
        except StoreError as exc:
            log.warning("the unusable vector index can't be deleted: %s", exc)
        self.position = START
        self._rows = VectorMatrix(self.model_id, dimension=self.dimension)
        return self._rows

    def _save(self, rows: VectorMatrix, position: LogPosition) -> None:
        """Save if possible; a failure is logged, since the rows in memory are complete.

        If another process is saving, nothing is saved here.
        """
        try:
            with self._indexes.lock(timeout=0):
                rows.save(self.folder, position)
        except StoreBusyError as exc:
            log.debug("the vector index is not saved: %s", exc)
        except StoreError as exc:
            log.warning("the vector index is not saved, the next start reads it again: %s", exc)


def open_vectors(site: IndexSite, *, model_id: str, dimension: int) -> EmbeddedVectorIndex:
    folder = site.folder("vectors", model_id)
    return EmbeddedVectorIndex(
        folder, indexes=site.own_folder, model_id=model_id, dimension=dimension
    )


class EmbeddedVectors(EmbeddedSnapshot[MatrixSnapshot], VectorSnapshot):
    """A VectorSnapshot over rows in memory or mapped, bitwise equal to those in the record."""

    def __init__(
        self, index: EmbeddedVectorIndex, rows: MatrixSnapshot, changes: ChangeLog
    ) -> None:
        super().__init__(
            rows,
            changes,
            repaired=lambda damaged, damage: index.repaired(damaged, damage, changes),
        )
        self.position = changes.head
        self.immediate = len(rows) <= IMMEDIATE_CHUNKS

    @property
    def rows(self) -> MatrixSnapshot:
        """What it searches."""
        return self.state

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = allowed.keys if allowed is not None else None
        return await self._ask(
            lambda rows: rows.search(query, k, allowed=keys), brief=self.immediate
        )

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        # faster than a change of threads
        return await self._ask(lambda rows: rows.scores(query, keys), brief=True)


class VectorMatrix:
    """Chunk keys and their unit vectors under one model; finds the nearest to a query.

    Contract: scores are exact cosines, hits are sorted by score, then by key, and a filter never
    loses a result. Up to 20,000 rows the search is exact; beyond, the benchmark measures its
    recall. Any number of threads may search while others add, remove or save. These changes
    exclude each other, and a search sees each of them completely or not at all.

    The index is derived from the rows of the store and can be deleted. Added rows stay in memory
    until `save` writes them; `saved` is the position of the last change that was written.
    `snapshot` is the present state, for several consistent reads.
    """

    def __init__(self, model_id: str, *, dimension: int, tuning: Tuning | None = None) -> None:
        self.model_id = model_id
        self.dimension = dimension
        self.saved: LogPosition | None = None
        self._tuning = tuning or Tuning()
        self._writing = threading.Lock()
        self._saving = threading.Lock()
        self.snapshot = self._start_from(VectorSegment.empty(dimension))

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
        index.snapshot = index._start_from(generation.base)
        index.saved = generation.position
        return index

    @property
    def wants_compaction(self) -> bool:
        """Whether enough rows are new or removed to make `save` worthwhile."""
        snapshot = self.snapshot
        return snapshot.uncompacted() > max(
            self._tuning.uncompacted_rows, len(snapshot.base.keys) // 4
        )

    def add(self, keys: ChunkKeys, vectors: Vectors) -> None:
        """Add rows, replacing those with the same keys; of a repeated key the last counts."""
        check_vectors(vectors, dimension=self.dimension)
        keys, last = np.unique(keys[::-1], return_index=True)
        rows = vectors[::-1][last]
        with self._writing:
            rest = self.snapshot.without(keys)
            tail = self._tail.append(keys, rows, alive=rest.tail.alive)
            self.snapshot = replace(rest, tail=tail)

    def remove(self, keys: ChunkKeys) -> None:
        """Remove rows; unknown keys are ignored."""
        with self._writing:
            self.snapshot = self.snapshot.without(keys)

    def save(self, folder: Path, position: LogPosition) -> None:
        """Write all rows as a new base to `folder`, and map them from there.

        The former base stays valid until the new one is complete. Failures are StoreErrors, and
        leave the index unchanged. Searches and changes continue meanwhile: `position` is
        that of the last change made before the call.
        """
        with self._saving:
            saved = self.snapshot
            path = write_generation(folder, saved, model_id=self.model_id, position=position)
            written = read_generation(path, model_id=self.model_id, dimension=self.dimension)
            with self._writing:
                later, started = self.snapshot, self._start_from(written.base)
                # and what has changed since
                keys, rows = later.tail.live_from(len(saved.tail.keys))
                gone = np.setdiff1d(saved.keys, later.keys, assume_unique=True)
                rest = started.without(np.concatenate([keys, gone]))
                self.snapshot = replace(rest, tail=self._tail.append(keys, rows, alive=None))
                self.saved = position

    def _start_from(self, base: VectorSegment) -> MatrixSnapshot:
        frame = base.sketch.frame if base.sketch else None
        self._tail = Tail(self.dimension, frame=frame)
        return MatrixSnapshot(base, VectorSegment.empty(self.dimension), self._tuning)


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
        keys = self._keys[:end]
        sketch = Sketch(self._frame, self._codes[:, :end]) if self._frame else None
        return VectorSegment(keys, self._rows[:end], RowLookup(keys), alive, sketch)

    def _grow(self, size: int) -> None:
        used = slice(self._used)
        keys, rows, codes = self._keys, self._rows, self._codes
        self._keys = np.empty(size, dtype=np.int64)
        self._rows = np.empty((size, rows.shape[1]), dtype=np.float32)
        self._codes = np.empty((len(codes), size), dtype=np.uint64)
        self._keys[used], self._rows[used] = keys[used], rows[used]
        self._codes[:, used] = codes[:, used]
