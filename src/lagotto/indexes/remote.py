"""An index behind a network: what is the same whichever service keeps it.

The service holds a point for each chunk, and a state that says up to which change of the log its
points are written. It proposes; the record confirms every hit and decides its score. A RemoteDriver
speaks to one kind of service, and RemoteIndex does the rest:

- Changes are applied in ranges that may be repeated: first the points, then the state. What a crash
  interrupts, the next updater applies again.
- Points are in an epoch. An index of another history, or one that must be built again, gets another
  epoch, beside the former one.
- Points of removed chunks, and former epochs, are deleted a while later: searches that began before
  still see them.
- A filter is sent as a condition that holds for all its matches; a search goes deeper until enough
  of what is proposed is allowed, and at last reads the record.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from lagotto._internal.concurrency import checkpoint
from lagotto.documents import Vector
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.indexes import base, pushdown
from lagotto.indexes.base import Answers, ChangeLog, ChunkKeys, FilterKeys, Hits, LogPosition
from lagotto.indexes.overlay import RecordVectors
from lagotto.indexes.pushdown import Condition, Payload
from lagotto.indexes.vectors.rows import check_vectors

log = logging.getLogger(__name__)

CHUNKS_PER_RANGE = 2_000
"""Chunks after which the state is written: what a crash makes the next updater repeat."""

GRACE = 60.0
"""Seconds for which points of removed chunks, and former epochs, are kept for searches that began
before."""

MOST_MARKS = 8
"""Marks that are kept: while documents are added without a pause, one of them has been reached."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds between two questions how far the service has come
SCORED_FROM_RECORD = 1_000
"""Up to so many allowed chunks are scored from the record, without a request."""

OVERFETCH = 32
"""Points that are asked for beyond twice as many as wanted: some are removed or newer, and the
service ranks by approximations."""

SEARCH_PAUSES = (0.05, 0.1, 0.2)
"""Seconds to wait before another try, if a search reflects less than an earlier one did: it was
answered by a copy of the data that is behind."""

MOST_MISSING = 20_000  # changes that are read from the record in place of what such a copy lacks

Writes = Mapping[str, int]
"""The last write to each part of an epoch, by the service's own sequence numbers. A service whose
writes are visible once they are acknowledged gives none."""


class MissingEpochError(IndexUnavailableError):
    """The points of an epoch are not there: nothing was written yet, or somebody deleted them."""


@dataclass(slots=True)
class Point:
    """What a service stores of a chunk: its vector, what else its index needs, and its fields.

    A sparse vector has its weights by dimension. `length` counts the terms of a text. A point that
    is not `certain` depends on more than the chunk, so that a check does not compare it.
    """

    key: int
    vector: Vector | Mapping[int, float]
    extra: Mapping[str, object] = field(default_factory=dict)
    length: int = 0
    certain: bool = True
    collection: str = ""
    fields: Payload = field(default_factory=dict)


class Proposals(NamedTuple):
    """The keys that a search has found, and the writes that it reflects.

    `more` says whether a search for more would find others.
    """

    keys: ChunkKeys
    more: bool
    reached: Writes


@dataclass(frozen=True, slots=True)
class LogMark:
    """A position of the change log, and the writes that a search reflects once it is reached."""

    seq: int
    token: int
    writes: Writes

    @property
    def position(self) -> LogPosition:
        return LogPosition(self.seq, self.token)

    def is_reached(self, seen: Writes) -> bool:
        """Whether searches that reflect the writes `seen` have all writes of this mark."""
        return all(seen.get(name, 0) >= seq for name, seq in self.writes.items())


NOTHING = LogMark(*base.START, writes={})


