"""The embedded vector index: a base segment and a tail of newer rows, saved from time to time."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import numpy as np

from lagotto.documents import Vector, Vectors
from lagotto.errors import IndexDamagedError, StoreBusyError, StoreDamagedError, StoreError
from lagotto.indexes.base import (
    DAMAGED,
    OTHER_HISTORY,
    START,
    ChangeLog,
    ChunkKeys,
    EmbeddedSnapshot,
    FilterKeys,
    Finding,
    Hits,
    KeyedRows,
    LogPosition,
    Mask,
    VectorIndex,
    VectorSnapshot,
    is_of,
    ok,
    problem,
)
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.vectors.files import Generation, read_generation, read_newest, write_generation
from lagotto.indexes.vectors.rows import MatrixSnapshot, RowLookup, VectorSegment, check_vectors
from lagotto.indexes.vectors.sketch import Frame, Scores, Sketch, Tuning

log = logging.getLogger(__name__)

WORTH_SAVING = 1_000
"""Fewer new rows are faster to read from the database at the next start than to save now."""


class EmbeddedVectorIndex(VectorIndex[ChangeLog]):
    """Exact up to 20,000 rows, a sketch with exact scores beyond.

    Rows live in memory or in mapped files; they are saved to `folder` when many have changed.
    `latest` catches up: rows are read no faster from the record than into the index.
    """

    kind = "embedded"
    folder: Path
    position = START

    def __init__(self, site: IndexSite, *, model_id: str, dimension: int) -> None:
        self.folder = site.folder("vectors", model_id)
        self._indexes = site.own_folder
        self.model_id = model_id
        self.dimension = dimension
        self._rows: VectorMatrix | None = None
        self._changing = threading.Lock()

    def catch_up(self, changes: ChangeLog) -> EmbeddedVectors | None:
        with self._changing:
            rows = self._caught_up(changes)
            if self.position != changes.head:
                return None
            return EmbeddedVectors(rows.snapshot, changes, self.position, self.repaired)

    def applied_seq(self, changes: ChangeLog) -> int:
        position = self.position
        if position == START:
            try:
                _, position = self._newest()
            except IndexDamagedError:
                return 0
        return position.seq if is_of(changes, position) else 0

    def _newest(self) -> Generation:
        return read_newest(self.folder, model_id=self.model_id, dimension=self.dimension)

    def reset_if_at(self, position: LogPosition) -> None:
        with self._changing:
            if self.position == position:
                self._start_anew(OTHER_HISTORY)

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
            self._rows, self.position = None, START

    def abandon(self) -> None:
        with self._changing:
            self._rows = None

    def check(self, changes: ChangeLog) -> Finding:
        try:
            base, position = self._newest()
            base.verify()
        except IndexDamagedError as exc:
            return self._damaged(exc)
        if changes.token_at(position.seq) != position.token:
            return self._of_other_history()
        if other := self._other_vectors(base, changes, last=position.seq):
            what = (
                f"{other} vectors in the database are not those of the vector index, whose "
                "checksums are right"
            )
            advice = "restore the base from a backup, or add its documents to a new base"
            return problem(what, advice)
        last = changes.head.seq
        newer = next(changes.ranges(since=position.seq, at_once=WORTH_SAVING), None)
        if newer is not None and newer[1] == last:
            what = (
                f"the vector index has {position.seq} of {last} changes; the rest are few "
                "enough to read at every start"
            )
            return ok(what)
        if position == START:
            return self._missing()
        return self._progress(changes, position.seq, where=self.folder)

    def _other_vectors(self, base: VectorSegment, changes: ChangeLog, *, last: int) -> int:
        """How many vectors of the record, up to a change, differ from the rows of the index."""
        differing = 0
        for start, stop in takewhile(lambda some: some[0] < last, changes.ranges(since=0)):
            try:
                keys, vectors = self._vectors(changes, start, min(stop, last))
            except StoreDamagedError:  # which the check of the record names
                continue
            here, positions = base.find(keys)
            differing += int((base.take(positions) != vectors[here]).any(axis=1).sum())
        return differing

    def _vectors(self, changes: ChangeLog, start: int, stop: int) -> KeyedRows:
        return changes.added_vectors(start, stop, model_id=self.model_id, dimension=self.dimension)

    def repaired(
        self, changes: ChangeLog, damaged: MatrixSnapshot, damage: IndexDamagedError
    ) -> MatrixSnapshot:
        """The rows read from the record again, after damage that a search has found."""
        with self._changing:
            if self._rows is None or self._rows.snapshot.base.rows is damaged.base.rows:
                self._start_anew(DAMAGED, damage)
            return self._caught_up(changes).snapshot

    def _caught_up(self, changes: ChangeLog) -> VectorMatrix:
        rows, head = self._rows or self._load(), changes.head
        if self.position == head or self.position.seq > head.seq:
            return rows
        if changes.token_at(self.position.seq) != self.position.token:
            rows = self._start_anew(OTHER_HISTORY)
        log.info("vector index: reading changes %d to %d", self.position.seq, head.seq)
        for start, stop in changes.ranges(since=self.position.seq):
            keys, vectors = self._vectors(changes, start, stop)
            rows.remove(changes.removed(start, stop))
            rows.add(keys, vectors)
            self.position = LogPosition(stop, changes.token_at(stop) or 0)
            if stop < head.seq and rows.wants_compaction:  # of so many, few should be in memory
                self._save(rows, self.position)
        return rows

    def _load(self) -> VectorMatrix:
        self._indexes.refuse_links()
        try:
            rows = VectorMatrix(self.model_id, dimension=self.dimension, folder=self.folder)
        except IndexDamagedError as exc:
            return self._start_anew(DAMAGED, exc)
        self._rows, self.position = rows, rows.saved
        return rows

    def _start_anew(self, why: str, *values: object) -> VectorMatrix:
        log.warning(why, self.label, *values)
        try:
            self._indexes.delete(self.folder)
        except StoreError as exc:
            log.warning("the unusable vector index can't be deleted: %s", exc)
        self._rows, self.position = VectorMatrix(self.model_id, dimension=self.dimension), START
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


class EmbeddedVectors(EmbeddedSnapshot[MatrixSnapshot], VectorSnapshot):
    """A VectorSnapshot over rows in memory or mapped, bitwise equal to those in the record."""

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = allowed.keys if allowed is not None else None
        return await self._ask(
            lambda rows: rows.search(query, k, allowed=keys), brief=self.immediate
        )

    async def scores(self, query: Vector, keys: ChunkKeys) -> Scores:
        # faster than a change of threads
        return await self._ask(lambda rows: rows.scores(query, keys), brief=True)


class VectorMatrix:
    """Chunk keys and their unit vectors under one model.

    Any number of threads may search the present `snapshot` while others add, remove or save. These
    changes exclude each other, and a search sees each of them completely or not at all. Added rows
    stay in memory until `save` writes them; `saved` is the position of the last change that was
    written. It begins with what was last saved in `folder`, if that is given: IndexDamagedError if
    this is damaged, or of another model, dimension or version.
    """

    def __init__(
        self,
        model_id: str,
        *,
        dimension: int,
        tuning: Tuning | None = None,
        folder: Path | None = None,
    ) -> None:
        self.model_id = model_id
        self.dimension = dimension
        self._tuning = tuning or Tuning()
        self._writing = threading.Lock()
        self._saving = threading.Lock()
        base, self.saved = VectorSegment.empty(dimension), START
        if folder is not None:
            base, self.saved = read_newest(folder, model_id=model_id, dimension=dimension)
        self.snapshot = self._start_from(base)

    @property
    def wants_compaction(self) -> bool:
        """Whether enough rows are new or removed to make `save` worthwhile."""
        snapshot = self.snapshot
        most = max(self._tuning.uncompacted_rows, len(snapshot.base.keys) // 4)
        return snapshot.uncompacted() > most

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
            base, _ = read_generation(path, model_id=self.model_id, dimension=self.dimension)
            with self._writing:
                later, started = self.snapshot, self._start_from(base)
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

    def append(self, keys: ChunkKeys, rows: Vectors, *, alive: Mask | None) -> VectorSegment:
        """Append `keys` and `rows`; the new segment, in which `alive` old rows count."""
        end = self._used + len(keys)
        if end > len(self._keys):
            more = max(end - len(self._keys), len(self._keys))
            self._keys = np.pad(self._keys, (0, more), "empty")
            self._rows = np.pad(self._rows, ((0, more), (0, 0)), "empty")
            self._codes = np.pad(self._codes, ((0, 0), (0, more)), "empty")
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
