"""The folder of the indexes beside the file: whose they are, and who may change them."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from lagotto.indexes.tantivy.disk import read_state
from lagotto.indexes.vectors.generations import SealedMeta

LOCK = ".lock"


@contextmanager
def index_lock(folder: Path, *, timeout: float) -> Iterator[None]:
    """The right to change the indexes in the folder; one process at a time has it.

    It is a lock on an empty SQLite file, which works everywhere and ends with the process. One
    that is not to be had in `timeout` seconds is a `sqlite3.OperationalError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / LOCK, timeout=timeout, isolation_level=None)
    with closing(connection):
        connection.execute("BEGIN EXCLUSIVE")
        yield


def newest_stamp(folder: Path) -> int:
    """The greatest change number that an index in the folder knows of.

    It is beyond the last change of the base only if the base was put back to an older state.
    """
    texts = [_text_stamp(path) for path in folder.glob("text-*")]
    vectors = [_vector_stamp(path) for path in folder.glob("vectors-*/[0-9]*/meta.json")]
    return max([0, *texts, *vectors])


def wipe(folder: Path) -> None:
    """Remove a folder; out of the way first, since other processes may have files in it open."""
    aside = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}.old")
    with suppress(FileNotFoundError):
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Bytes in all files of a folder, of which some may vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total


def _text_stamp(folder: Path) -> int:
    with suppress(OSError, ValueError):
        return read_state(folder)[0]
    return 0


def _vector_stamp(meta: Path) -> int:
    with suppress(OSError, ValueError):
        return SealedMeta.model_validate_json(meta.read_bytes()).meta.stamp
    return 0