@dataclass(frozen=True, slots=True)
class RemoteState:
    """The state of an index, as the service keeps it.

    `former` are epochs to be deleted: those before the current one, or one that was begun and never
    completed. Points of chunks whose removal is at most at `deleted` have been deleted; `removals`
    says whether there were any. `fields` are the payload names, complete since the epoch was begun.
    `chunks` counts the points that are visible at the last mark, or more where the service can't
    tell; they have `length` terms together, the longest of all times `longest`, and weights were
    computed with the mean length `mean`. `version` counts writes of the state: a service may answer
    with an earlier one.
    """

    version: int = 0
    epoch: str = ""
    marks: tuple[LogMark, ...] = ()
    former: tuple[str, ...] = ()
    deleted: int = 0
    removals: bool = False
    fields: frozenset[str] = frozenset()
    chunks: int = 0
    length: int = 0
    longest: int = 0
    mean: float = 1.0

    @property
    def last(self) -> LogMark:
        """The last position whose changes have all been written."""
        return self.marks[-1] if self.marks else NOTHING

    @property
    def mean_length(self) -> float:
        """How many terms a chunk has on average, above 0."""
        return self.length / max(1, self.chunks) or 1.0

    def reached(self, seen: Writes) -> list[LogMark]:
        """The marks that searches have reached, NOTHING first."""
        return [NOTHING, *(mark for mark in self.marks if mark.is_reached(seen))]

    def up_to(self, mark: LogMark) -> RemoteState:
        """The state as it was at one of the marks."""
        return replace(self, marks=tuple(some for some in self.marks if some.seq <= mark.seq))


STATE_JSON = TypeAdapter(RemoteState)
"""Reads and writes states as JSON."""


class RemoteDriver(ABC):
    """One index in a service: its state, and points in epochs.

    Methods block, except `query`, and raise IndexUnavailableError if the service does not answer in
    time, MissingEpochError if the points are gone. Writes are durable when they return. Those with
    a body are for services that can do more, or need more, than others.
    """

    kind: str
    """The name in the registry."""

    shown: str
    """Where the service is, for messages."""

    deepest: int
    """The most points that a search may ask for."""

    @abstractmethod
    def read_state(self, *, briefly: bool) -> str | None:
        """The state, None if there is none; `briefly` for a search, which does not wait long."""

    @abstractmethod
    def write_state(self, text: str) -> None:
        """Replace the state."""

    def create(self, epoch: str) -> None:  # noqa: B027 not all need it
        """Make an empty epoch, unless the first write does."""

    def index_fields(self, epoch: str, names: Sequence[str]) -> None:  # noqa: B027
        """Get ready for points with these payload names, and for conditions on them."""

    @abstractmethod
    def upsert(self, epoch: str, points: Sequence[Point]) -> Writes:
        """Write points, which replace those with the same keys."""

    def update_fields(
        self, epoch: str, fields: Mapping[int, Payload], points: Callable[[], Sequence[Point]]
    ) -> Writes:
        """Replace the fields of points; `points` gives them whole, where that is all one can do."""
        return self.upsert(epoch, points())

    def mark_removed(self, state: RemoteState, keys: ChunkKeys, seq: int) -> tuple[int, int]:
        """Hide points from searches at `seq` or later; how many were visible, and their length.

        A service that hides nothing returns zeros: the record leaves out what is removed.
        """
        return 0, 0

    @abstractmethod
    def delete_points(self, state: RemoteState, keys: ChunkKeys) -> None:
        """Delete points; those that are not there are left alone."""

    @abstractmethod
    async def query(
        self,
        state: RemoteState,
        vector: Vector,
        *,
        limit: int,
        where: Condition | None,
        collections: frozenset[str] | None,
    ) -> Proposals:
        """The points nearest to a vector, under a condition, and maybe only in some collections.

        Approximations will do, and points that are newer than the state, or removed.
        """

    def reached(self, parts: Iterable[str]) -> Writes:
        """The writes that searches in parts of the index reflect now."""
        return {}

    def is_intact(self, state: RemoteState, *, overdue: bool) -> bool:
        """Whether nothing is lost, as far as a quick check tells.

        `overdue`: searches should have reached the last mark long ago, and have not.
        """
        return True

    def problem(self, state: RemoteState, changes: ChangeLog, index: RemoteIndex[Any]) -> str:
        """What a comparison with the record finds wrong; nothing where the service can't tell."""
        return ""

    @abstractmethod
    def delete_epoch(self, epoch: str) -> None:
        """Delete an epoch with its points."""

    @abstractmethod
    def delete_all(self) -> None:
        """Delete the index, that is all epochs and the state; nothing else of the service."""

    def close(self) -> None:  # noqa: B027
        """Close the connections; the next call opens others."""


