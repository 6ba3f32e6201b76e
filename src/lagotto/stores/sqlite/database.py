"""The SQLite file: opening it, recognising it, and saying clearly what is wrong with it."""

from __future__ import annotations

import shlex
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import URL, Connection, Engine, event, insert
from sqlalchemy import create_engine as create_sqlalchemy_engine
from sqlalchemy.exc import DBAPIError

from lagotto.concurrency import checkpoint, interruptible
from lagotto.errors import (
    ConfigError,
    EmbeddingError,
    NotABaseError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from lagotto.indexes.folder import usual_folder
from lagotto.locations import INDEX_MARKER
from lagotto.stores.sql.migrations import migrate
from lagotto.stores.sql.tables import SCHEMA_VERSION, Counter, Setting, Tables
from lagotto.stores.sql.write import start_history

T = TypeVar("T")

APPLICATION_ID = 0x4C41474F
"""`LAGO` in the header of the file tells a base from other SQLite files."""

SQLITE_HEADER = b"SQLite format 3\0"
BUSY_TIMEOUT = 30.0
BETWEEN_ATTEMPTS = 0.003
"""Seconds between two attempts to take the lock of the file."""
SHOWN = 100
"""Characters of a problem with the file that an error shows."""
COUNTERS = ("document", "chunk_set", "change", "state")

_PRAGMAS = (
    "foreign_keys = ON",
    "journal_mode = WAL",
    "synchronous = FULL",
    "mmap_size = 67108864",
)


def create_engine(path: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> Engine:
    """Connections to the file, in WAL mode; transactions start where SQLAlchemy says so."""
    engine = create_sqlalchemy_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": busy_timeout},
        max_overflow=-1,  # a search that waits for a connection may keep others from ending
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            # two processes that open a new file both turn it to WAL, and SQLite does not wait there
            _execute_when_free(connection, f"PRAGMA {pragma}", timeout=busy_timeout)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # the driver's own connection: SQLAlchemy's takes as long as the rest of opening a view
        driver: Any = connection.connection.driver_connection
        if connection.get_execution_options().get("writing", False):
            _begin_to_write(driver, timeout=busy_timeout)
        else:
            driver.execute("BEGIN")

    return engine


def _begin_to_write(driver: Any, *, timeout: float) -> None:
    """Take the lock of the file, trying often.

    SQLite itself tries ever more rarely, so that a process which writes all the time would keep the
    lock for itself; and it could not be cancelled meanwhile.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        _execute_when_free(driver, "BEGIN IMMEDIATE", timeout=timeout)
    finally:
        driver.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")


def _execute_when_free(driver: Any, statement: str, *, timeout: float) -> None:
    """Execute `statement`, again and again while another process has the lock."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            driver.execute(statement)
        except sqlite3.OperationalError as exc:
            if not _is_busy(exc) or time.monotonic() >= deadline:
                raise
            checkpoint()
            time.sleep(BETWEEN_ATTEMPTS)
        else:
            return


def _is_busy(error: sqlite3.Error) -> bool:
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


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


def schema_version(connection: Connection) -> int:
    """The version of the tables, 0 if there are none."""
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def prepare_schema(connection: Connection) -> None:
    """Create the tables of a new base, or bring those of an older one up to date."""
    version = schema_version(connection)
    if version == SCHEMA_VERSION:
        return
    if version == 0:
        Tables.metadata.create_all(connection)
        connection.execute(insert(Setting).values(name="base_id", value=uuid4().hex))
        connection.execute(insert(Counter), [{"name": name, "value": 0} for name in COUNTERS])
        start_history(connection)
    else:
        migrate(connection, version)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into StoreErrors that say what to do."""
    try:
        yield
    except DBAPIError as exc:
        if not isinstance(exc.orig, sqlite3.Error):
            raise
        raise _explained(path, exc.orig) from exc
    except sqlite3.Error as exc:
        raise _explained(path, exc) from exc


@contextmanager
def damage_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the contents of rows, such as invalid JSON, into a StoreError."""
    try:
        yield
    except ConfigError:
        raise
    except UnicodeEncodeError as exc:  # of a parameter: what is read would not decode
        raise ConfigError(f"{path}: {exc.object!r:.100} is not valid Unicode text") from exc
    except (ValueError, EmbeddingError) as exc:
        raise damaged(path, exc) from exc


def _explained(path: Path, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if _is_busy(error):
        return StoreBusyError(f"{path}: another process is writing; try again when it has ended")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE")):  # the latter also for a quota
        return StoreFullError(
            f"{path}: the disk is full ({error}); free some space and add the documents again "
            "(what was stored before is safe)"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreReadOnlyError(
            f"{path} can't be opened for writing ({error}); a base needs permission to write to "
            "its file and its folder"
        )
    if name.startswith("SQLITE_NOTADB"):
        return NotABaseError(f"{path} is not a Lagotto base: {error}; choose another name")
    if name.startswith("SQLITE_CORRUPT") or "decode to UTF-8" in str(error):
        return damaged(path, error)
    return StoreError(f"{path}: {error}")


def damaged(path: Path, problem: Exception) -> StoreDamagedError:
    """The error for a damaged file."""
    return StoreDamagedError(f"{path} is damaged ({str(problem)[:SHOWN]}); {ways_out(path)}")


def ways_out(path: Path) -> str:
    """What to do with a damaged file; never to delete it, since it may be the only copy."""
    return (
        "restore it from a backup, or save what can be read of it in another file: "
        f"`sqlite3 {shlex.quote(str(path))} .recover | sqlite3 recovered.db`"
    )


class DriverHandle:
    """The connection on which a cancelled task interrupts what runs in a thread."""

    def __init__(self) -> None:
        self._driver: Any = None

    def hold(self, connection: Connection) -> None:
        """Interrupt this connection from now on."""
        self._driver = connection.connection.driver_connection

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

    def __init__(self, connection: Connection, *, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()
        self._driver = DriverHandle()
        self._driver.hold(connection)

    async def ask(self, question: Callable[[Connection], T], *, brief: bool = False) -> T:
        def answer() -> T:
            with self._lock, damage_errors(self._path):
                return question(self._connection)

        return answer() if brief else await interruptible(answer, interrupt=self._driver.interrupt)
