"""Nearest vectors beside the database: caught up from it, made again if damaged."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from sqlalchemy import Connection

from lagotto.errors import IndexDamagedError, StoreBusyError, StoreError
from lagotto.indexes.base import START, Finding, LogPosition
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.vectors import Snapshot, VectorIndex
from lagotto.indexes.vectors.generations import read_newest
from lagotto.stores.sql.changelog import added_vectors, ranges, removed, token_at
from lagotto.stores.sqlite.checks import (
    OTHER_HISTORY,
    damaged_index,
    index_state,
    missing_index,
    other_history,
)

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
        self.position = START
        self._changing = threading.Lock()

    def snapshot(self, connection: Connection, *, until: LogPosition) -> Snapshot | None:
        """The index with all changes up to a position; None if it is ahead.

        An index of another history is rebuilt.
        """
        with self._changing:
            index = self._caught_up(connection, until)
            return index.snapshot() if self.position == until else None

    def discard(self, former: LogPosition) -> None:
        """Empty an index that is still at a position which the database does not have."""
        with self._changing:
            if self.position == former:
                self._empty()

    def close(self) -> None:
        """Save what would take long to read again."""
        with self._changing:
            if self._index is not None and self._index.snapshot().loose() >= WORTH_SAVING:
                self._save(self._index)
            self._index = None

    def check(self, connection: Connection, *, until: LogPosition) -> Finding:
        """Whether the saved index can be used, and how much of the base it has."""
        try:
            saved = read_newest(self.folder, model_id=self._model_id, dimension=self._dimension)
        except IndexDamagedError as exc:
            return damaged_index("vector", exc)
        position = saved.position if saved else START
        if token_at(connection, position.number) != position.token:
            return other_history("vector")
        behind = until.number - position.number
        if 0 < behind < WORTH_SAVING:
            what = f"the vector index is {behind} changes behind: few enough to read at every start"
            return Finding(level="ok", what=what)
        if saved is None:
            return missing_index("vector")
        return index_state("vector", folder=self.folder, behind=behind)

    def _caught_up(self, connection: Connection, until: LogPosition) -> VectorIndex:
        index = self._verified(connection, until)
        for start, stop in ranges(connection, since=self.position.number, until=until.number):
            keys, vectors = added_vectors(
                connection, start, stop, model_id=self._model_id, dimension=self._dimension
            )
            index.remove(removed(connection, start, stop))
            index.add(keys, vectors)
            self.position = LogPosition(stop, token_at(connection, stop) or 0)
            if index.wants_compaction:
                self._save(index)
        return index

    def _verified(self, connection: Connection, until: LogPosition) -> VectorIndex:
        """The index as far as it has come in this history; empty if it is of another one."""
        if self._index is None:
            self._index = self._load()
            self.position = self._index.saved or START
        if self.position == until or self.position.number > until.number:
            return self._index
        if token_at(connection, self.position.number) != self.position.token:
            return self._empty()
        return self._index

    def _empty(self) -> VectorIndex:
        log.warning(OTHER_HISTORY, "vector")
        self._drop()
        self.position = START
        self._index = VectorIndex(self._model_id, dimension=self._dimension)
        return self._index

    def _save(self, index: VectorIndex) -> None:
        """The index in memory serves as well, so a full disk is no reason not to answer.

        A process that finds another one saving leaves it to that one.
        """
        try:
            with self._indexes.lock(timeout=0):
                index.save(self.folder, stamp=self.position.number, token=self.position.token)
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
            log.warning("the unusable vector index can't be deleted: %s", exc)
