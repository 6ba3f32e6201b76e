"""The embedded vector index: follows the change log in memory, and is saved beside the file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.concurrency import in_thread
from lagotto.documents import Vector
from lagotto.errors import IndexDamagedError, StoreBusyError, StoreDamagedError, StoreError
from lagotto.indexes.base import (
    IMMEDIATE_CHUNKS,
    START,
    ChangeLog,
    ChunkKeys,
    FilterKeys,
    Finding,
    LogPosition,
)
from lagotto.indexes.findings import (
    OTHER_HISTORY,
    damaged_index,
    index_state,
    missing_index,
    other_history,
)
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.hits import Hits
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.vectors.generations import Generation, read_newest
from lagotto.indexes.vectors.matrix import VectorMatrix
from lagotto.indexes.vectors.snapshot import MatrixSnapshot

log = logging.getLogger(__name__)

WORTH_SAVING = 1_000
"""Fewer new rows are faster to read from the database at the next start than to save now."""

DAMAGED = "the vector index is damaged, and rebuilt from the database: %s"

DAMAGED_RECORD = "restore the base from a backup, or add its documents to a new base"

T = TypeVar("T")


class EmbeddedVectors:
    """A VectorSnapshot over rows in memory, bitwise equal to the vectors in the record.

    Rows in a file that turn out to be damaged are read from the record again, once.
    """

    def __init__(
        self, index: EmbeddedVectorIndex, rows: MatrixSnapshot, changes: ChangeLog
    ) -> None:
        self.rows = rows
        self.indexed_up_to = changes.head
        self._index = index
        self._changes = changes

    @property
    def immediate(self) -> bool:
        return len(self.rows) <= IMMEDIATE_CHUNKS

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = allowed.keys if allowed is not None else None
        return await self._ask(
            lambda rows: rows.search(query, k, allowed=keys), brief=self.immediate
        )

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        # faster than a change of threads
        scores = await self._ask(lambda rows: rows.scores(query, keys), brief=True)
        scores[np.isnan(scores)] = 0.0
        return scores

    async def _ask(self, question: Callable[[MatrixSnapshot], T], *, brief: bool) -> T:
        try:
            return question(self.rows) if brief else await in_thread(question, self.rows)
        except IndexDamagedError as exc:
            problem = exc
        self.rows = await self._changes.run(
            lambda: self._index.repaired(self.rows, problem, self._changes)
        )
        return await in_thread(question, self.rows)


class EmbeddedVectorIndex:
    """A VectorIndex: exact up to 20,000 rows, a sketch with exact scores beyond.

    Rows live in memory or in mapped files; they are saved to `folder` when many have changed.
    """

    kind = "exact"
    remote = False

    def __init__(
        self, folder: Path, *, indexes: IndexFolder, model_id: str, dimension: int
    ) -> None:
        self.folder = folder
        self.position = START
        self._indexes = indexes
        self.model_id = model_id
        self.dimension = dimension
        self._rows: VectorMatrix | None = None
        self._changing = threading.Lock()

    def follow(self, changes: ChangeLog) -> EmbeddedVectors | None:
        with self._changing:
            rows = self._caught_up(changes)
            if self.position != changes.head:
                return None
            return EmbeddedVectors(self, rows.snapshot(), changes)

    def latest(self, changes: ChangeLog) -> EmbeddedVectors | None:
        """Catches up as well: rows are read no faster from the record than into the index."""
        return self.follow(changes)

    def refresh(self) -> None:
        """Nothing to ask: `follow` reads the files."""

    def drop(self) -> None:
        """Nothing besides files."""

    def indexed_up_to(self, changes: ChangeLog) -> int:
        position = self.position
        if position == START:
            try:
                saved = read_newest(self.folder, model_id=self.model_id, dimension=self.dimension)
            except IndexDamagedError:
                return 0
            position = saved.position if saved else START
        return position.number if changes.token_at(position.number) == position.token else 0

    def discard(self, position: LogPosition) -> None:
        with self._changing:
            if self.position == position:
                self._empty()

    def tidy(self, changes: ChangeLog) -> None:
        """Save the rows if many are new or removed; searches follow the log meanwhile."""
        with self._changing:
            rows, position = self._rows, self.position
        if rows is not None and rows.wants_compaction:
            self._save(rows, position)

    def close(self) -> None:
        with self._changing:
            if self._rows is not None and self._rows.snapshot().loose() >= WORTH_SAVING:
                self._save(self._rows, self.position)
            self._rows = None
            self.position = START

    def check(self, changes: ChangeLog) -> Finding:
        try:
            saved = read_newest(self.folder, model_id=self.model_id, dimension=self.dimension)
            if saved is not None:
                saved.base.verify()
        except IndexDamagedError as exc:
            return damaged_index("vector", exc)
        position = saved.position if saved else START
        if changes.token_at(position.number) != position.token:
            return other_history("vector")
        if saved and (other := self._other_vectors(saved, changes)):
            what = (
                f"{other} vectors in the database are not those of the vector index, whose "
                "checksums are right"
            )
            return Finding(level="problem", what=what, advice=DAMAGED_RECORD)
        last = changes.head.number
        newer = next(changes.ranges(since=position.number, at_once=WORTH_SAVING), None)
        if newer is not None and newer[1] == last:
            what = (
                f"the vector index has {position.number} of {last} changes; the rest are few "
                "enough to read at every start"
            )
            return Finding(level="ok", what=what)
        if saved is None:
            return missing_index("vector")
        return index_state(
            "vector", folder=self.folder, indexed_up_to=position.number, changes=last
        )

    def _other_vectors(self, saved: Generation, changes: ChangeLog) -> int:
        """How many vectors of the record differ from the rows of the index."""
        differing = 0
        for start, stop in changes.ranges(since=0):
            try:
                keys, vectors = changes.added_vectors(
                    start,
                    min(stop, saved.position.number),
                    model_id=self.model_id,
                    dimension=self.dimension,
                )
            except StoreDamagedError:  # which the check of the record names
                continue
            found = saved.base.find(keys)
            here = np.flatnonzero(found >= 0)
            rows = saved.base.rows.take(found[here], axis=0)
            differing += int((rows != vectors[here]).any(axis=1).sum())
        return differing

    def repaired(
        self, damaged: MatrixSnapshot, problem: IndexDamagedError, changes: ChangeLog
    ) -> MatrixSnapshot:
        """The rows read from the record again, after damage that a search has found."""
        with self._changing:
            if self._rows is None or self._rows.snapshot().base.rows is damaged.base.rows:
                log.warning(DAMAGED, problem)
                self._start_anew()
            return self._caught_up(changes).snapshot()

    def _caught_up(self, changes: ChangeLog) -> VectorMatrix:
        rows = self._verified(changes)
        if self.position.number >= changes.head.number:
            return rows
        last = changes.head.number
        log.info("vector index: reading changes %d to %d", self.position.number, last)
        for start, stop in changes.ranges(since=self.position.number):
            keys, vectors = changes.added_vectors(
                start, stop, model_id=self.model_id, dimension=self.dimension
            )
            rows.remove(changes.removed(start, stop))
            rows.add(keys, vectors)
            self.position = LogPosition(stop, changes.token_at(stop) or 0)
            if stop < last and rows.wants_compaction:  # of so many, few should be in memory
                self._save(rows, self.position)
        return rows

    def _verified(self, changes: ChangeLog) -> VectorMatrix:
        """The rows, if they belong to this history of the record; otherwise an empty matrix."""
        if self._rows is None:
            self._rows = self._load()
            self.position = self._rows.saved or START
        if self.position == changes.head or self.position.number > changes.head.number:
            return self._rows
        if changes.token_at(self.position.number) != self.position.token:
            return self._empty()
        return self._rows

    def _empty(self) -> VectorMatrix:
        log.warning(OTHER_HISTORY, "vector")
        return self._start_anew()

    def _start_anew(self) -> VectorMatrix:
        self._drop()
        self.position = START
        self._rows = VectorMatrix(self.model_id, dimension=self.dimension)
        return self._rows

    def _save(self, rows: VectorMatrix, position: LogPosition) -> None:
        """Save if possible; a failure is logged, since the rows in memory are complete.

        If another process is saving, nothing is saved here.
        """
        try:
            with self._indexes.lock(timeout=0):
                rows.save(self.folder, stamp=position.number, token=position.token)
        except StoreBusyError as exc:
            log.debug("the vector index is not saved: %s", exc)
        except StoreError as exc:
            log.warning("the vector index is not saved, the next start reads it again: %s", exc)

    def _load(self) -> VectorMatrix:
        try:
            saved = VectorMatrix.load(self.folder, model_id=self.model_id, dimension=self.dimension)
        except IndexDamagedError as exc:
            log.warning(DAMAGED, exc)
            self._drop()
            saved = None
        if saved is None:
            return VectorMatrix(self.model_id, dimension=self.dimension)
        return saved

    def _drop(self) -> None:
        try:
            self._indexes.drop(self.folder)
        except StoreError as exc:
            log.warning("the unusable vector index can't be deleted: %s", exc)


def open_vectors(site: IndexSite, *, model_id: str, dimension: int) -> EmbeddedVectorIndex:
    """The embedded vector index of a base for one model."""
    folder = site.folder("vectors", model_id)
    return EmbeddedVectorIndex(
        folder, indexes=site.own_folder, model_id=model_id, dimension=dimension
    )
