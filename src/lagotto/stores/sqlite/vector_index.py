"""Nearest vectors beside the database: caught up from it, made again if damaged."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from sqlalchemy import Connection

from lagotto.errors import IndexDamagedError, StoreBusyError, StoreError
from lagotto.indexes.base import Finding
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.vectors import Snapshot, VectorIndex
from lagotto.indexes.vectors.generations import read_newest
from lagotto.stores.sql.changelog import added_vectors, ranges, removed
from lagotto.stores.sqlite.checks import damaged_index, index_state, missing_index

log = logging.getLogger(__name__)

WORTH_SAVING = 1_000
"""Rows that are quicker read from the database at the next start than saved now."""


class VectorIndexLeg:
    """Keeps a VectorIndex in step with the database; saves it when much has changed."""

    def __init__(
        self, folder: Path, *, indexes: IndexFolder, model_id: str, dimension: int
    ) -> None:
        self.folder = folder
        self._indexes = indexes
        self._model_id = model_id
        self._dimension = dimension
        self._index: VectorIndex | None = None
        self._stamp = 0
        self._changing = threading.Lock()

    def snapshot(self, connection: Connection, *, until: int) -> Snapshot | None:
        """The index with all changes up to a number; None if it has come further already."""
        with self._changing:
            index = self._caught_up(connection, until)
            return index.snapshot() if self._stamp == until else None

    def close(self) -> None:
        """Save what would take long to read again."""
        with self._changing:
            if self._index is not None and self._index.snapshot().loose() >= WORTH_SAVING:
                self._save(self._index)
            self._index = None

    def check(self, *, until: int) -> Finding:
        """Whether the saved index can be used, and how much of the base it has."""
        try:
            saved = read_newest(self.folder, model_id=self._model_id, dimension=self._dimension)
        except IndexDamagedError as exc:
            return damaged_index("vector", exc)
        behind = until - (saved.stamp if saved else 0)
        if 0 < behind < WORTH_SAVING:
            what = f"the vector index is {behind} changes behind: few enough to read at every start"
            return Finding(level="ok", what=what)
        if saved is None:
            return missing_index("vector")
        return index_state("vector", folder=self.folder, behind=behind)

    def _caught_up(self, connection: Connection, until: int) -> VectorIndex:
        if self._index is None:
            self._index = self._load()
            self._stamp = self._index.stamp or 0
        index = self._index
        for start, stop in ranges(connection, since=self._stamp, until=until):
            keys, vectors = added_vectors(
                connection, start, stop, model_id=self._model_id, dimension=self._dimension
            )
            index.remove(removed(connection, start, stop))
            index.add(keys, vectors)
            self._stamp = stop
            if index.wants_compaction:
                self._save(index)
        return index

    def _save(self, index: VectorIndex) -> None:
        """The index in memory serves as well, so a full disk is no reason not to answer.

        A process that finds another one saving leaves it to that one.
        """
        try:
            with self._indexes.lock(timeout=0):
                index.save(self.folder, stamp=self._stamp)
        except StoreBusyError as exc:
            log.debug("the vector index is not saved: %s", exc)
        except StoreError as exc:
            log.warning("the vector index is not saved, the next start reads it again: %s", exc)

    def _load(self) -> VectorIndex:
        try:
            saved = VectorIndex.load(
                self.folder, model_id=self._model_id, dimension=self._dimension
            )
        except IndexDamagedError as exc:
            log.warning("the vector index is made again from the database: %s", exc)
            self._drop()
            saved = None
        if saved is None:
            return VectorIndex(self._model_id, dimension=self._dimension)
        return saved

    def _drop(self) -> None:
        try:
            self._indexes.drop(self.folder)
        except StoreError as exc:
            log.warning("the damaged vector index can't be deleted: %s", exc)
