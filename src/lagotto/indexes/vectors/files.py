"""The base on disk: a folder per generation, complete before it gets its name.

A generation is written under a name that ends in `.part`, synced, and renamed to its number;
only then are older ones removed. So after a crash at any point the newest numbered folder is a
whole generation, the old one or the new. Processes that have an older one mapped keep it: the
system frees its files when the last of them closes it.
"""

from __future__ import annotations

import mmap
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lagotto.documents import Record
from lagotto.errors import IndexDamagedError
from lagotto.indexes.base import START, LogPosition
from lagotto.indexes.folder import file_errors, sync_folder, write_file
from lagotto.indexes.vectors.rows import (
    MatrixSnapshot,
    RowChecksums,
    RowLookup,
    VectorSegment,
    rows_per_block,
)
from lagotto.indexes.vectors.sketch import WORD, Frame, Sketch

ROWS, SUMS, KEYS = "rows.f32", "checksums.u32", "keys.i64"
FRAME, CODES = "frame.f32", "sketch.u64"
META = "meta.json"
PART = ".part"

BYTES_READ = 1 << 20


class Mark(Record):
    """What a file is recognised by: its size and a checksum."""

    size: int
    checksum: int

    @classmethod
    def of(cls, path: Path) -> Mark:
        checksum = 0
        with path.open("rb", buffering=0) as file:
            while part := file.read(BYTES_READ):
                checksum = zlib.crc32(part, checksum)
        return cls(size=path.stat().st_size, checksum=checksum)


class Meta(Record):
    """What a generation holds; `words` of 64 bits per row are in its sketch, 0 without one.

    `files` has the marks of all files but the rows, whose blocks have checksums in a file of their
    own. Earlier versions had none; such an index is rebuilt.
    """

    format: Literal["lagotto vectors"] = "lagotto vectors"
    version: Literal[3] = 3
    model_id: str
    dimension: int = Field(ge=1)
    count: int = Field(ge=0)
    words: int = Field(ge=0)
    stamp: int
    token: int
    files: dict[str, Mark]


class SealedMeta(Record):
    """A generation's description with its own checksum."""

    meta: Meta
    checksum: int

    @classmethod
    def of(cls, meta: Meta) -> SealedMeta:
        return cls(meta=meta, checksum=zlib.crc32(meta.model_dump_json().encode()))


Generation = tuple[VectorSegment, LogPosition]
"""A base as read from disk, and the position of its last change."""


def write_generation(
    folder: Path, snapshot: MatrixSnapshot, *, model_id: str, position: LogPosition
) -> Path:
    """Write all that is in `snapshot` as the newest generation, and remove the older ones."""
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{'[0-9]' * 8}{PART}"):
            shutil.rmtree(left)
        older = _generations(folder)
        number = int(older[0].name) + 1 if older else 1
        part = folder / f"{number:08}{PART}"
        try:
            _write_part(part, snapshot, model_id, position)
            written = part.rename(folder / f"{number:08}")
        except (OSError, IndexDamagedError):  # of the rows that are to be copied
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(folder)
        for path in older:
            with suppress(OSError):  # Windows can't delete mapped files; the next write will
                shutil.rmtree(path)
        return written


def _write_part(part: Path, snapshot: MatrixSnapshot, model_id: str, position: LogPosition) -> None:
    part.mkdir()
    keys, dimension = snapshot.keys, snapshot.dimension
    step, sums = rows_per_block(dimension), list[int]()

    def blocks() -> Iterator[memoryview]:
        for rows in snapshot.blocks():  # the checksums are not of what is read back
            sums.extend(zlib.crc32(rows[at : at + step].data) for at in range(0, len(rows), step))
            yield rows.data

    write_file(part / ROWS, blocks())
    write_file(part / KEYS, [keys.data])
    write_file(part / SUMS, [np.array(sums, "<u4").data])
    rows = map_array(part / ROWS, dtype="<f4", shape=(len(keys), dimension))
    sketch = Sketch.of(rows) if len(keys) > snapshot.tuning.exact_rows else None
    if sketch:
        write_file(part / FRAME, [sketch.frame.mean.data, sketch.frame.directions.data])
        write_file(part / CODES, [sketch.codes.data])
    meta = Meta(
        model_id=model_id,
        dimension=dimension,
        count=len(keys),
        words=sketch.frame.words if sketch else 0,
        stamp=position.seq,
        token=position.token,
        files={path.name: Mark.of(path) for path in part.iterdir() if path.name != ROWS},
    )
    write_file(part / META, [SealedMeta.of(meta).model_dump_json().encode()])
    sync_folder(part)


def read_newest(folder: Path, *, model_id: str, dimension: int) -> Generation:
    """The newest complete generation, an empty one if there is none.

    Raises IndexDamagedError if all of them are damaged.
    """
    problems: dict[Path, IndexDamagedError] = {}
    # Listed again each time: a writer may have replaced the one being read by a newer one.
    while untried := [path for path in _generations(folder) if path not in problems]:
        try:
            return read_generation(untried[0], model_id=model_id, dimension=dimension)
        except IndexDamagedError as exc:
            problems[untried[0]] = exc
    if problems:
        raise IndexDamagedError("; ".join(map(str, problems.values())))
    return VectorSegment.empty(dimension), START


def read_generation(path: Path, *, model_id: str, dimension: int) -> Generation:
    """One generation; IndexDamagedError says what is wrong with it."""
    try:
        sealed = SealedMeta.model_validate_json((path / META).read_bytes())
        meta = sealed.meta
        if sealed != SealedMeta.of(meta):
            raise IndexDamagedError(f"{path / META} is damaged: its checksum is wrong")
        if (meta.model_id, meta.dimension) != (model_id, dimension):
            raise IndexDamagedError(
                f"{path} holds vectors of {meta.model_id} ({meta.dimension} numbers), not of "
                f"{model_id} ({dimension})"
            )
        for name, mark in meta.files.items():
            if Mark.of(path / name) != mark:
                raise IndexDamagedError(f"{path / name} is damaged: wrong size or checksum")
        return _mapped(path, meta), LogPosition(meta.stamp, meta.token)
    except (OSError, ValueError) as exc:
        raise IndexDamagedError(f"{path} can't be read: {exc}") from exc


def _mapped(path: Path, meta: Meta) -> VectorSegment:
    keys = map_array(path / KEYS, dtype="<i8", shape=(meta.count,))
    rows = map_array(path / ROWS, dtype="<f4", shape=(meta.count, meta.dimension))
    blocks = -(-meta.count // rows_per_block(meta.dimension))
    sums = map_array(path / SUMS, dtype="<u4", shape=(blocks,))
    checksums = RowChecksums(rows, sums, path=path / ROWS)
    sketch = None
    if meta.words:
        lines = 1 + meta.words * WORD
        frame = map_array(path / FRAME, dtype="<f4", shape=(lines, meta.dimension))
        codes = map_array(path / CODES, dtype="<u8", shape=(meta.words, meta.count))
        sketch = Sketch(Frame(frame[0], frame[1:]), codes)
    return VectorSegment(keys, rows, RowLookup(keys), sketch=sketch, checksums=checksums)


def _generations(folder: Path) -> list[Path]:
    """The folders of all generations, newest first."""
    numbered = [path for path in folder.glob("[0-9]*") if path.name.isdecimal()]
    return sorted(numbered, key=lambda path: int(path.name), reverse=True)


def map_array(path: Path, *, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if 0 in shape:  # an empty file can't be mapped
        return np.empty(shape, dtype=dtype)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype=dtype).reshape(shape)
