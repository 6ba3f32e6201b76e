"""The vector index in a Pinecone index: follows the change log, and knows what searches have.

Each chunk is a document whose id is the chunk's key, in one of a few namespaces. After the
documents of a range of changes, the state is written: the position, and the service's number of the
last write in each namespace. The service applies writes later, and a search tells the number that
it reflects; a position counts as reached when searches reflect its numbers. So a crash, two
followers at once, and an answer of the past are all harmless: at worst a range is written twice.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lagotto.concurrency import checkpoint
from lagotto.documents import Vector
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.indexes.base import START, ChangeLog, Finding, LogPosition
from lagotto.indexes.findings import OTHER_HISTORY, missing_index, other_history
from lagotto.indexes.pinecone.metadata import CROWDED, metadata_of
from lagotto.indexes.pinecone.names import STATE, STATES, namespace, prefix
from lagotto.indexes.pinecone.progress import NOTHING, PineconeProgress, WriteMark
from lagotto.indexes.pinecone.service import PineconeService, sent
from lagotto.indexes.pinecone.snapshot import IndexView, PineconeSnapshot
from lagotto.indexes.record_vectors import RecordVectors
from lagotto.indexes.registry import IndexSite

log = logging.getLogger(__name__)

FORMAT = "pinecone 1"
"""What documents and state look like; others have other names."""

KEPT = 60.0
"""Seconds for which documents of removed chunks, and replaced namespaces, are kept for searches
that began before."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two questions how far the service has come."""


