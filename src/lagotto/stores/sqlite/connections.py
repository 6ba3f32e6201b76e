"""Connections to the file by the sqlite3 module alone, and how a cancelled task interrupts them."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lagotto.concurrency import checkpoint, interruptible
from lagotto.stores.sql.queries import CompiledQuery, PlainConnection, QueryResult
from lagotto.stores.sqlite.errors import damage_errors, is_busy

T = TypeVar("T")

BUSY_TIMEOUT = 30.0
BETWEEN_ATTEMPTS = 0.003
"""Seconds between two attempts to take the lock of the file."""

KEPT_OPEN = 5
"""Connections that a pool keeps for the next searches."""

PRAGMAS = (
    "foreign_keys = ON",
    "journal_mode = WAL",
    "synchronous = FULL",
    "mmap_size = 67108864",
)


def connect(file: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """A connection to the file, in WAL mode, which any thread may use.

    Transactions begin where a statement says so.
    """
    driver = sqlite3.connect(
        file, timeout=busy_timeout, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in PRAGMAS:
            # two processes that open a new file both turn it to WAL, and SQLite does not wait there
            execute_when_free(driver, f"PRAGMA {pragma}", timeout=busy_timeout)
    except BaseException:
        driver.close()
        raise
    return driver


def execute_when_free(driver: sqlite3.Connection, statement: str, *, timeout: float) -> None:
    """Execute `statement`, again and again while another process has the lock."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            driver.execute(statement)
        except sqlite3.OperationalError as exc:
            if not is_busy(exc) or time.monotonic() >= deadline:
                raise
            checkpoint()
            time.sleep(BETWEEN_ATTEMPTS)
        else:
            return


class SqliteConnection(PlainConnection):
    """Reads one state of the file, from the first query on."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver

    def ask(self, query: CompiledQuery, values: Mapping[str, Any]) -> QueryResult:
        if not self.driver.in_transaction:
            self.driver.execute("BEGIN")
        bound = {name: _bound(value) for name, value in values.items()}
        cursor = self.driver.execute(query.sql, {**query.constants, **bound})
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
        return QueryResult(
            names, _decoded(rows, query.json_columns) if query.json_columns else rows
        )

    def rollback(self) -> None:
        """End the transaction; the next query sees the latest state."""
        self.driver.rollback()


def _bound(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple) else value


def _decoded(rows: Sequence[Sequence[Any]], json_columns: Sequence[int]) -> list[list[Any]]:
    decoded = [list(row) for row in rows]
    for row in decoded:
        for index in json_columns:
            if row[index] is not None:
                row[index] = json.loads(row[index])
    return decoded


class ConnectionPool:
    """Connections that read, used again and again; as many at a time as searches ask for."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[SqliteConnection]:
        """A connection without a transaction."""
        with self._lock:
            driver = self._idle.pop() if self._idle else None
        connection = SqliteConnection(driver or self._connect())
        try:
            yield connection
        finally:
            self._release(connection)

    def close(self) -> None:
        """Close the connections; those in use are closed when they are released."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for driver in idle:
            driver.close()

    def _release(self, connection: SqliteConnection) -> None:
        kept = False
        try:
            connection.rollback()
            with self._lock:
                kept = not self._closed and len(self._idle) < KEPT_OPEN
                if kept:
                    self._idle.append(connection.driver)
        finally:
            if not kept:
                connection.driver.close()


class DriverHandle:
    """The connection on which a cancelled task interrupts what runs in a thread."""

    def __init__(self, driver: sqlite3.Connection | None = None) -> None:
        self._driver = driver

    def hold(self, driver: sqlite3.Connection) -> None:
        """Interrupt this connection from now on."""
        self._driver = driver

    def release(self) -> None:
        """Interrupt nothing any more."""
        self._driver = None

    def interrupt(self) -> None:
        """End the statement that is running; it fails, but nobody waits for it any more."""
        driver = self._driver
        if driver is not None:
            driver.interrupt()


class SqliteReader:
    """A RecordReader on a connection; what is not brief runs in a thread, one at a time."""

    def __init__(self, connection: SqliteConnection, *, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()
        self._driver = DriverHandle(connection.driver)

    async def ask(self, question: Callable[[SqliteConnection], T], *, brief: bool = False) -> T:
        def answer() -> T:
            with self._lock, damage_errors(self._path):
                return question(self._connection)

        return answer() if brief else await interruptible(answer, interrupt=self._driver.interrupt)
