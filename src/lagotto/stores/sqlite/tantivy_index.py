"""Full text beside the database, by tantivy: caught up from the database, made again if damaged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lagotto.errors import IndexDamagedError, StoreError
from lagotto.indexes.base import START, ChunkKeys, Finding, LogPosition
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.hits import Hits
from lagotto.indexes.tantivy.disk import ALL_FILES, check_files, read_state
from lagotto.indexes.tantivy.errors import tantivy_errors
from lagotto.indexes.tantivy.search import TextSnapshot
from lagotto.indexes.tantivy.writer import TantivyWriter
from lagotto.indexes.text_query import Match, TextQuery
from lagotto.stores.sql.changelog import added_texts, ranges, read_head, removed, token_at
from lagotto.stores.sqlite.checks import (
    OTHER_HISTORY,
    damaged_index,
    index_state,
    missing_index,
    other_history,
)
from lagotto.terms import analyze

log = logging.getLogger(__name__)

MOST_DEAD = 0.2
"""Removed chunks still count in the statistics of BM25 until their segment is merged; with more of
them than this the index is made again."""

MERGED = 8
"""Segments of about the same size that tantivy makes one of."""

SHORTEST_STEP = 2_000
LONGEST_STEP = 16_000
"""Chunks that are indexed in a few seconds, after which other processes have their turn."""

LARGEST_SEGMENT = 500_000
"""Chunks whose segments are merged in less time than other processes wait."""

T = TypeVar("T")


class TantivyIndex:
    """Keeps a TantivyWriter in a folder in step with the database.

    Each search, known by its connection, keeps the state of the index that it has caught up to.
    """

    quick = True

    def __init__(self, folder: Path, *, indexes: IndexFolder, timeout: float) -> None:
        self._folder = folder
        self._indexes = indexes
        self._timeout = timeout
        self._index: TantivyWriter | None = None
        self._seen: WeakKeyDictionary[Connection, TextSnapshot] = WeakKeyDictionary()
        self._changing = threading.RLock()

    def search(
        self,
        connection: Connection,
        query: TextQuery,
        *,
        k: int,
        allowed: FilterKeys | None,
    ) -> Hits:
        return self._ask(connection, lambda index: index.search(query, k, allowed=allowed))

    def scores(
        self, connection: Connection, query: TextQuery, keys: ChunkKeys
    ) -> NDArray[np.float32]:
        return self._ask(connection, lambda index: index.scores(query, keys))

    def matching(self, connection: Connection, match: Match, among: ChunkKeys) -> ChunkKeys:
        return self._ask(connection, lambda index: index.matching(match, among=among))

    def frequencies(self, connection: Connection, terms: Sequence[str]) -> list[int]:
        return self._ask(
            connection, lambda index: [index.document_frequency(term) for term in terms]
        )

    def vocabulary(self, connection: Connection) -> Sequence[str]:
        return self._ask(connection, lambda index: index.vocabulary())

    def index(self, connection: Connection, *, since: int) -> None:
        """Nothing to do: the next search catches up."""

    def forget(self, connection: Connection, document_keys: Sequence[int]) -> None:
        """Nothing to do: the next search catches up."""

    @property
    def position(self) -> LogPosition:
        index = self._index
        return index.position if index else START

    def catch_up(self, connection: Connection, *, until: LogPosition) -> bool:
        index = self._index
        snapshot = index.snapshot if index else None
        if snapshot is None or snapshot.position != until:
            with self._changing:
                snapshot = self._caught_up(connection, until)
        self._seen[connection] = snapshot
        return snapshot.position == until

    def discard(self, former: LogPosition) -> None:
        with self._changing, self._indexes.lock(timeout=self._timeout):
            index = self._opened()
            index.reload_if_changed()
            if index.position == former:
                log.warning(OTHER_HISTORY, "text")
                self._empty()

    def check(self, connection: Connection, *, until: LogPosition) -> Finding:
        if not self._folder.exists():
            return missing_index("text")
        try:
            with tantivy_errors(self._folder):
                position, meta = read_state(self._folder)
                check_files(self._folder, ALL_FILES)
        except StoreError as exc:
            return damaged_index("text", exc)
        if token_at(connection, position.number) != position.token:
            return other_history("text")
        if meta.dead > MOST_DEAD * meta.total:
            what = f"{meta.dead} of the {meta.total} chunks in the text index are gone"
            return Finding(level="note", what=what, advice="it is made again after the next change")
        return index_state("text", folder=self._folder, behind=until.number - position.number)

    def _ask(self, connection: Connection, question: Callable[[TextSnapshot], T]) -> T:
        try:
            return question(self._seen[connection])
        except IndexDamagedError as exc:
            with self._changing:
                self._damaged(exc)
        self.catch_up(connection, until=read_head(connection).position(connection))
        return question(self._seen[connection])

    def _caught_up(self, connection: Connection, until: LogPosition) -> TextSnapshot:
        """Step by step, so that other processes get the lock; mostly one step does all."""
        size = step_size(until.number - self.position.number)
        while True:
            with (
                tantivy_errors(self._folder),
                self._indexes.lock(timeout=self._timeout),
            ):
                snapshot = self._mended_step(connection, until, size)
            if snapshot.position.number >= until.number:
                return snapshot

    def _mended_step(self, connection: Connection, until: LogPosition, size: int) -> TextSnapshot:
        try:
            return self._step(connection, until, size)
        except IndexDamagedError as exc:
            self._damaged(exc)
            return self._step(connection, until, size)

    def _opened(self) -> TantivyWriter:
        if self._index is None:
            self._index = _open(self._folder)
        return self._index

    def _step(self, connection: Connection, until: LogPosition, size: int) -> TextSnapshot:
        index = self._opened()
        index.reload_if_changed()
        if index.stamp > until.number:
            return index.snapshot
        if token_at(connection, index.stamp) != index.position.token:
            log.warning(OTHER_HISTORY, "text")
            self._empty()
        elif index.dead_share > MOST_DEAD and index.stamp < until.number:
            self._empty()
        index = self._opened()
        missing = ranges(connection, since=index.stamp, until=until.number, at_once=size)
        for start, stop in islice(missing, 1):
            _apply(connection, index, start, stop)
        return index.snapshot

    def _damaged(self, problem: IndexDamagedError) -> None:
        log.warning("the text index is made again from the database: %s", problem)
        self._empty()

    def _empty(self) -> None:
        self._index = None
        self._indexes.drop(self._folder)


def step_size(missing: int) -> int:
    """How many of the missing chunks to index at once.

    The fewer segments, the faster the search. tantivy merges eight of about the same size into
    one, so what comes in equal steps, a power of eight of them, ends up as one segment.
    """
    parts = -(-missing // LARGEST_SEGMENT) or 1
    size = -(-missing // parts)
    while size > LONGEST_STEP:
        size = -(-size // MERGED)
    return max(size, SHORTEST_STEP)


def _open(folder: Path) -> TantivyWriter:
    index = TantivyWriter.open(folder)
    index.verify()
    return index


def _apply(connection: Connection, index: TantivyWriter, start: int, stop: int) -> None:
    texts = added_texts(connection, start, stop)
    index.apply(
        added=((chunk.key, analyze(chunk.text, chunk.language)) for chunk in texts),
        removed=removed(connection, start, stop).tolist(),
        since=start,
        stamp=stop,
        token=token_at(connection, stop) or 0,
        owners={chunk.key: chunk.document for chunk in texts},
    )
