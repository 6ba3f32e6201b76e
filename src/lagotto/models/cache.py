"""A key-value cache in a SQLite file, shared by threads and processes, with checksums."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lagotto.errors import LagottoError

log = logging.getLogger(__name__)

T = TypeVar("T")

KEYS_PER_QUERY = 500
BUSY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DiskCache:
    """A cache of bytes by key; it may lose values, but never returns a wrong one.

    The file is opened for each call, which costs far less than computing a value. `table` holds the
    values, `what` names the cache in messages, and problems are raised as `failure`.
    """

    path: Path
    table: str
    what: str
    failure: type[LagottoError]

    def read(self, keys: Collection[bytes]) -> dict[bytes, bytes]:
        return self._attempt(lambda connection: dict(self._rows(connection, list(keys))))

    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Store `values` in one transaction, replacing those with the same keys."""
        rows = [(key, value, _checksum(key, value)) for key, value in values.items()]
        insert = f"INSERT OR REPLACE INTO {self.table} VALUES (?, ?, ?)"
        self._attempt(lambda connection: connection.executemany(insert, rows))

    def _rows(
        self, connection: sqlite3.Connection, keys: list[bytes]
    ) -> Iterator[tuple[bytes, bytes]]:
        for start in range(0, len(keys), KEYS_PER_QUERY):
            some = keys[start : start + KEYS_PER_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT * FROM {self.table} WHERE key IN ({marks})"
            for key, value, checksum in connection.execute(query, some):
                if isinstance(value, bytes) and checksum == _checksum(key, value):
                    yield key, value

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as connection, connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self.table}"
                " (key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL)"
            )
            return action(connection)

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run `action`; if the file is damaged, move it aside and run it again on a new one."""
        try:
            try:
                return self._run(action)
            except sqlite3.DatabaseError as exc:
                if isinstance(exc, sqlite3.OperationalError):  # locked, read-only, disk full
                    raise
                self._move_aside(exc)
                return self._run(action)
        except (sqlite3.Error, OSError) as exc:
            raise self.failure(
                f"can't use the {self.what} {self.path}: {exc}; free or delete the file, or "
                "choose another folder"
            ) from exc

    def _move_aside(self, reason: sqlite3.DatabaseError) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        message = "the %s %s is damaged (%s); moved it to %s and started a new one"
        log.warning(message, self.what, self.path, reason, aside)
        with suppress(FileNotFoundError):  # another process was faster
            self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=8).digest()
