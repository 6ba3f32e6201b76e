"""The tantivy index of a base: follows the change log, is rebuilt from it, and its files."""

from __future__ import annotations

import logging
import math
import mmap
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel
from tantivy import Document, Index, IndexWriter, Query

from lagotto._internal.concurrency import checkpoint, give_way
from lagotto.documents import Record
from lagotto.errors import IndexDamagedError, StoreBusyError, StoreError
from lagotto.indexes import base
from lagotto.indexes.base import ChangeLog, Finding, LogPosition, TextIndex, is_of
from lagotto.indexes.folder import sync_folder, write_file
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.tantivy import search
from lagotto.indexes.tantivy.search import TantivySnapshot, TantivyText, TermCache, tantivy_errors
from lagotto.terms import index_terms

log = logging.getLogger(__name__)

MOST_DEAD = 0.2
"""Removed chunks still count in the statistics of BM25 until their segment is merged; with a
greater share of them than this the index is rebuilt."""


class TantivyIndex(TextIndex[ChangeLog]):
    """A text index in a folder of its own, of which one process at a time is the writer."""

    kind = "tantivy"
    folder: Path

    def __init__(self, site: IndexSite) -> None:
        self.folder = site.folder("text", base.text_rules())
        self._indexes = site.own_folder
        self._timeout = site.timeout
        self._index: TantivyWriter | None = None
        self._served: TantivySnapshot | None = None
        self._changing = threading.RLock()

    def stored_length(self, terms: int, /) -> int:
        return search.stored_length(terms)

    @property
    def position(self) -> LogPosition:
        index = self._index
        return index.snapshot.position if index else base.START

    def catch_up(self, changes: ChangeLog) -> TantivyText | None:
        snapshot = self._index.snapshot if self._index else None
        if snapshot is None or snapshot.position != changes.head:
            snapshot = self._caught_up(changes)
        return self._view(snapshot, changes) if snapshot.position == changes.head else None

    def latest(self, changes: ChangeLog) -> TantivyText | None:
        served = self._served
        if served is None or served.position != changes.head:
            known = [self._readable(), served]
            usable = [each for each in known if each is not None and is_of(changes, each.position)]
            # while the index is rebuilt, the one before has come further
            served = max(usable, key=lambda each: each.position.seq, default=None)
        if served is None:
            return None
        self._served = served
        return self._view(served, changes)

    def _repaired(
        self, changes: ChangeLog, _: TantivySnapshot, damage: IndexDamagedError
    ) -> TantivySnapshot:
        with self._changing:
            self._served = None
            self._empty(base.DAMAGED, damage)
            return self._caught_up(changes)

    def _view(self, snapshot: TantivySnapshot, changes: ChangeLog) -> TantivyText:
        return TantivyText(snapshot, changes, position=snapshot.position, repaired=self._repaired)

    def applied_seq(self, changes: ChangeLog) -> int:
        try:
            with tantivy_errors(self.folder):
                position, _ = read_state(self.folder)
        except StoreError:
            return 0
        return position.seq if is_of(changes, position) else 0

    def reset_if_at(self, position: LogPosition) -> None:
        with self._changing, self._indexes.lock(timeout=self._timeout):
            index = self._opened()
            index.reload_if_changed()
            if index.snapshot.position == position:
                self._empty(base.OTHER_HISTORY)

    def compact(self, changes: ChangeLog) -> None:
        """Rebuild the index if too many of its chunks are removed ones."""
        with self._changing:
            snapshot = self._index.snapshot if self._index else None
            if snapshot is None or snapshot.position != changes.head:
                return
            if snapshot.dead > MOST_DEAD * snapshot.total:
                with self._indexes.lock(timeout=self._timeout):
                    self._index = None
                    self._indexes.delete(self.folder)
                    self._opened()  # so that no other process misses it
                self._caught_up(changes)
                self._served = None

    def close(self) -> None:
        """Nothing to save: every commit is on the disk."""
        self._index = self._served = None

    def check(self, changes: ChangeLog) -> Finding:
        if not self.folder.exists():
            return self._missing()
        try:
            try:
                position, meta = _verified(self.folder)
            except StoreError:  # what looks damaged may be half written
                with self._changing, self._indexes.lock(timeout=self._timeout):
                    position, meta = _verified(self.folder)
        except StoreBusyError as exc:
            return base.note(f"the text index is being written: {exc}")
        except StoreError as exc:
            return self._damaged(exc) if self.folder.exists() else self._missing()
        if changes.token_at(position.seq) != position.token:
            return self._of_other_history()
        if meta.dead > MOST_DEAD * meta.total:
            what = f"{meta.dead} of the {meta.total} chunks in the text index are removed"
            return base.note(what, "the next search rebuilds it")
        return self._progress(changes, position.seq, where=self.folder)

    def _caught_up(self, changes: ChangeLog) -> TantivySnapshot:
        """Step by step, so that other processes get the lock; mostly one step does all."""
        last = changes.head.seq
        with self._changing:
            size = step_size(last - self.position.seq)
            if self.position.seq < last:
                log.info("text index: reading changes %d to %d", self.position.seq, last)
            while True:
                with tantivy_errors(self.folder), self._indexes.lock(timeout=self._timeout):
                    try:
                        snapshot = self._step(changes, size)
                    except IndexDamagedError as exc:
                        self._empty(base.DAMAGED, exc)
                        snapshot = self._step(changes, size)
                if snapshot.position.seq >= last:
                    return snapshot

    def _step(self, changes: ChangeLog, size: int) -> TantivySnapshot:
        index = self._opened()
        index.reload_if_changed()
        seq, token = index.snapshot.position
        if seq > changes.head.seq:
            return index.snapshot
        if changes.token_at(seq) != token:
            self._empty(base.OTHER_HISTORY)
        index = self._opened()
        for start, stop in islice(changes.ranges(since=self.position.seq, at_once=size), 1):
            last = stop == changes.head.seq and stop - start >= LEAST_MERGED
            index.apply(_batches(changes, start, stop, commits=index.commits if last else 1))
        return index.snapshot

    def _readable(self) -> TantivySnapshot | None:
        """The index as it is on the disk, opened for reading; None if it can't be read now."""
        index = self._index
        try:
            # while another thread has the lock, the index is being rebuilt
            if index is None and self._changing.acquire(blocking=False):
                try:
                    index = self._opened() if (self.folder / META).exists() else None
                finally:
                    self._changing.release()
            if index is not None:
                index.reload_if_changed()
        except IndexDamagedError as exc:
            # or another process rebuilds it; the one that catches up has the lock, and knows
            log.info("the text index can't be read now: %s", exc)
            return None
        except StoreError as exc:
            log.warning("the text index can't be read: %s", exc)
            return None
        return index.snapshot if index is not None else None

    def _opened(self) -> TantivyWriter:
        if self._index is None:
            self._indexes.refuse_links()
            self._index = TantivyWriter(self.folder)
        return self._index

    def _empty(self, why: str, *values: object) -> None:
        log.warning(why, self.label, *values)
        self._index = None
        self._indexes.delete(self.folder)


