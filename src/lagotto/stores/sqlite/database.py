"""The file of a base: recognising it, and the ways into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lagotto.errors import NotABaseError, StoreDamagedError, StoreError, StoreReadOnlyError
from lagotto.indexes.folder import usual_folder
from lagotto.locations import INDEX_MARKER
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.queries import ReadConnection, SqlText
from lagotto.stores.sqlite.connections import (
    BUSY_TIMEOUT,
    ConnectionPool,
    SqliteConnection,
    connect,
)
from lagotto.stores.sqlite.errors import damage_errors, sqlite_errors

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

APPLICATION_ID = 0x4C41474F
"""`LAGO` in the header of the file tells a base from other SQLite files."""

SQLITE_HEADER = b"SQLite format 3\0"
CACHE_TIMEOUT = 0.05
"""Seconds that a search waits for other writers before it does without caching its chunks."""

_VERSION = SqlText("PRAGMA user_version")


class SqliteDatabase:
    """Connections to the file of a base.

    Searches use those of the sqlite3 module. SQLAlchemy is for the rest, and imported with its
    first transaction: that takes longer than a search in a small base.
    """

    def __init__(self, file: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self._file = file
        self._busy_timeout = busy_timeout
        self._pool = ConnectionPool(partial(connect, file, busy_timeout=busy_timeout))
        self._engines: dict[float, Engine] = {}

    def connection(self) -> AbstractContextManager[SqliteConnection]:
        """A connection that reads, of which queries see one state of the file."""
        return self._pool.connection()

    @contextmanager
    def transaction(self, *, writing: bool = False, caching: bool = False) -> Iterator[Connection]:
        """A transaction of SQLAlchemy; one for `caching` hardly waits for other writers."""
        from lagotto.stores.sqlite.engine import create_engine, transaction

        timeout = CACHE_TIMEOUT if caching else self._busy_timeout
        engine = self._engines.get(timeout)
        if engine is None:  # or another thread has been faster
            engine = self._engines.setdefault(
                timeout, create_engine(self._file, busy_timeout=timeout)
            )
        with transaction(engine, writing=writing) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections that nobody uses; the others when they are released."""
        self._pool.close()
        for engine in self._engines.values():
            engine.dispose()


def recognise(path: Path) -> None:
    """Raise unless `path` is a base that this version can read, or can become one."""
    if path.is_dir():
        raise NotABaseError(f"{path} is a folder; give the name of a file, such as {path}/kb.db")
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}; create it first")
    if not path.exists():
        return
    if path.stat().st_size == 0:
        _refuse_emptied(path)
        return
    _check_header(path)
    with (
        sqlite_errors(path),
        damage_errors(path),
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file,
    ):
        application = file.execute("PRAGMA application_id").fetchone()[0]
        version = file.execute("PRAGMA user_version").fetchone()[0]
        tables = file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and tables:
        raise NotABaseError(
            f"{path} is an SQLite file, but not a Lagotto base; choose another name"
        )
    if version > SCHEMA_VERSION:
        raise NotABaseError(
            f"{path} was made by a newer Lagotto (schema {version}, this one supports "
            f"{SCHEMA_VERSION}); upgrade Lagotto to open it"
        )


def _refuse_emptied(path: Path) -> None:
    """An empty file becomes a new base, unless it has indexes: then it was one."""
    folder = usual_folder(path)
    if (folder / INDEX_MARKER).exists():
        raise StoreDamagedError(
            f"{path} is empty, but {folder} has indexes of a base of this name; restore the file "
            "from a backup, or choose another name for a new base"
        )


def _check_header(path: Path) -> None:
    """SQLite itself takes a file of a few bytes for an empty one, and writes over it."""
    try:
        with path.open("rb") as file:
            header = file.read(len(SQLITE_HEADER))
    except OSError as exc:
        raise StoreReadOnlyError(f"{path} can't be read ({exc}); check its permissions") from exc
    if header != SQLITE_HEADER:
        raise NotABaseError(f"{path} is not a Lagotto base; choose another name")


def schema_version(connection: ReadConnection) -> int:
    """The version of the tables, 0 if there are none."""
    return int(_VERSION.scalar(connection))
