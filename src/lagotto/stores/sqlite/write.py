"""The file for SQLAlchemy: its tables, and all that writes to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Connection, Engine, event, insert
from sqlalchemy import create_engine as create_sqlalchemy_engine
from sqlalchemy.exc import DBAPIError, NoResultFound
from sqlalchemy.pool import QueuePool

from lagotto.documents import Document
from lagotto.filters import Filter
from lagotto.indexes.base import LogPosition, text_rules
from lagotto.indexes.registry import IndexChoice
from lagotto.stores.base import BaseConfig, Entry, WriteGuard
from lagotto.stores.sql import SCHEMA_VERSION, migrate
from lagotto.stores.sql import write as sql
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.filters import matching_names
from lagotto.stores.sql.generations import abandon_next
from lagotto.stores.sql.read import counter, document_keys, read_config, setting
from lagotto.stores.sql.tables import Counter, Tables
from lagotto.stores.sqlite import database, fts5


def create_engine(file: Path, *, busy_timeout: float = database.BUSY_TIMEOUT) -> Engine:
    """An engine whose transactions have the lock of the file."""

    def connected() -> sqlite3.Connection:
        driver = database.connect(file, busy_timeout=busy_timeout)
        driver.text_factory = database.text_or_bytes
        return driver

    engine = create_sqlalchemy_engine(
        "sqlite://",
        creator=connected,
        poolclass=QueuePool,
        max_overflow=-1,  # one that waits for a connection may keep others from ending
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """Try often to take the lock.

        SQLite itself tries ever more rarely, so that a process which writes all the time would keep
        the lock for itself; and it could not be cancelled meanwhile.
        """
        driver = driver_of(connection)
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            timeout = connection.get_execution_options().get("timeout", busy_timeout)
            database.execute_when_free(driver, "BEGIN IMMEDIATE", timeout=timeout)
        finally:
            driver.execute(f"PRAGMA busy_timeout = {int(busy_timeout * 1000)}")

    return engine


@contextmanager
def transaction(engine: Engine, *, timeout: float) -> Iterator[Connection]:
    """A transaction, committed at the end; `timeout` is for the lock of the file.

    Errors of SQLite are raised as they are, without SQLAlchemy's around them.
    """
    try:
        with engine.execution_options(timeout=timeout).begin() as connection:
            yield connection
    except DBAPIError as exc:
        if not isinstance(exc.orig, sqlite3.Error):
            raise
        raise exc.orig from exc
    except NoResultFound as exc:
        raise sqlite3.DatabaseError("a row is missing that every base has") from exc


def driver_of(connection: Connection) -> sqlite3.Connection:
    """The connection of the sqlite3 module below one of SQLAlchemy."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def rebuild_fts5(connection: Connection) -> None:
    """Index all chunks again; what a rebuild has made so far has other terms as well."""
    tables = fts5.Fts5Tables(connection, read_config(connection).generation)
    tables.drop()
    tables.create()
    sql.put_setting(connection, fts5.RULES_SETTING, text_rules())
    fts5.index_chunks(SqlChangeLog(connection), since=0, prepared={})
    abandon_next(connection)


COUNTERS = ("document", "chunk_set", "change", "state")


def prepare_schema(connection: Connection, *, copy_of: str | None = None) -> None:
    """Create the tables of a new base, or bring those of an older one up to date.

    A new base is an unfinished copy if `copy_of` names its source.
    """
    version = database.schema_version(connection)
    if version == SCHEMA_VERSION:
        return
    if version == 0:
        Tables.metadata.create_all(connection)
        sql.put_setting(connection, "base_id", uuid4().hex)
        sql.put_config(connection, BaseConfig())
        connection.execute(insert(Counter), [{"name": name, "value": 0} for name in COUNTERS])
        sql.start_history(connection)
        if copy_of is not None:
            sql.mark_copy(connection, copy_of)
    else:
        migrate(connection, version)
    connection.exec_driver_sql(f"PRAGMA application_id = {database.APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")


def prepare_indexes(connection: Connection, indexes: IndexChoice) -> None:
    """Store the indexes of a new base; create or rebuild the one inside the file."""
    if setting(connection, "text_index") is None:
        sql.put_setting(connection, "text_index", str(indexes.text))
        sql.put_setting(connection, "vector_index", str(indexes.vectors))
    if indexes.text == "fts5" and not fts5.is_current(connection):
        rebuild_fts5(connection)


def write(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    prepared: fts5.PreparedTexts,
    location: str,
    guard: WriteGuard | None = None,
) -> None:
    config, _ = sql.check_config(connection, entries, location)
    documents = [entry.document for entry in entries]
    sql.check_guard(connection, guard, documents)
    former = document_keys(connection, documents)
    before = counter(connection, "change")
    _remove(connection, list(former.values()))
    numbers = sql.number_entries(connection, entries)
    generation = config.generation
    sql.write_entries(connection, entries, numbers=numbers, generation=generation)
    if config.text_index == "fts5":
        last = LogPosition(counter(connection, "change"), 0)
        fts5.index_chunks(SqlChangeLog(connection, head=last), since=before, prepared=prepared)
    sql.note_change(connection)


def update(
    connection: Connection, documents: Sequence[Document], *, guard: WriteGuard | None = None
) -> None:
    sql.check_guard(connection, guard, documents)
    sql.update_documents(connection, documents)
    sql.note_change(connection)


def delete(connection: Connection, where: Filter) -> list[str]:
    """Delete the documents that match; their ids."""
    found = matching_names(connection, where)
    _remove(connection, [document.key for document in found])
    if found:
        sql.note_change(connection)
    return [document.id for document in found]


def _remove(connection: Connection, keys: Sequence[int]) -> None:
    """Remove documents, with what every generation has of them."""
    for generation in fts5.fts5_generations(connection) if keys else ():
        fts5.Fts5Tables(connection, generation).remove(keys)
    sql.note_removals(connection, keys)
    sql.remove_documents(connection, keys)
