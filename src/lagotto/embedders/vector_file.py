"""A file of vectors by key: SQLite, shared by threads and processes, suspicious of its content."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from lagotto.documents import Vector
from lagotto.errors import EmbeddingError

log = logging.getLogger(__name__)

T = TypeVar("T")

KEYS_PER_QUERY = 500
BUSY_SECONDS = 60.0


class VectorFile:
    """Vectors filed under byte keys; it may forget, but never gives back a wrong vector.

    The file is opened for each call, which costs far less than one embedding.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, keys: Collection[bytes], *, dimension: int) -> dict[bytes, Vector]:
        """The vectors that are there, whole, and of that dimension."""
        return self._attempt(lambda: dict(self._rows(list(keys), dimension)))

    def write(self, vectors: Mapping[bytes, Vector]) -> None:
        """Keep `vectors`, in place of any that had the same keys."""
        blobs = {key: vector.astype("<f4").tobytes() for key, vector in vectors.items()}
        rows = [(key, blob, _checksum(key, blob)) for key, blob in blobs.items()]
        self._attempt(lambda: self._insert(rows))

    def _rows(self, keys: list[bytes], dimension: int) -> Iterator[tuple[bytes, Vector]]:
        with self._open() as connection:
            for start in range(0, len(keys), KEYS_PER_QUERY):
                some = keys[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, vector, checksum FROM vectors WHERE key IN ({marks})"
                for key, blob, checksum in connection.execute(query, some):
                    if checksum == _checksum(key, blob) and len(blob) == 4 * dimension:
                        yield key, np.frombuffer(blob, dtype="<f4").astype(np.float32)

    def _insert(self, rows: list[tuple[bytes, bytes, bytes]]) -> None:
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors"
                " (key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB NOT NULL)"
            )
            yield connection

    def _attempt(self, action: Callable[[], T]) -> T:
        """Do `action`; if the file is damaged, move it aside and do it on a new one."""
        try:
            try:
                return action()
            except sqlite3.DatabaseError as exc:
                if isinstance(exc, sqlite3.OperationalError):  # locked, read-only, disk full
                    raise
                self._move_aside(exc)
                return action()
        except (sqlite3.Error, OSError) as exc:
            raise EmbeddingError(
                f"the embedding cache {self._path} can't be used: {exc}; free it, delete it, or "
                "name another folder"
            ) from exc

    def _move_aside(self, reason: sqlite3.DatabaseError) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}")
        log.warning(
            "the embedding cache %s is damaged (%s); moved to %s and begun anew",
            self._path,
            reason,
            aside,
        )
        with suppress(FileNotFoundError):  # another process was quicker
            self._path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _checksum(key: bytes, blob: bytes) -> bytes:
    return hashlib.blake2b(key + blob, digest_size=8).digest()