def _verified(folder: Path) -> tuple[LogPosition, TantivyMeta]:
    with tantivy_errors(folder):
        state = read_state(folder)
        check_files(folder)
    return state


def _batches(changes: ChangeLog, start: int, stop: int, *, commits: int) -> list[Batch]:
    """A range of changes; with several commits, the last changes have one each."""
    chunks: dict[int, tuple[int, str]] = {}
    for chunk in changes.added_texts(start, stop):
        checkpoint()
        give_way()
        chunks[chunk.key] = chunk.document, " ".join(index_terms(chunk.text, chunk.language))
    removed = changes.removed(start, stop).tolist()
    first = stop if removed else stop - commits + 1
    return [
        Batch(
            {key: chunk for key, chunk in chunks.items() if since < key <= seq},
            removed,
            since,
            LogPosition(seq, changes.token_at(seq) or 0),
        )
        for since, seq in pairwise([start, *range(first, stop + 1)])
    ]


LEAST_MERGED = 1_000
LEAST_SEGMENTS = 2
"""After so many changes, the smaller segments are merged if there are so many: a search takes a
fourth less time in one segment than in seven. tantivy merges eight, so the last changes have a
commit each, of 6 ms; indexing in steps of 2,000 takes a third longer than without, and ingest 3 %.
"""

SHORTEST_STEP = 2_000
LONGEST_STEP = 16_000
"""Chunks that are indexed in a few seconds, after which other processes can have the lock."""

LARGEST_SEGMENT = 500_000
"""Chunks whose segments are merged in less time than other processes wait."""


