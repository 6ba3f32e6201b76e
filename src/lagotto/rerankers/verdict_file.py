"""A file of verdicts by key: SQLite, shared by threads and processes, suspicious of its content."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from lagotto.errors import RerankError
from lagotto.rerankers.base import Verdict

log = logging.getLogger(__name__)

T = TypeVar("T")
Verdicts = dict[bytes, Verdict | None]

KEYS_PER_QUERY = 500
BUSY_SECONDS = 60.0
TABLE = "CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, verdict TEXT, checksum BLOB)"

_adapter = TypeAdapter(Verdict | None)


class VerdictFile:
    """Verdicts filed under byte keys; it may forget, but never gives back a wrong one.

    The file is opened for each call, which costs far less than one model's verdict.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, keys: Collection[bytes]) -> Verdicts:
        """The verdicts that are there and whole."""
        return self._attempt(lambda: dict(self._rows(list(keys))))

    def write(self, verdicts: Mapping[bytes, Verdict | None]) -> None:
        """Keep `verdicts`, all of them or none, in place of any that had the same keys."""
        texts = {key: _adapter.dump_json(verdict).decode() for key, verdict in verdicts.items()}
        rows = [(key, text, _checksum(key, text)) for key, text in texts.items()]
        self._attempt(lambda: self._insert(rows))

    def _rows(self, keys: list[bytes]) -> Iterator[tuple[bytes, Verdict | None]]:
        with self._open() as connection:
            for start in range(0, len(keys), KEYS_PER_QUERY):
                some = keys[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, verdict, checksum FROM verdicts WHERE key IN ({marks})"
                for key, text, checksum in connection.execute(query, some):
                    with suppress(ValidationError, TypeError):
                        if checksum == _checksum(key, text):
                            yield key, _adapter.validate_json(text)

    def _insert(self, rows: list[tuple[bytes, str, bytes]]) -> None:
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(TABLE)
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
            raise RerankError(
                f"the cache of verdicts {self._path} can't be used: {exc}; free it, delete it, or "
                "name another folder"
            ) from exc

    def _move_aside(self, reason: sqlite3.DatabaseError) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}")
        log.warning("%s is damaged (%s); moved to %s and begun anew", self._path, reason, aside)
        with suppress(FileNotFoundError):  # another process was quicker
            self._path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _checksum(key: bytes, text: str) -> bytes:
    return hashlib.blake2b(key + text.encode(), digest_size=8).digest()
