"""Snapshots of indexes at the state of a view, with what they lack read from the record."""

from __future__ import annotations

import threading
from contextlib import nullcontext

from lagotto.errors import IndexUnavailableError, StoreError
from lagotto.indexes.base import (
    START,
    LogPosition,
    TextIndex,
    TextSnapshot,
    VectorIndex,
    VectorSnapshot,
)
from lagotto.indexes.overlay import (
    MOST_CHUNKS,
    EmptyText,
    EmptyVectors,
    NewerChunks,
    OverlayText,
    OverlayVectors,
    is_short,
)
from lagotto.stores.base import DegradedLeg
from lagotto.stores.index_follower import IndexFollower
from lagotto.stores.sql.changelog import SqlChangeLog

MOST_SCANNED = 100_000
"""Vectors that are read from the record while an index behind a network can't be reached: some
150 MB, held until the next write."""


class IndexLags(Exception):  # noqa: N818 a signal, not an error
    """An index lacks more than can be read at a search; it has to catch up first."""


class IndexSnapshots:
    """Asks indexes for snapshots; caches what was read from the record until the next write.

    `down` says why an index can't be reached: then the record is searched, within limits. `gave_up`
    says why an index can't catch up: then the search does without what it lacks. Both are noted in
    `degraded`. Without either, IndexLags is raised where too much is lacking.

    `in_threads` says that searches ask from several threads: then only one of them reads at a time.
    Coroutines of one event loop must not wait for a lock of threads.
    """

    def __init__(self, follower: IndexFollower, *, in_threads: bool) -> None:
        self._follower = follower
        self._newer: NewerChunks | None = None
        self._vectors: OverlayVectors | None = None
        self._reading = threading.Lock() if in_threads else nullcontext()

    def clear(self) -> None:
        """Forget what was read."""
        self._newer = self._vectors = None

    @property
    def has_read(self) -> bool:
        """Whether there was something to read since the last `clear`."""
        return self._newer is not None

    def text(
        self,
        index: TextIndex[SqlChangeLog],
        changes: SqlChangeLog,
        *,
        down: StoreError | None,
        gave_up: StoreError | None,
        degraded: list[DegradedLeg],
    ) -> TextSnapshot | None:
        """The text index at the head of the log; None if it is ahead of the log."""
        gave_up = down or gave_up
        former = None if down else index.latest(changes)
        position = former.indexed_up_to if former else START
        if former is not None and position.number >= changes.head.number:
            return former
        if former is None and not down and index.position.number > changes.head.number:
            return None
        newer = self._newer_texts(changes, position)
        problem = gave_up or (None if index.remote else self._follower.problem)
        if newer is None and gave_up is None:
            raise IndexLags
        if problem is not None:
            what = "are searched without it" if newer else "are not searched for words"
            degraded.append(DegradedLeg("text", _why("text", changes, position, what, problem)))
        if newer is None:
            newer = NewerChunks.only_removed(changes, since=position)
        return OverlayText(former or EmptyText(index.stored_length), newer)

    def vectors(
        self,
        index: VectorIndex[SqlChangeLog],
        changes: SqlChangeLog,
        *,
        down: StoreError | None,
        gave_up: StoreError | None,
        degraded: list[DegradedLeg],
    ) -> VectorSnapshot | None:
        """The vector index at the head of the log; None if it is ahead of the log."""
        gave_up = down or gave_up
        if not index.remote:
            if gave_up is None and not is_short(changes, since=index.position):
                raise IndexLags
            return index.latest(changes)
        latest = None if down else index.latest(changes)
        position = latest.indexed_up_to if latest else START
        if latest is not None and position.number >= changes.head.number:
            return latest
        readable = is_short(
            changes, since=position, most=MOST_CHUNKS if gave_up is None else MOST_SCANNED
        )
        if not readable and gave_up is None:
            raise IndexLags
        if gave_up is not None:
            what = "are searched without it" if readable else "are not searched by vectors"
            why = _why("vector", changes, position, what, gave_up)
            degraded.append(DegradedLeg("semantic", why))
        if not readable:
            return OverlayVectors.only_removed(latest or EmptyVectors(), changes)
        return self._overlaid(index, latest or EmptyVectors(), changes)

    def _newer_texts(self, changes: SqlChangeLog, position: LogPosition) -> NewerChunks | None:
        """What the text index lacks, None if that is too much to read at a search."""
        with self._reading:
            known = self._newer
            if known is not None and (known.since, known.head) == (position, changes.head):
                return known
            if known is None:
                known = NewerChunks.none(since=position)
            if not known.can_extend(changes, since=position):
                return None
            self._newer = known.extended(changes, since=position)
            return self._newer

    def _overlaid(
        self,
        index: VectorIndex[SqlChangeLog],
        latest: VectorSnapshot,
        changes: SqlChangeLog,
    ) -> OverlayVectors:
        """The index with what it lacks, which is read once for each state."""
        between = (latest.indexed_up_to, changes.head)
        with self._reading:
            known = self._vectors
            if known is not None and (known.since, known.indexed_up_to) == between:
                return known.over(latest)
            self._vectors = OverlayVectors.of(
                latest, changes, model_id=index.model_id, dimension=index.dimension
            )
            return self._vectors


def refreshed(index: TextIndex[SqlChangeLog] | VectorIndex[SqlChangeLog]) -> StoreError | None:
    """Ask an index how far it has come; why it can't be reached, None if it can.

    Blocks if it is behind a network, and reads nothing of the record.
    """
    try:
        index.refresh()
    except IndexUnavailableError as exc:
        return exc
    return None


def _why(
    which: str, changes: SqlChangeLog, position: LogPosition, what: str, problem: StoreError
) -> str:
    if isinstance(problem, IndexUnavailableError) and position == START:
        return f"the {which} index can't be used, so chunks {what} ({problem})"
    behind = changes.head.number - position.number
    return f"the {which} index is {behind} changes behind, which {what} ({problem})"