def step_size(missing: int) -> int:
    """How many of the missing chunks to index at once.

    The fewer segments, the faster the search. tantivy merges eight of about the same size into
    one, so what comes in equal steps, a power of eight of them, ends up as one segment.
    """
    parts = -(-missing // LARGEST_SEGMENT) or 1
    size = -(-missing // parts)
    while size > LONGEST_STEP:
        size = -(-size // SEGMENTS_MERGED)
    return max(size, SHORTEST_STEP)


META = "meta.json"
ANNOUNCEMENT = "stamp.json"

SEGMENT_FILES = frozenset({"term", "fast", "fieldnorm", "idx", "pos", "store"})
"""Kinds of files that every segment has; with dead documents, it also has a file of their marks."""

SEGMENTS_MERGED = 8
LEAST_LAYER = 10_000
LAYER_RATIO = 2**0.75
"""tantivy merges eight segments or more whose sizes, in chunks, are of the same layer: the smaller
ones of a layer have no less than the largest divided by LAYER_RATIO, and all up to LEAST_LAYER
count as having that."""


class Deletes(BaseModel):
    """The dead documents of a segment."""

    num_deleted_docs: int
    opstamp: int


class TantivySegment(BaseModel):
    """A part of the index that never changes, but for the documents that die in it."""

    segment_id: str
    max_doc: int
    deletes: Deletes | None

    @property
    def live(self) -> int:
        return self.max_doc - (self.deletes.num_deleted_docs if self.deletes else 0)

    @property
    def files(self) -> list[str]:
        stem = self.segment_id.replace("-", "")
        marks = [f"{stem}.{self.deletes.opstamp}.del"] if self.deletes else []
        return [*(f"{stem}.{kind}" for kind in sorted(SEGMENT_FILES)), *marks]


class TantivyMeta(BaseModel):
    """What tantivy itself writes about an index; only the part that matters here."""

    opstamp: int
    segments: tuple[TantivySegment, ...]

    @classmethod
    def read(cls, folder: Path) -> TantivyMeta:
        return cls.model_validate_json((folder / META).read_bytes())

    @property
    def total(self) -> int:
        """How many documents there are, dead ones included."""
        return sum(segment.max_doc for segment in self.segments)

    @property
    def mergeable(self) -> int:
        """How many segments tantivy would merge with small new ones, once there are enough."""
        sizes = sorted((max(each.live, LEAST_LAYER) for each in self.segments), reverse=True)
        count, top = 0, math.inf
        for size in [*sizes, LEAST_LAYER]:
            if size < top / LAYER_RATIO:
                count, top = 0, size
            count += 1
        return count - 1

    @property
    def dead(self) -> int:
        """How many documents are removed, but still in the statistics."""
        return sum(each.deletes.num_deleted_docs for each in self.segments if each.deletes)


class Footer(BaseModel):
    """What tantivy writes at the end of each segment file; only the part that matters here."""

    crc: int


class Announcement(Record):
    """What is about to be committed: from which opstamp, and the positions before and after."""

    format: Literal[2] = 2
    base: int
    before: LogPosition
    after: LogPosition

    @classmethod
    def read(cls, folder: Path) -> Announcement:
        return cls.model_validate_json((folder / ANNOUNCEMENT).read_bytes())

    def write(self, folder: Path) -> None:
        """Replace the last one, on disk for good; only the one writer of an index may do that."""
        new = folder / f"{ANNOUNCEMENT}.new"
        write_file(new, [self.model_dump_json().encode()])
        new.replace(folder / ANNOUNCEMENT)
        sync_folder(folder)


def read_state(folder: Path) -> tuple[LogPosition, TantivyMeta]:
    """The last change that the index holds, and its segments.

    With a commit in between by another process the number is too small, never too large: the
    announcement has to be read first.
    """
    if not (folder / ANNOUNCEMENT).exists() and (meta := TantivyMeta.read(folder)).opstamp == 0:
        return base.START, meta
    announced = Announcement.read(folder)
    meta = TantivyMeta.read(folder)
    return announced.before if meta.opstamp == announced.base else announced.after, meta


def fingerprint(folder: Path) -> tuple[int, ...]:
    """Changes with each commit, merge and announcement, which all replace a file by a new one."""
    numbers: list[int] = []
    for path in (folder / META, folder / ANNOUNCEMENT):
        if path.exists():
            status = path.stat()
            numbers += (status.st_ino, status.st_mtime_ns, status.st_size)
    return tuple(numbers)


def check_files(folder: Path) -> None:
    """Raise IndexDamagedError unless all segment files have the right checksums.

    Reads about two gigabytes a second.
    """
    meta = TantivyMeta.read(folder)
    for name in (name for segment in meta.segments for name in segment.files):
        try:
            intact = _is_intact(folder / name)
        except FileNotFoundError as exc:
            if TantivyMeta.read(folder) != meta:  # merged and cleared away by a writer just now
                return check_files(folder)
            raise IndexDamagedError(f"the text index {folder} has lost {name}") from exc
        if not intact:
            raise IndexDamagedError(f"the text index {folder} has a wrong checksum in {name}")
    return None


def _is_intact(path: Path) -> bool:
    """Whether the checksum is right that tantivy puts, as JSON, at the end of each file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = int.from_bytes(content[-8:-4], "little")
        footer = Footer.model_validate_json(content[-8 - size : -8])
        with memoryview(content) as whole, whole[: -8 - size] as body:
            return zlib.crc32(body) == footer.crc


WRITER_HEAP = 100_000_000
"""Memory for new documents before they become a segment; only what is used is taken."""


class Batch(NamedTuple):
    """The changes after `since` up to `position`: chunks that come, keys that go.

    A chunk has its document and its terms; a key that is there already is replaced. As another
    process may have come part of the way, `removed` has to name all keys that went, even those that
    came after `since`.
    """

    chunks: Mapping[int, tuple[int, str]]
    removed: Iterable[int]
    since: int
    position: LogPosition


class TantivyWriter:
    """A full-text index in a folder: many readers, one writer, which holds the folder's lock.

    What can't be used any more raises IndexDamagedError, also when it is opened: wipe the folder,
    open it again and apply everything. `snapshot` is the state of the last `apply` or
    `reload_if_changed` of this object.
    """

    snapshot: TantivySnapshot

    def __init__(self, folder: Path) -> None:
        """Open the index in `folder`, or make an empty one."""
        self._folder = folder
        self._loading = threading.Lock()
        self._cache = TermCache()
        self._seen: tuple[int, ...] = ()
        with tantivy_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / ANNOUNCEMENT).exists() and not (folder / META).exists():
                raise IndexDamagedError(f"the text index {folder} has lost {META}")
            self._index = Index(search.index_schema(), str(folder))
            self._index.config_reader("manual")
            check_files(folder)
        self.reload_if_changed()

    @property
    def commits(self) -> int:
        """How many commits of a few chunks it takes until tantivy merges its smaller segments."""
        segments = TantivyMeta.read(self._folder).mergeable
        return max(1, SEGMENTS_MERGED - segments) if segments >= LEAST_SEGMENTS else 1

    def apply(self, batches: Iterable[Batch]) -> None:
        """Apply changes, in a commit each, while no other process writes.

        Another process may have been here: if the index has got to the position of a batch, or was
        made again and hasn't got to where the batch begins, nothing is done, and the snapshot tells
        where it is.
        """
        with self._writing() as writer:
            for batch in batches:
                current, meta = read_state(self._folder)
                if not batch.since <= current.seq < batch.position.seq:
                    continue
                replaced = {*batch.chunks, *batch.removed}
                _change(writer, batch, replaced)
                before = current if replaced else batch.position
                announced = Announcement(base=meta.opstamp, before=before, after=batch.position)
                announced.write(self._folder)
                if replaced:
                    writer.commit()
        self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """See the newest commit of any process; costs next to nothing if there is none."""
        with self._loading, tantivy_errors(self._folder):
            while self._seen != (seen := fingerprint(self._folder)):
                position, meta = read_state(self._folder)
                self._index.reload()
                snapshot = TantivySnapshot(
                    folder=self._folder,
                    searcher=self._index.searcher(),
                    position=position,
                    total=meta.total,
                    dead=meta.dead,
                    cache=self._cache,
                )
                if seen == fingerprint(self._folder):  # no commit came in between
                    self.snapshot, self._seen = snapshot, seen

    @contextmanager
    def _writing(self) -> Iterator[IndexWriter]:
        """Be the one writer; merges are finished and old files gone when it ends."""
        with tantivy_errors(self._folder):
            # an Index clears away only what it has made itself, or has found when it was opened
            try:
                writer = Index.open(str(self._folder)).writer(WRITER_HEAP, num_threads=1)
            except ValueError as exc:
                if "LockBusy" not in str(exc):
                    raise
                raise StoreBusyError(
                    f"another writer holds the text index {self._folder}; try again when it has "
                    "finished"
                ) from exc
            try:
                # what a killed writer left would be in the way of new files of the same names
                writer.garbage_collect_files()
                yield writer
            finally:
                writer.wait_merging_threads()


def _change(writer: IndexWriter, batch: Batch, replaced: Iterable[int]) -> None:
    if keys := sorted(replaced):
        gone = Query.term_set_query(search.index_schema(), search.KEY, keys)
        writer.delete_documents_by_query(gone)
    for key, (owner, terms) in batch.chunks.items():
        give_way()
        document = Document()
        document.add_integer(search.KEY, key)
        document.add_integer(search.DOCUMENT, owner)
        document.add_text(search.TERMS, terms)
        writer.add_document(document)
