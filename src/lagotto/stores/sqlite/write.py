"""The tables of a file, all that writes to them, and the next generation."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from lagotto._internal.concurrency import in_thread
from lagotto.errors import IndexUnavailableError
from lagotto.filters import Filter
from lagotto.indexes.base import text_rules
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.updater import delete_remote, retry_while_locked
from lagotto.stores.base import BaseConfig, Entry, WriteGuard
from lagotto.stores.sql import SCHEMA_VERSION, migrate
from lagotto.stores.sql import write as sql
from lagotto.stores.sql.changelog import AnyIndex
from lagotto.stores.sql.filters import matching_keys
from lagotto.stores.sql.generations import SqlStaging, abandon_next, generation_configs
from lagotto.stores.sql.read import document_keys, read_config, setting
from lagotto.stores.sql.statements import WriteConnection
from lagotto.stores.sqlite import database, fts5

if TYPE_CHECKING:
    from lagotto.stores.sqlite.store import SqliteStore

log = logging.getLogger(__name__)


COUNTERS = ("document", "chunk_set", "change", "state")


def prepare_schema(connection: WriteConnection, *, copy_of: str | None = None) -> None:
    """Create the tables of a new base, or bring those of an older one up to date.

    A new base is an unfinished copy if `copy_of` names its source.
    """
    version = database.schema_version(connection)
    if version == SCHEMA_VERSION:
        return
    if version == 0:
        _create_tables(connection)
        sql.put_setting(connection, "base_id", uuid4().hex)
        sql.put_config(connection, BaseConfig())
        counters = [{"name": name, "value": 0} for name in COUNTERS]
        sql.insert_rows(connection, "counter", counters)
        sql.start_history(connection)
        if copy_of is not None:
            sql.mark_copy(connection, copy_of)
    else:
        migrate(connection, version)
    connection.exec_driver_sql(f"PRAGMA application_id = {database.APPLICATION_ID}", ())
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}", ())


def _create_tables(connection: WriteConnection) -> None:
    """Only a new base needs SQLAlchemy."""
    from sqlalchemy.dialects import sqlite
    from sqlalchemy.schema import CreateIndex, CreateTable

    from lagotto.stores.sql.tables import Tables

    for table in Tables.metadata.sorted_tables:
        statements: list[CreateTable | CreateIndex] = [CreateTable(table)]
        for statement in (*statements, *map(CreateIndex, table.indexes)):
            connection.exec_driver_sql(str(statement.compile(dialect=sqlite.dialect())), ())


def prepare_indexes(connection: WriteConnection, indexes: IndexChoice) -> None:
    """Store the indexes of a new base; create or rebuild the one inside the file."""
    if setting(connection, "text_index") is None:
        sql.put_setting(connection, "text_index", str(indexes.text))
        sql.put_setting(connection, "vector_index", str(indexes.vectors))
    if indexes.text == "fts5" and not fts5.is_current(connection):
        # What a rebuild has made so far has other terms as well.
        tables = fts5.Fts5Tables(connection, read_config(connection).generation)
        tables.drop()
        tables.create()
        sql.put_setting(connection, fts5.RULES_SETTING, text_rules())
        tables.add(0, {})
        abandon_next(connection)


def write(
    connection: WriteConnection,
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
    _remove(connection, list(former.values()))
    numbers = sql.number_entries(connection, entries)
    generation = config.generation
    sql.write_entries(connection, entries, numbers=numbers, generation=generation)
    if config.text_index == "fts5":
        fts5.Fts5Tables(connection, generation).add(numbers.chunks.start - 1, prepared)
    sql.note_change(connection)


def delete(connection: WriteConnection, where: Filter) -> list[str]:
    """Delete the documents that match; their ids."""
    documents = matching_keys(connection, where)
    _remove(connection, list(documents.values()))
    if documents:
        sql.note_change(connection)
    return [name for _, name in documents]


def _remove(connection: WriteConnection, keys: Sequence[int]) -> None:
    """Remove documents, with what every generation has of them."""
    for generation in fts5.fts5_generations(connection) if keys else ():
        fts5.Fts5Tables(connection, generation).remove(keys)
    sql.note_removals(connection, keys)
    sql.remove_documents(connection, keys)


class SqliteStaging(SqlStaging):
    """A Staging for SqliteStore: with FTS5 in the file, and indexes beside it."""

    def __init__(self, base: SqliteStore, config: BaseConfig) -> None:
        super().__init__(base, config, ask=base.ask, change=base.change)
        self._base = base
        self.indexes = base.search_indexes.open_for(config)
        self._former: Sequence[AnyIndex] = ()

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[bool]:
        with self._base.indexes.try_lock(".rebuild.lock") as free:
            yield free

    def begin(self, connection: WriteConnection) -> None:
        super().begin(connection)
        if self.config.text_index == "fts5":
            fts5.Fts5Tables(connection, self.config.generation).create()
            sql.put_setting(connection, fts5.RULES_SETTING, text_rules())

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        text_index, generation = self.config.text_index, self.config.generation
        prepared = await self._base.prepare_texts(entries, text_index)

        def change(connection: WriteConnection) -> None:
            _, numbers = self.write_chunks(connection, entries)
            if text_index == "fts5":
                fts5.Fts5Tables(connection, generation).add(numbers.chunks.start - 1, prepared)
            sql.note_change(connection, generation)

        await self.change(change)

    async def update_indexes(self, *, least: int = 1) -> None:
        generation = self.config.generation
        work = partial(self._base.catch_up, self.indexes, generation=generation, least=least)
        await in_thread(retry_while_locked, work)

    async def build_indexes(self) -> None:
        # what was removed meanwhile belongs to the next commit
        await self.change(lambda connection: sql.note_change(connection, self.config.generation))
        try:
            await self.update_indexes(least=0)
        except IndexUnavailableError as exc:  # it catches up once it is there; searches say so
            log.warning("an index of the next generation is not up to date: %s", exc)
        await in_thread(self.indexes.close)  # which saves the vectors

    async def switch(self) -> bool:
        self._former = list(self._base.search_indexes.open.by_role().values())
        return await super().switch()

    async def drop_former(self) -> None:
        await self.change(_drop_fts5)  # first: its words would outlive the chunks in a crash
        await super().drop_former()
        if self.switched:
            await in_thread(self._delete_indexes)

    def _delete_indexes(self) -> None:
        """Delete all indexes but those of the base as it is now.

        Searches that are still running have their files open. What still updates a former index
        would make it again, so it is waited for.
        """
        indexes = self._base.indexes
        self._base.updater.finish()
        used = {index.folder for index in self.indexes.by_role().values()}
        for folder in indexes.indexes():
            if folder not in used:
                indexes.delete(folder)
        delete_remote(self._former)


def _drop_fts5(connection: WriteConnection) -> None:
    """Delete the tables of generations that are neither current nor next."""
    configs = generation_configs(connection)
    for generation in fts5.fts5_generations(connection):
        if generation not in configs or configs[generation].text_index != "fts5":
            fts5.Fts5Tables(connection, generation).drop()
