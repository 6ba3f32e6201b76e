"""The file for SQLAlchemy: all that writes, and what is read by expressions of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, event
from sqlalchemy import create_engine as create_sqlalchemy_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from lagotto.stores.sqlite.connections import BUSY_TIMEOUT, connect, execute_when_free


def create_engine(file: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> Engine:
    """An engine whose transactions start where SQLAlchemy says so."""
    engine = create_sqlalchemy_engine(
        "sqlite://",
        creator=partial(connect, file, busy_timeout=busy_timeout),
        poolclass=QueuePool,
        max_overflow=-1,  # one that waits for a connection may keep others from ending
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        driver = driver_of(connection)
        if connection.get_execution_options().get("writing", False):
            _begin_to_write(driver, timeout=busy_timeout)
        else:
            driver.execute("BEGIN")

    return engine


def _begin_to_write(driver: sqlite3.Connection, *, timeout: float) -> None:
    """Take the lock of the file, trying often.

    SQLite itself tries ever more rarely, so that a process which writes all the time would keep the
    lock for itself; and it could not be cancelled meanwhile.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        execute_when_free(driver, "BEGIN IMMEDIATE", timeout=timeout)
    finally:
        driver.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")


@contextmanager
def transaction(engine: Engine, *, writing: bool = False) -> Iterator[Connection]:
    """A transaction, committed at the end."""
    with driver_errors(), engine.execution_options(writing=writing).begin() as connection:
        yield connection


@contextmanager
def driver_errors() -> Iterator[None]:
    """Raise the errors of SQLite as they are, without SQLAlchemy's around them."""
    try:
        yield
    except DBAPIError as exc:
        if not isinstance(exc.orig, sqlite3.Error):
            raise
        raise exc.orig from exc


def driver_of(connection: Connection) -> sqlite3.Connection:
    """The connection of the sqlite3 module below one of SQLAlchemy."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver
