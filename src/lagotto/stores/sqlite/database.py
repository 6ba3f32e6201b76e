"""The file of a base: recognised, opened, discarded; its connections and errors."""

from __future__ import annotations

import shlex
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from lagotto import errors
from lagotto._internal.concurrency import checkpoint, interruptible
from lagotto._internal.locations import INDEX_MARKER
from lagotto.indexes.folder import file_errors, usual_folder
from lagotto.stores.sql import SCHEMA_VERSION, before_release, check_version
from lagotto.stores.sql.statements import ReadConnection, Statement

SHOWN = 100
"""Characters of a problem with the file that an error shows."""


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into StoreErrors that say what to do."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _explained(path, exc) from exc


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """The same, and what the file system raises."""
    with sqlite_errors(path), file_errors(path):
        yield


@contextmanager
def damage_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the contents of rows, such as invalid JSON, into a StoreError."""
    try:
        yield
    except errors.ConfigError:
        raise
    except UnicodeEncodeError as exc:  # of a parameter: what is read would not decode
        raise errors.ConfigError(
            f"{exc.object!r:.100} is not valid Unicode text; correct it"
        ) from exc
    except (ValueError, TypeError, OverflowError, errors.EmbeddingError) as exc:
        raise damaged(path, exc) from exc


def _explained(path: Path, error: sqlite3.Error) -> errors.StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if is_busy(error):
        return errors.StoreBusyError(
            f"{path}: another process is writing; try again when it has ended"
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE")):  # the latter also for a quota
        return errors.StoreFullError(
            f"{path}: the disk is full ({error}); free some space and add the documents again "
            "(what was stored before is safe)"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return errors.StoreReadOnlyError(
            f"{path} can't be opened for writing ({error}); a base needs permission to write to "
            "its file and its folder"
        )
    if name.startswith("SQLITE_NOTADB"):
        return errors.NotABaseError(f"{path} is not a Lagotto base: {error}; choose another name")
    if name.startswith("SQLITE_CORRUPT") or "decode to UTF-8" in str(error):
        return damaged(path, error)
    return errors.StoreError(f"{path}: {error}")


def damaged(path: Path, problem: Exception) -> errors.StoreDamagedError:
    return errors.StoreDamagedError(f"{path} is damaged ({str(problem)[:SHOWN]}); {ways_out(path)}")


def ways_out(path: Path) -> str:
    """What to do with a damaged file; never to delete it, since it may be the only copy."""
    return (
        "restore it from a backup, or save what can be read of it in another file: "
        f"`sqlite3 {shlex.quote(str(path))} .recover | sqlite3 recovered.db`"
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has the lock of the file."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


T = TypeVar("T")

BUSY_TIMEOUT = 30.0
BETWEEN_ATTEMPTS = 0.003
"""Seconds between two attempts to take the lock of the file."""

KEPT_OPEN = 5
"""Connections that a pool keeps for the next searches."""

LARGEST_LOG = 4 << 20
"""Bytes that SQLite writes to the write-ahead log before it copies them into the file. It does not
begin the log anew while others read, so it grows beside indexing, and would not shrink again.
"""

PRAGMAS = (
    # Of a new file. Five vectors of 384 numbers fit on such a page, two on one of 4 kB: a sixth of
    # a base. Pages of 16 kB take three times the writing.
    "page_size = 8192",
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


class SqliteConnection:
    """A ReadConnection that sees one state of the file, from the first statement on.

    In a transaction of `SqliteDatabase.writing` it also changes the file.
    """

    dialect = SimpleNamespace(name="sqlite")

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver

    def exec_driver_sql(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Any], /
    ) -> _Result:
        if not self.driver.in_transaction:
            self.driver.execute("BEGIN")
        try:
            run = self.driver.executemany if isinstance(parameters, list) else self.driver.execute
            cursor = run(statement, parameters)
            return _Result(cursor.description, cursor.fetchall(), cursor.rowcount)
        except sqlite3.OperationalError as exc:
            if "decode to UTF-8" not in str(exc) or self.driver.text_factory is text_or_bytes:
                raise
            self.driver.text_factory = text_or_bytes  # slower, so only where it is needed
            return self.exec_driver_sql(statement, parameters)

    def rollback(self) -> None:
        """End the transaction; the next query sees the latest state."""
        self.driver.rollback()


class _Result(NamedTuple):
    """What a statement gave; the first value of a column's description is its name."""

    description: Sequence[Sequence[Any]]
    rows: list[Sequence[Any]]
    rowcount: int

    def keys(self) -> list[str]:
        return [column[0] for column in self.description]

    def all(self) -> list[Sequence[Any]]:
        return self.rows


def text_or_bytes(stored: bytes) -> str | bytes:
    """A stored text; bytes, of which no record can be made, if it is not UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


class DriverHandle:
    """The connection on which a cancelled task interrupts what runs in a thread, if any."""

    def __init__(self) -> None:
        self.driver: sqlite3.Connection | None = None

    def interrupt(self) -> None:
        """End the statement that is running; it fails, but nobody waits for it any more."""
        driver = self.driver  # another thread may take it away
        if driver is not None:
            driver.interrupt()


class SqliteReader:
    """A RecordReader on a connection; what is not brief runs in a thread, one at a time."""

    def __init__(self, connection: SqliteConnection, *, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()

    async def ask(self, question: Callable[[SqliteConnection], T], *, brief: bool = False) -> T:
        def answer() -> T:
            with self._lock, file_errors(self._path), damage_errors(self._path):
                return question(self._connection)

        if brief:
            return answer()
        return await interruptible(answer, interrupt=self._connection.driver.interrupt)


APPLICATION_ID = 0x4C61676F
"""`Lago` in the header of the file tells a base from other SQLite files."""

BEFORE_RELEASE = 0x4C41474F
"""`LAGO`, which bases had before schema 1."""

SQLITE_HEADER = b"SQLite format 3\0"


class SqliteDatabase:
    """Connections to the file of a base, used again and again.

    They are those of the sqlite3 module: importing SQLAlchemy takes longer than a search in a small
    base, or than adding a document.
    """

    def __init__(self, file: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self._file = file
        self._busy_timeout = busy_timeout
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[SqliteConnection]:
        """A connection that reads, of which queries see one state of the file."""
        with self._lock:
            driver = self._idle.pop() if self._idle else None
        connection = SqliteConnection(
            driver or connect(self._file, busy_timeout=self._busy_timeout)
        )
        try:
            yield connection
        finally:
            self._release(connection)

    def _release(self, connection: SqliteConnection) -> None:
        keep = False
        try:
            connection.rollback()
            with self._lock:
                keep = not self._closed and len(self._idle) < KEPT_OPEN
                if keep:
                    self._idle.append(connection.driver)
        finally:
            if not keep:
                connection.driver.close()

    @contextmanager
    def writing(self, wait: float | None = None) -> Iterator[SqliteConnection]:
        """A transaction with the lock of the file, committed at the end.

        The lock is tried often: SQLite itself tries ever more rarely, so that a process which
        writes all the time would keep the lock for itself; and it could not be cancelled meanwhile.
        """
        timeout = self._busy_timeout if wait is None else wait
        with self.connection() as connection:
            driver = connection.driver
            driver.text_factory = text_or_bytes
            driver.execute("PRAGMA busy_timeout = 0")
            try:
                execute_when_free(driver, "BEGIN IMMEDIATE", timeout=timeout)
            finally:
                driver.execute(_wait(self._busy_timeout))
            yield connection
            driver.commit()
            driver.text_factory = str

    def shorten_log(self) -> None:
        """Empty a long write-ahead log, unless somebody is reading from it or writing."""
        log = self._file.with_name(f"{self._file.name}-wal")
        if log.exists() and log.stat().st_size > LARGEST_LOG:
            with self.connection() as connection:
                connection.driver.execute("PRAGMA busy_timeout = 0")
                connection.driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.driver.execute(_wait(self._busy_timeout))

    def close(self) -> None:
        """Close all connections that nobody uses; the others when they are released."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for driver in idle:
            driver.close()


def _wait(seconds: float) -> str:
    return f"PRAGMA busy_timeout = {int(seconds * 1000)}"


def recognise(path: Path) -> None:
    """Raise unless `path` is a base that this version can read, or can become one."""
    if path.is_dir():
        raise errors.NotABaseError(
            f"{path} is a folder; give the name of a file, such as {path}/kb.db"
        )
    if not path.parent.is_dir():
        raise errors.StoreError(f"there is no folder {path.parent}; create it first")
    if not path.exists():
        return
    if path.stat().st_size == 0:
        # An empty file becomes a new base, unless it has indexes: then it was one.
        folder = usual_folder(path)
        if (folder / INDEX_MARKER).exists():
            raise errors.StoreDamagedError(
                f"{path} is empty, but {folder} has indexes of a base of this name; restore the "
                "file from a backup, or choose another name for a new base"
            )
        return
    try:  # SQLite itself takes a file of a few bytes for an empty one, and writes over it
        with path.open("rb") as opened:
            header = opened.read(len(SQLITE_HEADER))
    except OSError as exc:
        raise errors.StoreReadOnlyError(
            f"{path} can't be read ({exc}); check its permissions"
        ) from exc
    if header != SQLITE_HEADER:
        raise errors.NotABaseError(f"{path} is not a Lagotto base; choose another name")
    with (
        sqlite_errors(path),
        damage_errors(path),
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file,
    ):
        application = file.execute("PRAGMA application_id").fetchone()[0]
        version = file.execute("PRAGMA user_version").fetchone()[0]
        tables = file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application == BEFORE_RELEASE:
        raise before_release(str(path))
    if application != APPLICATION_ID and tables:
        raise errors.NotABaseError(
            f"{path} is an SQLite file, but not a Lagotto base; choose another name"
        )
    if version != SCHEMA_VERSION:
        check_version(version, str(path))


def schema_version(connection: ReadConnection) -> int:
    """The version of the tables, 0 if there are none."""
    return int(Statement("PRAGMA user_version").scalar(connection))


def discard_if_empty(path: Path) -> bool:
    """Delete the file of a closed base that never had a document, unless it is in use.

    Whoever has the file open keeps its exclusive lock from being taken.
    """
    if usual_folder(path).exists():
        return False
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as file:
            file.execute("PRAGMA locking_mode = EXCLUSIVE")
            file.execute("PRAGMA journal_mode = DELETE")  # no -wal beside a file that is gone
            file.execute("BEGIN EXCLUSIVE")
            if file.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
                return False
            documents = "SELECT (SELECT count(*) FROM document) + (SELECT max(value) FROM counter)"
            if file.execute(documents).fetchone() != (0,):
                return False
            path.unlink()
    except sqlite3.Error:  # in use, or no base
        return False
    return True
