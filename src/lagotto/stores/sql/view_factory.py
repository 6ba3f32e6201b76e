"""The beginning of a search in a SQL store: one state of the record and of all its indexes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar

from lagotto.errors import (
    IndexUnavailableError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from lagotto.filters import And, Filter
from lagotto.indexes.base import (
    START,
    FilterKeys,
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
from lagotto.indexes.updater import IndexUpdater
from lagotto.stores.base import DegradedLeg
from lagotto.stores.sql.changelog import SqlChangeLog, main_languages
from lagotto.stores.sql.filters import filter_notes, resolve_filter
from lagotto.stores.sql.statements import ReadConnection

T = TypeVar("T")

CANT_CATCH_UP = (StoreBusyError, StoreFullError, StoreReadOnlyError, IndexUnavailableError)
"""What a search does without the newest changes for; other errors end it."""

MOST_ANSWERS = 64
"""Answers that are cached."""

MOST_SCANNED = 100_000
"""Vectors that are read from the record while an index behind a network can't be reached: some
150 MB, held until the next write."""


class Snapshots(NamedTuple):
    """The indexes at one state; None for one that was not asked for."""

    text: TextSnapshot | None
    vectors: VectorSnapshot | None
    degraded: list[DegradedLeg]


class ViewFactory:
    """What the views of a store have in common; caches it as long as nothing is written.

    The `updater` brings the indexes up to date; a search does not wait for it, but reads the rest
    itself, unless that is too much.
    """

    def __init__(self, updater: IndexUpdater, *, in_threads: bool) -> None:
        self.cache = StateCache()
        self.snapshots = IndexSnapshots(updater, in_threads=in_threads)
        self.updater = updater

    async def until_indexed(self, attempt: Callable[[StoreError | None], Awaitable[T]]) -> T:
        """What `attempt` makes, once the indexes lack few enough changes.

        They catch up in the background: a search that is cancelled need not wait for them. Where
        they can't, `attempt` gets the reason, and does without what they lack.
        """
        gave_up: StoreError | None = None
        for number in range(3):
            try:
                return await attempt(gave_up)
            except IndexTooFarBehind:
                gave_up = await self.updater.catch_up()
            if gave_up is not None and not isinstance(gave_up, CANT_CATCH_UP):
                raise gave_up
            if number == 1 and gave_up is None:
                gave_up = StoreBusyError("the base is written to faster than it is indexed")
        raise AssertionError("a view that has given up on an index does not wait for it")

    def resolved(
        self, connection: ReadConnection, where: Filter, token: int
    ) -> tuple[FilterKeys | None, Sequence[str]]:
        """The chunks that a filter allows, None for all, and notes on it."""
        if where == And():
            return None, ()

        def resolve() -> tuple[FilterKeys, Sequence[str]]:
            keys = resolve_filter(connection, where)
            return keys, filter_notes(connection, where, matches_some=bool(len(keys.keys)))

        return self.cache.get(where.cache_key, token, resolve)

    def languages(self, connection: ReadConnection, token: int) -> Sequence[str | None]:
        """The languages to stem a query in."""
        return self.cache.get("languages", token, lambda: main_languages(connection))


class StateCache:
    """Caches answers that hold for one state of the base; the oldest are evicted first.

    A state is identified by the random token of its last commit, so that a base restored from a
    backup, or a standby that took over, is never mistaken for the one that gave the answers.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[Hashable, int], Any] = {}

    def __contains__(self, key: tuple[Hashable, int]) -> bool:
        return key in self._answers

    def get(self, name: Hashable, token: int, ask: Callable[[], T]) -> T:
        """The answer to a question in a state, cached."""
        key = (name, token)
        if key not in self._answers:
            answer = ask()
            while len(self._answers) >= MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[key] = answer
            return answer
        found: T = self._answers[key]
        return found


class IndexTooFarBehind(Exception):  # noqa: N818 a signal, not an error
    """An index lacks more than can be read at a search; it has to catch up first."""


class IndexSnapshots:
    """Asks indexes for snapshots; caches what was read from the record until the next write.

    `down` says why an index can't be reached: then the record is searched, within limits. `gave_up`
    says why an index can't catch up: then the search does without what it lacks. Both are noted in
    `degraded`. Without either, IndexTooFarBehind is raised where too much is lacking.

    `in_threads` says that searches ask from several threads: then only one of them reads at a time.
    Coroutines of one event loop must not wait for a lock of threads.
    """

    def __init__(self, updater: IndexUpdater, *, in_threads: bool) -> None:
        self._updater = updater
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

    def both(
        self,
        changes: SqlChangeLog,
        text: TextIndex[SqlChangeLog] | None,
        vectors: VectorIndex[SqlChangeLog] | None,
        *,
        down: Sequence[StoreError | None],
        gave_up: StoreError | None,
    ) -> Snapshots | None:
        """The indexes at the head of the log; None if one is ahead of it.

        `down` is why the text index and the vector index can't be reached.
        """
        degraded: list[DegradedLeg] = []
        found_text: TextSnapshot | None = None
        found_vectors: VectorSnapshot | None = None
        if text is not None:
            found_text = self._text(text, changes, down=down[0], gave_up=gave_up, degraded=degraded)
            if found_text is None:
                return None
        if vectors is not None:
            found_vectors = self._vectors_at(
                vectors, changes, down=down[1], gave_up=gave_up, degraded=degraded
            )
            if found_vectors is None:
                return None
        return Snapshots(found_text, found_vectors, degraded)

    def _text(
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
        position = former.position if former else START
        if former is not None and position.seq >= changes.head.seq:
            return former
        if former is None and not down and index.position.seq > changes.head.seq:
            return None
        newer = self._newer_texts(changes, position)
        problem = gave_up or (None if index.remote else self._updater.problem)
        if newer is None and gave_up is None:
            raise IndexTooFarBehind
        if problem is not None:
            what = "are searched without it" if newer else "are not searched for words"
            degraded.append(DegradedLeg("text", _why("text", changes, position, what, problem)))
        if newer is None:
            newer = NewerChunks.only_removed(changes, since=position)
        return OverlayText(former or EmptyText(index.stored_length), newer)

    def _vectors_at(
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
                raise IndexTooFarBehind
            return index.latest(changes)
        latest = None if down else index.latest(changes)
        position = latest.position if latest else START
        if latest is not None and position.seq >= changes.head.seq:
            return latest
        readable = is_short(
            changes, since=position, most=MOST_CHUNKS if gave_up is None else MOST_SCANNED
        )
        if not readable and gave_up is None:
            raise IndexTooFarBehind
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
        between = (latest.position, changes.head)
        with self._reading:
            known = self._vectors
            if known is not None and (known.since, known.position) == between:
                return known.over(latest)
            self._vectors = OverlayVectors.of(
                latest, changes, model_id=index.model_id, dimension=index.dimension
            )
            return self._vectors


def refreshed(
    index: TextIndex[SqlChangeLog] | VectorIndex[SqlChangeLog] | None,
) -> StoreError | None:
    """Ask an index how far it has come; why it can't be reached, None if it can.

    Blocks if it is behind a network, and reads nothing of the record.
    """
    try:
        if index is not None:
            index.refresh()
    except IndexUnavailableError as exc:
        return exc
    return None


def _why(
    which: str, changes: SqlChangeLog, position: LogPosition, what: str, problem: StoreError
) -> str:
    if isinstance(problem, IndexUnavailableError) and position == START:
        return f"the {which} index can't be used, so chunks {what} ({problem})"
    behind = changes.head.seq - position.seq
    return f"the {which} index is {behind} changes behind, which {what} ({problem})"
