"""The files in the folder of a tantivy index: its segments, its position, its errors."""

from __future__ import annotations

import errno
import math
import mmap
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from lagotto.documents import Record
from lagotto.errors import (
    IndexDamagedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    native_panics,
)
from lagotto.indexes.base import START, LogPosition
from lagotto.indexes.folder import NO_PERMISSION, NO_SPACE, sync_folder, write_file

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
        made = folder / f"{ANNOUNCEMENT}.new"
        write_file(made, [self.model_dump_json().encode()])
        made.replace(folder / ANNOUNCEMENT)
        sync_folder(folder)


def read_state(folder: Path) -> tuple[LogPosition, TantivyMeta]:
    """The last change that the index holds, and its segments.

    With a commit in between by another process the number is too small, never too large: the
    announcement has to be read first.
    """
    if not (folder / ANNOUNCEMENT).exists() and (meta := TantivyMeta.read(folder)).opstamp == 0:
        return START, meta
    announced = Announcement.read(folder)
    meta = TantivyMeta.read(folder)
    return announced.before if meta.opstamp == announced.base else announced.after, meta


def fingerprint(folder: Path) -> tuple[int, ...]:
    """Changes with each commit, merge and announcement, which all replace a file by a new one."""
    numbers: list[int] = []
    for path in (folder / META, folder / ANNOUNCEMENT):
        if path.exists():
            found = path.stat()
            numbers += (found.st_ino, found.st_mtime_ns, found.st_size)
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


@contextmanager
def tantivy_errors(folder: Path) -> Iterator[None]:
    """Turn whatever goes wrong with the index in `folder` into StoreErrors or IndexDamagedError.

    A full disk, missing rights and the like are no fault of the index. The rest is.
    """
    try:
        with native_panics(f"the text index {folder} is damaged: tantivy", IndexDamagedError):
            yield
    except (ValueError, OSError) as exc:
        found = _NUMBER.search(str(exc))
        number = int(found[1] or found[2]) if found else None
        if isinstance(exc, OSError):
            number = exc.errno
        problem: Exception = IndexDamagedError(f"the text index {folder} is damaged: {exc}")
        if number in NO_SPACE:
            what = f"the text index {folder} can't grow: {exc}; free some disk space"
            problem = StoreFullError(what)
        elif number in NO_PERMISSION:
            what = f"the text index {folder} can't be written: {exc}; check rights"
            problem = StoreReadOnlyError(what)
        elif number in _NO_RESOURCES:
            problem = StoreError(f"the text index {folder} can't be used: {exc}; raise the limit")
        raise problem from exc


_NUMBER = re.compile(r"os error (\d+)|Os \{ code: (\d+)")
_NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
