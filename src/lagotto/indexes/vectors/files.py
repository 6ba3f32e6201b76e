"""Files of numbers: written through to the disk, marked against damage, mapped into memory."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Record

BLOCK = 1 << 16
SAMPLES = 16


class Mark(Record):
    """What a file is recognised by: its size, and a checksum of all of it or of samples."""

    size: int
    checksum: int

    @classmethod
    def of(cls, path: Path, *, sampled: bool) -> Mark:
        """The mark of a file; samples are 16 blocks of 64 KiB, the first and the last included.

        Samples show that a file is of another kind, another time, cut off or never filled. They
        don't show a flipped bit between them.
        """
        size = path.stat().st_size
        offsets: Sequence[int] = range(0, size, BLOCK)
        if sampled and len(offsets) > SAMPLES:
            places = np.linspace(0, len(offsets) - 1, SAMPLES).astype(int).tolist()
            offsets = [offsets[place] for place in places]
        checksum = 0
        with path.open("rb", buffering=0) as file:
            for offset in offsets:
                file.seek(offset)
                checksum = zlib.crc32(file.read(BLOCK), checksum)
        return cls(size=size, checksum=checksum)


def write_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a new file, and return when it is on the disk."""
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system has a way to."""
    with suppress(PermissionError):  # Windows doesn't open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def map_array(path: Path, *, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """A file's numbers, read from it when they are used."""
    if 0 in shape:  # there is nothing to map in an empty file
        return np.empty(shape, dtype=dtype)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype=dtype).reshape(shape)
