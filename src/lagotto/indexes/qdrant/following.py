"""Following the change log: in ranges, each of which may be applied again and again.

A range's points are written first, with their acknowledgement, then the state that says so. If
that is interrupted, the next follower applies the range again. Several may do so at once: the
state moves only from the one that a follower began with.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np
from qdrant_client import models

from lagotto._internal.concurrency import checkpoint, give_way
from lagotto.errors import IndexUnavailableError
from lagotto.indexes.base import (
    OTHER_HISTORY,
    START,
    ChangeLog,
    ChunkFields,
    ChunkKeys,
    Finding,
    IndexRole,
    LogPosition,
    missing_index,
    other_history,
    remote_index_state,
)
from lagotto.indexes.qdrant.address import parse_address
from lagotto.indexes.qdrant.client import MissingCollectionError, QdrantServer
from lagotto.indexes.qdrant.collections import KEY, ORDERING, REMOVED, Collections, CollectionState
from lagotto.indexes.qdrant.filters import (
    FIELDS,
    MOST_FIELDS,
    TENANT,
    Payload,
    field_payload,
    path,
    shard_key,
)
from lagotto.indexes.qdrant.points import NewPoint, by_keys, removed_up_to, stored_fields, visible
from lagotto.indexes.qdrant.raw_requests import upsert
from lagotto.indexes.registry import IndexSite

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 2_000
"""Chunks after which the state is written: what a crash makes the next follower repeat."""

BATCH = 250
"""Points or ids in a request."""

COMPARED = 10_000
"""Chunks whose keys a check compares with those of the record at once, and the most whose points
it compares."""

GRACE = 60.0
"""Seconds for which a removed point is kept, for searches that began before its removal."""

LAYOUT = "1"
"""Of points and state; other layouts have other names."""


class QdrantFollower(ABC):
    """What the text and the vector index on a Qdrant server have in common."""

    kind = "qdrant"
    folder = None
    remote = True
    role: IndexRole

    def __init__(self, site: IndexSite, *, made_with: str) -> None:
        self.server = QdrantServer(parse_address(site.address), timeout=site.timeout)
        name = site.name(self.role, f"{made_with}/qdrant-{LAYOUT}")
        self.collections = Collections(self.server, name=name, base_id=site.base_id)
        self._state: CollectionState | None = None
        self._changing = threading.RLock()
        self._removed_by: list[tuple[int, float]] = []

    @abstractmethod
    def _create(self, changes: ChangeLog) -> CollectionState:
        """A new, empty collection."""

    @abstractmethod
    def _points(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> Iterator[NewPoint]:
        """The points of the chunks that were added in a range."""

    @abstractmethod
    def _keys(self, changes: ChangeLog, start: int, stop: int) -> ChunkKeys:
        """The keys of these chunks."""

    def _outdated(self, state: CollectionState) -> bool:
        """Whether the collection should be built again, beside the current one."""
        return False

    @property
    def position(self) -> LogPosition:
        state = self._state
        return state.position if state else START

    def refresh(self) -> None:
        self._state = self.collections.current(briefly=True)

    def applied_seq(self, changes: ChangeLog) -> int:
        if self._state is None:
            self.refresh()
        state = self._state
        return state.position.seq if state and is_of(changes, state.position) else 0

    def reset_if_at(self, position: LogPosition) -> None:
        with self._changing:
            self.refresh()
            if self._state is not None and self._state.position == position:
                log.warning(OTHER_HISTORY, self.role)
                self.collections.forget_current()
                self._state = None

    def delete(self) -> None:
        with self._changing:
            self.collections.delete_all()
            self._state = None

    def close(self) -> None:
        """Close the connection; there is nothing to save."""
        self.server.close()

    def check(self, changes: ChangeLog) -> Finding:
        try:
            return self._checked(changes)
        except IndexUnavailableError as exc:
            return Finding(level="problem", what=f"the {self.role} index can't be used: {exc}")

    def _checked(self, changes: ChangeLog) -> Finding:
        self.refresh()
        state = self._state
        if state is None:
            return missing_index(self.role)
        if not is_of(changes, state.position):
            return other_history(self.role)
        found = self._count(state)
        if found != state.chunks:
            return Finding(
                level="problem",
                what=f"the {self.role} index has {found} chunks instead of {state.chunks}",
                advice="it is rebuilt when it is tidied; `lagotto rebuild` does so now",
            )
        if state.position == changes.head:
            lacking, gone = self._differences(state, changes)
            if lacking or gone:
                return Finding(
                    level="problem",
                    what=f"the {self.role} index lacks {lacking} chunks and has {gone} that are "
                    "not in the base",
                    advice="`lagotto rebuild` makes it anew",
                )
            if altered := self._altered(state, changes):
                return Finding(
                    level="problem",
                    what=f"{altered} chunks of the {self.role} index are not what the base has",
                    advice="`lagotto rebuild` makes it anew",
                )
        return remote_index_state(
            self.role,
            where=self.server.address.shown,
            applied_seq=state.position.seq,
            changes=changes.head.seq,
        )

    def compact(self, changes: ChangeLog) -> None:
        with self._changing:
            self.refresh()
            state = self._state
            if state is None or not is_of(changes, state.position):
                return
            self._delete_removed(state)
            self.collections.delete_abandoned()
            if state.position == changes.head and self._needs_rebuild(state):
                self._rebuild(changes)

    def _needs_rebuild(self, state: CollectionState) -> bool:
        return self._outdated(state) or self._count(state) != state.chunks

    def _caught_up(self, changes: ChangeLog) -> CollectionState:
        """The state at the head of the log, or after it if others have come further."""
        with self._changing:
            self._state = state = self._followed(self.collections.current(), changes)
            if state.position == changes.head and self._outdated(state):
                self._state = state = self._rebuild(changes)
            return state

    def _followed(self, state: CollectionState | None, changes: ChangeLog) -> CollectionState:
        while True:
            if state is not None and state.position.seq > changes.head.seq:
                return state
            if state is None or not is_of(changes, state.position):
                if state is not None:
                    log.warning(OTHER_HISTORY, self.role)
                state = self._create(changes)
                self.collections.make_current(state)
            ranges = changes.ranges(since=state.position.seq, at_once=AT_ONCE)
            step = next(islice(ranges, 1), None)
            if step is None:
                return state
            self._state = state = self._step(state, changes, *step)

    def _rebuild(self, changes: ChangeLog) -> CollectionState:
        """Build the collection again beside the current one, then switch."""
        log.info("the %s index on %s is rebuilt", self.role, self.server.address.shown)
        state = self._create(changes)
        for start, stop in changes.ranges(since=0, at_once=AT_ONCE):
            state = self._step(state, changes, start, stop)
        self.collections.make_current(state)
        self._state = state
        return state

    def _step(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> CollectionState:
        """Apply a range; the state that the collection has then, maybe by another follower."""
        applied = self._applied(state, changes, start, stop)
        written = self.collections.advance(state, applied)
        if written is None:
            raise MissingCollectionError(
                f"the collection {state.collection} on {self.server.address.shown} was deleted "
                "while it was filled; the next attempt makes another one"
            )
        return written

    def _applied(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> CollectionState:
        points = list(self._points(state, changes, start, stop))
        fields = changes.fields_of(_array([point.key for point in points]))
        updated = changes.updated(start, stop)
        changed = changes.fields_of(updated[updated <= start])
        state = self._with_fields(state, [*fields, *changed])
        state = self._with_shards(state, {shard_key(chunk.collection) for chunk in fields})
        self._upload(state, points, {chunk.key: chunk for chunk in fields})
        self._update_fields(state, changed)
        gone = changes.removed(start, stop)
        chunks, length = self._remove(state, gone, stop) if len(gone) else (0, 0)
        return replace(
            state,
            position=LogPosition(stop, changes.token_at(stop) or 0),
            chunks=state.chunks + len(points) - chunks,
            length=state.length + sum(point.length for point in points) - length,
            longest=max([state.longest, *(point.length for point in points)]),
            removals=state.removals or len(gone) > 0,
        )

    def _with_fields(
        self, state: CollectionState, chunks: Sequence[ChunkFields]
    ) -> CollectionState:
        """The state with the fields of these chunks, which are indexed from now on."""
        found: set[str] = set()
        for chunk in chunks:
            found |= field_payload({"collection": (chunk.collection,), **chunk.values}).keys()
        new = sorted(found - state.fields)[: MOST_FIELDS - len(state.fields)]
        for name in new:
            self.collections.index_field(state.collection, path(name), _schema(name))
        return replace(state, fields=state.fields | set(new))

    def _with_shards(self, state: CollectionState, wanted: set[str]) -> CollectionState:
        """The state with these shard keys, if points are placed by their Lagotto collection."""
        if not state.by_collection:
            return state
        for key in sorted(wanted - state.shard_keys):
            self.collections.add_shards(state.collection, key)
        return replace(state, shard_keys=state.shard_keys | wanted)

    def _upload(
        self, state: CollectionState, points: Sequence[NewPoint], fields: Mapping[int, ChunkFields]
    ) -> None:
        if not state.by_collection:
            self._upload_to(None, state, points, fields)
            return
        placed: dict[str, list[NewPoint]] = defaultdict(list)
        for point in points:
            placed[shard_key(fields[point.key].collection)].append(point)
        for shards, some in placed.items():
            self._upload_to(shards, state, some, fields)

    def _upload_to(
        self,
        shards: str | None,
        state: CollectionState,
        points: Sequence[NewPoint],
        fields: Mapping[int, ChunkFields],
    ) -> None:
        for some in batches(points):
            checkpoint()
            give_way()
            stored = [
                point.stored(stored_fields(fields[point.key], state.fields)) for point in some
            ]
            upsert(self.server, state.collection, stored, ordering=ORDERING, shards=shards)

    def _update_fields(self, state: CollectionState, chunks: Sequence[ChunkFields]) -> None:
        """Rewrite the fields of chunks; those of a document mostly have the same."""
        alike: dict[str, tuple[Payload, list[int]]] = {}
        for chunk in chunks:
            fields = stored_fields(chunk, state.fields)
            alike.setdefault(json.dumps(fields), (fields, []))[1].append(chunk.key)
        operations = [
            models.SetPayloadOperation(
                set_payload=models.SetPayload(
                    payload={FIELDS: fields},
                    filter=models.Filter(must=[by_keys(keys)]),
                    shard_key=state.all_shards,
                )
            )
            for fields, keys in alike.values()
        ]
        for some in batches(operations):
            checkpoint()
            self.server.ask(
                lambda client, some=some: client.batch_update_points(  # type: ignore[misc]
                    state.collection, some, wait=True, ordering=ORDERING
                )
            )

    def _remove(self, state: CollectionState, gone: ChunkKeys, stop: int) -> tuple[int, int]:
        """Mark points as removed; how many were counted until now, and their length."""
        if not state.removals:
            schema = models.PayloadSchemaType.INTEGER
            self.collections.index_field(state.collection, REMOVED, schema)
        chunks = length = 0
        for keys in batches(gone.tolist()):
            checkpoint()
            counted = self._lengths(state, keys)
            chunks += len(counted)
            length += sum(counted)
            # the least number stays, whoever marks a point first
            marked = models.Filter(must=[by_keys(keys)], must_not=[removed_up_to(stop)])
            self.server.ask(
                lambda client, marked=marked: client.set_payload(  # type: ignore[misc]
                    state.collection,
                    {REMOVED: stop},
                    points=marked,
                    wait=True,
                    ordering=ORDERING,
                    shard_key_selector=state.all_shards,
                )
            )
        return chunks, length

    def _lengths(self, state: CollectionState, keys: Sequence[int]) -> list[int]:
        """The lengths of those of `keys` that are visible."""
        points, _ = self.server.ask(
            lambda client: client.scroll(
                state.collection,
                visible(replace(state, removals=True), by_keys(keys)),
                limit=len(keys),
                with_payload=["length"],
            )
        )
        return [int((point.payload or {}).get("length", 0)) for point in points]

    def _count(self, state: CollectionState) -> int:
        counted = self.server.ask(lambda client: client.count(state.collection, visible(state)))
        return counted.count

    def _differences(self, state: CollectionState, changes: ChangeLog) -> tuple[int, int]:
        """How many chunks of the record are not visible, and how many others are."""
        lacking = gone = 0
        for start, stop in changes.ranges(since=0, at_once=COMPARED):
            recorded = set(self._keys(changes, start, stop).tolist())
            found = set(self._visible_keys(state, start, stop))
            lacking += len(recorded - found)
            gone += len(found - recorded)
        return lacking, gone

    def _visible_keys(self, state: CollectionState, start: int, stop: int) -> Iterator[int]:
        between = models.FieldCondition(key=KEY, range=models.Range(gt=start, lte=stop))
        offset: models.ExtendedPointId | None = None
        while True:
            points, offset = self.server.ask(
                lambda client, offset=offset: client.scroll(  # type: ignore[misc]
                    state.collection,
                    visible(state, between),
                    limit=COMPARED,
                    offset=offset,
                    with_payload=False,
                )
            )
            yield from (int(point.id) for point in points)
            if offset is None:
                return

    def _altered(self, state: CollectionState, changes: ChangeLog) -> int:
        """How many points are not those of the record; of a large index some are compared."""
        return sum(
            self._altered_between(state, changes, *each) for each in _compared(state, changes)
        )

    def _altered_between(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> int:
        points = {point.key: point for point in self._points(state, changes, start, stop)}
        keys = self._certain(changes, start, stop)
        fields = {chunk.key: chunk for chunk in changes.fields_of(keys)}
        stored, _ = self.server.ask(
            lambda client: client.scroll(
                state.collection,
                visible(state, by_keys(keys.tolist())),
                limit=max(1, len(keys)),
                with_vectors=True,
            )
        )
        checkpoint()
        return sum(
            not points[int(each.id)].equals(each, stored_fields(fields[int(each.id)], state.fields))
            for each in stored
        )

    def _certain(self, changes: ChangeLog, start: int, stop: int) -> ChunkKeys:
        """The keys of chunks whose points depend on nothing but themselves."""
        return self._keys(changes, start, stop)

    def _delete_removed(self, state: CollectionState) -> None:
        """Delete the points that were removed long enough ago."""
        if not state.removals:
            return
        now = time.monotonic()
        self._removed_by.append((state.position.seq, now))
        old = [number for number, since in self._removed_by if now - since >= GRACE]
        if not old:
            return
        self._removed_by = [each for each in self._removed_by if each[0] > old[-1]]
        where = models.Filter(must=[removed_up_to(old[-1])])
        self.server.ask(
            lambda client: client.delete(
                state.collection,
                models.FilterSelector(filter=where),
                wait=True,
                ordering=ORDERING,
                shard_key_selector=state.all_shards,
            )
        )


def is_of(changes: ChangeLog, position: LogPosition) -> bool:
    """Whether a position is one of this history, and not ahead of it."""
    number, token = position
    return number <= changes.head.seq and changes.token_at(number) == token


def _compared(state: CollectionState, changes: ChangeLog) -> Iterator[tuple[int, int]]:
    """The ranges whose points a check compares: all, or of many chunks some at random."""
    if state.chunks <= COMPARED:
        yield from changes.ranges(since=0, at_once=BATCH)
        return
    starts = np.random.default_rng().choice(changes.head.seq, COMPARED // BATCH, replace=False)
    for start in sorted(starts.tolist()):
        yield from islice(changes.ranges(since=start, at_once=BATCH), 1)


def batches(items: Sequence[T], size: int = BATCH) -> Iterator[Sequence[T]]:
    """The items, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _schema(name: str) -> models.PayloadSchemaType | models.KeywordIndexParams:
    if name == TENANT:
        return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    if name.startswith("k"):
        return models.PayloadSchemaType.KEYWORD
    return models.PayloadSchemaType.FLOAT


def _array(keys: Sequence[int]) -> ChunkKeys:
    return np.array(keys, np.int64)