class PineconeIndex:
    """A VectorIndex in the service; `clock` is that of `tidy`."""

    kind = "pinecone"
    remote = True
    folder = None

    def __init__(
        self,
        service: PineconeService,
        *,
        name: str,
        model_id: str,
        dimension: int,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model_id = model_id
        self.dimension = dimension
        self.position = START
        self._service = service
        self._name = name
        self._timeout = timeout
        self._clock = clock
        self._progress: PineconeProgress | None = None
        self._seen: dict[str, int] = {}
        self._discarded: set[str] = set()
        self._noticed: dict[str | int, float] = {}
        """When this process first knew of a position, or of a former epoch."""
        self._following = threading.Lock()
        self._changing = threading.Lock()
        """Held for moments, never during a request: searches don't wait for one that follows."""

    def follow(self, changes: ChangeLog) -> PineconeSnapshot | None:
        with self._following:
            self.refresh()
            progress = self._continued(changes)
            if progress.last.number > changes.head.number:
                return None
            for start, stop in changes.ranges(since=progress.last.number):
                progress = self._write_range(progress, changes, start, stop)
            self._wait_for(progress)
            return self._snapshot(changes, progress)

    def latest(self, changes: ChangeLog) -> PineconeSnapshot | None:
        found = self._snapshot(changes, self._progress)
        return None if found is None or found.indexed_up_to == START else found

    def refresh(self) -> None:
        """Read the state, and ask how far searches have come, if the state says more than known."""
        text = self._service.text_of(STATES, self._name, field=STATE)
        stored = PineconeProgress.from_json(text) if text is not None else PineconeProgress()
        progress = self._learn(stored)
        self._look(progress)
        now = self._clock()
        self._noticed.setdefault(progress.last.number, now)
        for epoch in progress.former:
            self._noticed.setdefault(epoch, now)

    def indexed_up_to(self, changes: ChangeLog) -> int:
        if self._progress is None:
            self.refresh()
        return self._mark_of(changes, self._known).number

    def discard(self, position: LogPosition) -> None:
        with self._changing:
            if self._progress is not None and self.position == position:
                self._discarded.add(self._progress.epoch)

    def drop(self) -> None:
        with self._following:
            for found in self._service.namespaces(prefix(self._name)):
                self._service.delete_namespace(found)
            self._service.delete(STATES, [self._name])
            self._progress, self.position = None, START

    def tidy(self, changes: ChangeLog) -> None:
        """Delete the documents of removed chunks, and former epochs, if that is due."""
        with self._following:
            self.refresh()
            progress = self._delete_removed(self._known, changes)
            progress = self._delete_former(progress)
            if progress != self._known:
                self._write(progress)

    def close(self) -> None:
        self._service.close()

    def check(self, changes: ChangeLog) -> Finding:
        try:
            self.refresh()
        except (IndexUnavailableError, ConfigError) as exc:
            return Finding(level="problem", what=str(exc), advice="searches go on without it")
        written, reached = self._known.last, self._mark_of(changes, self._known).number
        if written == NOTHING:
            return missing_index("vector")
        if written.number <= changes.head.number and not _is_of(changes, written):
            return other_history("vector")
        head = changes.head.number
        what = f"the vector index in Pinecone ({self._service.name}) "
        if reached >= head:
            return Finding(level="ok", what=f"{what}is up to date ({head} changes)")
        lag = f"has {reached} of {head} changes; {min(written.number, head)} are written to it"
        return Finding(level="note", what=what + lag, advice="searches read the rest themselves")

    @property
    def _known(self) -> PineconeProgress:
        assert self._progress is not None, "refresh comes first"
        return self._progress

    def _learn(self, stored: PineconeProgress) -> PineconeProgress:
        """Take over a state that was read, unless a newer one is known."""
        with self._changing:
            if self._progress is None or stored.version >= self._progress.version:
                self._progress = stored
            return self._progress

    def _mark_of(self, changes: ChangeLog, progress: PineconeProgress) -> WriteMark:
        """The last mark of this history that searches have reached, not ahead of the log."""
        if progress.epoch in self._discarded:
            return NOTHING
        for mark in reversed(progress.reached(self._seen)):
            if mark.number <= changes.head.number and _is_of(changes, mark):
                return mark
        return NOTHING

    def _snapshot(
        self, changes: ChangeLog, progress: PineconeProgress | None
    ) -> PineconeSnapshot | None:
        if progress is None:
            return None
        mark = self._mark_of(changes, progress)
        marks = [some for some in (NOTHING, *progress.marks) if some.number <= mark.number]
        view = IndexView(
            self._service,
            name=self._name,
            epoch=progress.epoch,
            marks=marks,
            crowded=progress.crowded,
            model_id=self.model_id,
            dimension=self.dimension,
            saw=self._saw,
        )
        return PineconeSnapshot(view, changes)

    def _continued(self, changes: ChangeLog) -> PineconeProgress:
        """The state to go on from; an empty one under other names if it is of another history."""
        progress = self._known
        last = progress.last
        other = last.number <= changes.head.number and not _is_of(changes, last)
        if other:
            log.warning(OTHER_HISTORY, "vector")
        unusable = other or progress.epoch in self._discarded or self._is_lost(progress)
        if progress.epoch and not unusable:
            return progress
        return self._write(progress.anew(secrets.token_hex(4)))

    def _is_lost(self, progress: PineconeProgress) -> bool:
        """Whether somebody has deleted a namespace: it is not there, long after it was written."""
        if progress.last.reached_by(self._seen) or not self._is_due(progress.last.number):
            return False
        return not progress.last.writes.keys() <= set(self._service.namespaces(prefix(self._name)))

    def _write_range(
        self, progress: PineconeProgress, changes: ChangeLog, start: int, stop: int
    ) -> PineconeProgress:
        """Write the documents of a range of changes, then that it is written."""
        writes = dict(progress.last.writes)
        crowded = False
        for name, documents in self._documents(progress.epoch, changes, start, stop).items():
            writes[name] = max(writes.get(name, 0), self._service.upsert(name, documents))
            crowded |= any(CROWDED.keys() <= document.keys() for document in documents)
        mark = WriteMark(stop, changes.token_at(stop) or 0, writes)
        return self._write(progress.marked(mark, crowded=crowded))

    def _documents(
        self, epoch: str, changes: ChangeLog, start: int, stop: int
    ) -> dict[str, list[dict[str, Any]]]:
        """The documents of chunks that are new in a range or have other metadata, by namespace."""
        record = RecordVectors(changes, model_id=self.model_id, dimension=self.dimension)
        keys, vectors = record.added(start, stop)
        more, others = record.of(np.setdiff1d(changes.updated(start, stop), keys))
        rows = dict(
            zip([*keys.tolist(), *more.tolist()], [*sent(vectors), *sent(others)], strict=True)
        )
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for fields in changes.fields_of(np.array(sorted(rows), np.int64)):
            name = namespace(self._name, epoch, fields.collection)
            document = {"_id": str(fields.key), "": rows[fields.key]}
            found[name].append(document | metadata_of(fields))
        return found

    def _write(self, progress: PineconeProgress) -> PineconeProgress:
        written = replace(progress, version=progress.version + 1)
        self._service.put_text(STATES, self._name, field=STATE, text=written.to_json())
        with self._changing:
            self._progress = written
        return written

    def _look(self, progress: PineconeProgress) -> None:
        """Ask how far searches have come in each namespace that is not known to be up to date."""
        probe: Vector = np.zeros(self.dimension, np.float32)
        probe[0] = 1.0
        for name, number in progress.last.writes.items():
            if self._seen.get(name, 0) < number:
                answer = self._service.nearest(name, probe, top_k=1, where=None)
                self._saw(name, answer.reached)
        self.position = progress.reached(self._seen)[-1].position

    def _saw(self, name: str, reached: int, *, at_most: bool = False) -> None:
        """Note what a search in a namespace reflects, or that it can't be had to reflect more."""
        self._seen[name] = reached if at_most else max(reached, self._seen.get(name, 0))

    def _wait_for(self, progress: PineconeProgress) -> None:
        """Wait until searches have all that is written, but not longer than the timeout."""
        deadline = time.monotonic() + self._timeout
        pause = FIRST_PAUSE
        self._look(progress)
        while not progress.last.reached_by(self._seen) and time.monotonic() < deadline:
            checkpoint()
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            self._look(progress)

    def _delete_removed(self, progress: PineconeProgress, changes: ChangeLog) -> PineconeProgress:
        """Delete the documents of chunks whose removal is old enough."""
        due = [key for key in list(self._noticed) if isinstance(key, int) and self._is_due(key)]
        last = max((key for key in due if key <= progress.last.number), default=0)
        if last <= progress.deleted or not _is_of(changes, progress.last):
            return progress
        gone = [str(key) for key in changes.removed(progress.deleted, last).tolist()]
        for name in progress.last.writes:
            self._service.delete(name, gone)
        for key in due:
            del self._noticed[key]
        return replace(progress, deleted=last)

    def _delete_former(self, progress: PineconeProgress) -> PineconeProgress:
        """Delete the namespaces of former epochs, if they were replaced long enough ago."""
        due = [epoch for epoch in progress.former if self._is_due(epoch)]
        for epoch in due:
            for found in self._service.namespaces(prefix(self._name, epoch)):
                self._service.delete_namespace(found)
        kept = tuple(epoch for epoch in progress.former if epoch not in due)
        return replace(progress, former=kept)

    def _is_due(self, known: str | int) -> bool:
        return self._clock() - self._noticed.get(known, self._clock()) >= KEPT


def _is_of(changes: ChangeLog, mark: WriteMark) -> bool:
    return changes.token_at(mark.number) == mark.token


def open_pinecone(site: IndexSite, *, model_id: str, dimension: int) -> PineconeIndex:
    """The vector index of a base in the Pinecone index that `pinecone:INDEX` names."""
    index = site.address.partition(":")[2]
    if not index:
        raise ConfigError("a Pinecone index is given by its name, as in pinecone:my-index")
    return PineconeIndex(
        PineconeService(index, dimension=dimension, timeout=site.timeout),
        name=site.name("vectors", f"{FORMAT} {model_id} {dimension}"),
        model_id=model_id,
        dimension=dimension,
        timeout=site.timeout,
    )