class RemoteIndex(base.SearchIndex[ChangeLog, Answers]):
    """What text and vector indexes in a service have in common; `clock` is that of GRACE."""

    remote = True

    def __init__(
        self, driver: RemoteDriver, *, timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.kind = driver.kind
        self.driver = driver
        self._timeout = timeout
        self._clock = clock
        self._state = RemoteState()
        self._seen: dict[str, int] = {}
        self._discarded: set[str] = set()
        self._noticed: dict[str | int, float] = {}
        """When this process first knew of a position, or of a former epoch."""
        self._updating = threading.Lock()
        self._changing = threading.Lock()
        """Held for moments, never during a request: searches don't wait for an update."""

    @abstractmethod
    def added(self, changes: ChangeLog, start: int, stop: int) -> Sequence[Any]:
        """What the points of the chunks that were added in a range are made of: each has a key."""

    @abstractmethod
    def of(self, changes: ChangeLog, keys: ChunkKeys) -> Sequence[Any]:
        """The same for chunks with these keys."""

    @abstractmethod
    def point(self, source: Any, state: RemoteState) -> Point:
        """The point of a chunk, without its fields."""

    @abstractmethod
    def _open(self, state: RemoteState, changes: ChangeLog) -> Answers:
        """A snapshot at the last mark of a state."""

    def _mean(self, changes: ChangeLog) -> float:
        """The mean length for an epoch that begins."""
        return 1.0

    def _needs_rebuild(self, state: RemoteState) -> bool:
        """Whether the points should be written again, with another mean length."""
        return False

    def catch_up(self, changes: ChangeLog) -> Answers | None:
        with self._updating:
            state = self._read(briefly=False)
            other = _is_other(state, changes)
            if other:
                log.warning(base.OTHER_HISTORY, self.label)
            if other or not state.epoch or state.epoch in self._discarded:
                state = self._begin(state, changes)
            if state.last.seq > changes.head.seq:
                return None
            try:
                state = self._filled(state, changes)
            except MissingEpochError:
                state = self._filled(self._begin(state, changes), changes)
            self._wait_for(state)
            return self._open(self._of_history(state, changes), changes)

    def latest(self, changes: ChangeLog) -> Answers | None:
        known = self._of_history(self._state, changes)
        return None if known.last == NOTHING else self._open(known, changes)

    def refresh(self) -> None:
        """Read the state, and ask how far searches have come, if the state says more than known."""
        self._read(briefly=True)

    @property
    def position(self) -> LogPosition:
        if self._state.epoch in self._discarded:
            return base.START
        return self._state.reached(self._seen)[-1].position

    def applied_seq(self, changes: ChangeLog) -> int:
        state = self._state if self._state.version else self._read(briefly=True)
        return self._of_history(state, changes).last.seq

    def reset_if_at(self, position: LogPosition) -> None:
        with self._changing:
            if self.position == position:
                log.warning(base.OTHER_HISTORY, self.label)
                self._discarded.add(self._state.epoch)

    def delete(self) -> None:
        with self._updating:
            self.driver.delete_all()
            self._state = RemoteState()

    def compact(self, changes: ChangeLog) -> None:
        """Delete what no search needs any more, and rebuild what is lost or out of date."""
        with self._updating:
            known = self._read(briefly=False)
            state = self._delete_removed(self._delete_former(known), changes)
            if state != known:
                state = self._write(state)
            if state.last != NOTHING and state.last.position == changes.head:
                overdue = not state.last.is_reached(self._seen) and self._is_due(state.last.seq)
                intact = self.driver.is_intact(state, overdue=overdue)
                if not intact or self._needs_rebuild(state):
                    self._rebuild(state, changes)

    def close(self) -> None:
        self.driver.close()

    def check(self, changes: ChangeLog) -> base.Finding:
        try:
            state = self._read(briefly=True)
            if state.last == NOTHING or state.epoch in self._discarded:
                return self._missing()
            if _is_other(state, changes):
                return self._of_other_history()
            if wrong := self.driver.problem(state, changes, self):
                what = f"the {self.label} index {wrong}"
                return base.problem(what, "`lagotto rebuild` makes it anew")
        except (IndexUnavailableError, ConfigError) as exc:
            what = f"the {self.label} index can't be used: {exc}"
            return base.problem(what, "searches go on without it")
        applied_seq = self._of_history(state, changes).last.seq
        return self._progress(changes, applied_seq, where=self.driver.shown)

    def _read(self, *, briefly: bool) -> RemoteState:
        text = self.driver.read_state(briefly=briefly)
        stored = RemoteState() if text is None else STATE_JSON.validate_json(text)
        with self._changing:
            if not _is_earlier(text, stored, than=self._state):
                self._state = stored
            known = self._state
        self._look(known)
        self._noticed.setdefault(known.last.seq, self._clock())
        for epoch in known.former:
            self._noticed.setdefault(epoch, self._clock())
        return known

    def _write(self, state: RemoteState) -> RemoteState:
        written = replace(state, version=state.version + 1)
        self.driver.write_state(STATE_JSON.dump_json(written).decode())
        with self._changing:
            self._state = written
        return written

    def _begin(self, state: RemoteState, changes: ChangeLog) -> RemoteState:
        """Begin an epoch; the state comes first, so that nothing is left that it does not name."""
        begun = self._write(self._anew(state, changes))
        self.driver.create(begun.epoch)
        return begun

    def _anew(self, state: RemoteState, changes: ChangeLog) -> RemoteState:
        """An empty epoch beside the former ones; what is removed by now has no points in it."""
        return RemoteState(
            epoch=secrets.token_hex(6),
            version=state.version,
            former=(*state.former, state.epoch) if state.epoch else state.former,
            deleted=changes.head.seq,
            mean=self._mean(changes),
        )

    def _rebuild(self, state: RemoteState, changes: ChangeLog) -> None:
        """Build another epoch beside the current one, then switch."""
        log.info("the %s index on %s is rebuilt", self.label, self.driver.shown)
        built = self._anew(state, changes)
        state = self._write(replace(state, former=(*state.former, built.epoch)))
        self.driver.create(built.epoch)
        for start, stop in changes.ranges(since=0, at_once=CHUNKS_PER_RANGE):
            built = self._applied(built, changes, start, stop)
        self._look(self._write(replace(built, version=state.version)))

    def _filled(self, state: RemoteState, changes: ChangeLog) -> RemoteState:
        """The state after all changes of the log, written after each range."""
        for start, stop in changes.ranges(since=state.last.seq, at_once=CHUNKS_PER_RANGE):
            state = self._write(self._applied(state, changes, start, stop))
        return state

    def _applied(
        self, state: RemoteState, changes: ChangeLog, start: int, stop: int
    ) -> RemoteState:
        """The state after a range of changes, whose points are written."""
        added = self.added(changes, start, stop)
        updated = changes.updated(start, stop)
        updated = updated[updated <= start]
        fields = _fields(changes, [*(each.key for each in added), *updated.tolist()])
        state = self._with_names(state, fields)
        points = self._points(added, fields, state)
        last = Counter(state.last.writes) | Counter(self.driver.upsert(state.epoch, points))
        known = [key for key in updated.tolist() if key in fields]
        if changed := {key: _stored(fields[key], state) for key in known}:
            written = self.driver.update_fields(
                state.epoch, changed, lambda: self._points(self.of(changes, updated), fields, state)
            )
            last |= Counter(written)
        removed = changes.removed(start, stop)
        chunks = length = 0
        if len(removed):
            chunks, length = self.driver.mark_removed(state, removed, stop)
        mark = LogMark(stop, changes.token_at(stop) or 0, dict(last))
        return replace(
            state,
            # marks before the last one are for searches that have not reached it
            marks=(*state.marks, mark)[-MOST_MARKS:] if last else (mark,),
            chunks=state.chunks + len(points) - chunks,
            length=state.length + sum(point.length for point in points) - length,
            longest=max([state.longest, *(point.length for point in points)]),
            removals=state.removals or len(removed) > 0,
        )

    def expected_points(
        self, state: RemoteState, changes: ChangeLog, start: int, stop: int
    ) -> Sequence[Point]:
        """The points of a range as they should be stored."""
        added = self.added(changes, start, stop)
        return self._points(added, _fields(changes, [each.key for each in added]), state)

    def _points(self, sources: Iterable[Any], fields: Fields, state: RemoteState) -> list[Point]:
        """The points, with their collections and those of the fields that the index has."""
        points = [self.point(source, state) for source in sources]
        for point in points:
            point.collection, _ = fields[point.key]
            point.fields = _stored(fields[point.key], state)
        return points

    def _with_names(self, state: RemoteState, fields: Fields) -> RemoteState:
        """The state with the payload names of chunks, as far as there may be so many."""
        names = frozenset().union(*(chunk for _, chunk in fields.values())) - state.fields
        new = sorted(names - {pushdown.CROWDED})[: max(0, pushdown.MOST_FIELDS - len(state.fields))]
        if pushdown.CROWDED in names:  # always: conditions leave out no such chunk
            new.append(pushdown.CROWDED)
        if new:
            self.driver.index_fields(state.epoch, new)
        return replace(state, fields=state.fields | set(new))

    def _of_history(self, state: RemoteState, changes: ChangeLog) -> RemoteState:
        """The state at the last mark of this history that searches have reached."""
        if state.epoch not in self._discarded:
            for mark in reversed(state.reached(self._seen)):
                if base.is_of(changes, mark.position):
                    return state.up_to(mark)
        return state.up_to(NOTHING)

    def _look(self, state: RemoteState) -> None:
        """Ask how far searches have come in each part that is not known to be up to date."""
        lags = [name for name, seq in state.last.writes.items() if self._seen.get(name, 0) < seq]
        if lags:
            self.saw(self.driver.reached(lags))

    def saw(self, reached: Writes, *, at_most: bool = False) -> None:
        """Note what searches reflect, or that they can't be had to reflect more."""
        for name, seq in reached.items():
            self._seen[name] = seq if at_most else max(seq, self._seen.get(name, 0))

    def _wait_for(self, state: RemoteState) -> None:
        """Wait until searches have all that is written, but not longer than the timeout."""
        deadline = time.monotonic() + self._timeout
        pause = FIRST_PAUSE
        self._look(state)
        while not state.last.is_reached(self._seen) and time.monotonic() < deadline:
            checkpoint()
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            self._look(state)

    def _delete_removed(self, state: RemoteState, changes: ChangeLog) -> RemoteState:
        """Delete the points of chunks whose removal is old enough."""
        due = [some for some in list(self._noticed) if isinstance(some, int) and self._is_due(some)]
        last = max((seq for seq in due if seq <= state.last.seq), default=0)
        if last <= state.deleted or not base.is_of(changes, state.last.position):
            return state
        self.driver.delete_points(state, changes.removed(state.deleted, last))
        for seq in due:
            del self._noticed[seq]
        return replace(state, deleted=last)

    def _delete_former(self, state: RemoteState) -> RemoteState:
        """Delete former epochs, if they were replaced long enough ago."""
        due = [epoch for epoch in state.former if self._is_due(epoch)]
        for epoch in due:
            self.driver.delete_epoch(epoch)
        return replace(state, former=tuple(some for some in state.former if some not in due))

    def _is_due(self, known: str | int) -> bool:
        return self._clock() - self._noticed.get(known, self._clock()) >= GRACE


class RemoteVectorIndex(RemoteIndex["RemoteVectors"], base.VectorIndex[ChangeLog]):
    """A VectorIndex in a service."""

    def __init__(
        self,
        driver: RemoteDriver,
        *,
        model_id: str,
        dimension: int,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(driver, timeout=timeout, clock=clock)
        self.model_id = model_id
        self.dimension = dimension

    def added(self, changes: ChangeLog, start: int, stop: int) -> Sequence[Point]:
        keys, vectors = self.record(changes).added(start, stop)
        return list(map(Point, keys.tolist(), vectors))

    def of(self, changes: ChangeLog, keys: ChunkKeys) -> Sequence[Point]:
        keys, vectors = self.record(changes).of(keys)
        return list(map(Point, keys.tolist(), vectors))

    def point(self, source: Point, state: RemoteState) -> Point:
        return source

    def _open(self, state: RemoteState, changes: ChangeLog) -> RemoteVectors:
        return RemoteVectors(self, state, changes)

    def record(self, changes: ChangeLog) -> RecordVectors:
        return RecordVectors(changes, model_id=self.model_id, dimension=self.dimension)


class RemoteVectors(base.VectorSnapshot):
    """A VectorSnapshot at the last mark of a state."""

    def __init__(self, index: RemoteVectorIndex, state: RemoteState, changes: ChangeLog) -> None:
        self._index = index
        self._driver = index.driver
        self._state = state
        self._changes = changes
        self._record = index.record(changes)
        self.position = state.last.position

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        check_vectors(query[None], dimension=self._index.dimension)
        among = None if allowed is None else self._included(allowed.keys)
        if k < 1 or self._state.last == NOTHING:
            return base.NO_HITS
        if among is None or len(among) > max(SCORED_FROM_RECORD, k):
            hits = await self._nearest(query, k, allowed, among)
            if hits is not None:
                return hits
        if among is None:
            return await self._record.best_of_all(query, k=k, last=self._state.last.seq)
        return await self._record.best(query, among, k=k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        check_vectors(query[None], dimension=self._index.dimension)
        return await self._record.scores(query, keys)

    async def _nearest(
        self, query: Vector, k: int, allowed: FilterKeys | None, among: ChunkKeys | None
    ) -> Hits | None:
        """The best of what the service proposes; None if that is not enough.

        Once more proposals are needed than chunks are allowed, it takes less to read those.
        """
        deepest = self._driver.deepest
        wanted = k if among is not None else min(k, self._state.chunks)
        first = min(deepest, 2 * k + OVERFETCH)
        most = max(first, deepest if among is None else min(deepest, len(among)))
        for depth in base.depths(first, most + 1):
            proposed, reached = await self._proposed(query, allowed, depth)
            hits = await self._changes.run(
                partial(self._confirmed, query, k, proposed.keys, reached.seq, allowed)
            )
            if len(hits) >= wanted:
                return hits
            if not proposed.more:
                break
        return None

    async def _proposed(
        self, query: Vector, allowed: FilterKeys | None, depth: int
    ) -> tuple[Proposals, LogMark]:
        """What the service proposes, and the mark that the answer has reached."""
        state = self._state
        where = allowed.where if allowed is not None else None
        for pause in (*SEARCH_PAUSES, None):
            answer = await self._driver.query(
                state,
                query,
                limit=depth,
                where=pushdown.superset_condition(where, state.fields),
                collections=pushdown.collections_of(where),
            )
            self._index.saw(answer.reached, at_most=pause is None)
            reached = state.reached({**state.last.writes, **answer.reached})[-1]
            if reached == state.last or pause is None:
                break
            await asyncio.sleep(pause)
        if state.last.seq - reached.seq > MOST_MISSING:
            raise IndexUnavailableError(
                f"the index on {self._driver.shown} answers as of change {reached.seq}, although "
                f"it had reached {state.last.seq}; try again later"
            )
        return answer, reached

    def _confirmed(
        self, query: Vector, k: int, proposed: ChunkKeys, since: int, allowed: FilterKeys | None
    ) -> Hits:
        """The best of what was proposed, and of what an answer as of a change may lack."""
        last, head = self._state.last.seq, self._changes.head.seq
        candidates = [proposed]
        if since < last:
            candidates.append(self._record.added(since, last)[0])
        if allowed is not None and since < head:
            # documents with other metadata than the condition was asked of
            candidates.append(self._changes.updated(since, head))
        keys = self._included(np.unique(np.concatenate(candidates)))
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return self._record.best_of(query, keys, k=k)

    def _included(self, keys: ChunkKeys) -> ChunkKeys:
        """Those of ascending keys that are not newer than the snapshot."""
        return keys[: np.searchsorted(keys, self._state.last.seq, side="right")]


Fields = Mapping[int, tuple[str, Payload]]
"""The collection of each chunk, and what is stored of its fields."""


def _fields(changes: ChangeLog, keys: Sequence[int]) -> Fields:
    chunks = changes.fields_of(np.array(keys, np.int64))
    return {chunk.key: (chunk.collection, pushdown.payload(chunk)) for chunk in chunks}


def _stored(chunk: tuple[str, Payload], state: RemoteState) -> Payload:
    return {name: values for name, values in chunk[1].items() if name in state.fields}


def _is_earlier(text: str | None, stored: RemoteState, *, than: RemoteState) -> bool:
    """Whether a service, or a copy of its data that is behind, has answered with the past."""
    if text is None:
        return bool(than.last.writes)
    known = stored.epoch == than.epoch or stored.epoch in than.former
    return known and stored.version < than.version


def _is_other(state: RemoteState, changes: ChangeLog) -> bool:
    """Whether a state is of another history, as far as the log goes."""
    return state.last.seq <= changes.head.seq and not base.is_of(changes, state.last.position)
