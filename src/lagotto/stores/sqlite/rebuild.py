"""Rebuilding a base in a file; how is described in `sql/generations.py`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from lagotto._internal.concurrency import in_thread
from lagotto.errors import IndexUnavailableError, StoreBusyError
from lagotto.indexes.base import LogPosition, text_rules
from lagotto.indexes.updater import catch_up_all, delete_remote, retry_while_locked
from lagotto.stores.base import BaseConfig, Entry, WriteGuard
from lagotto.stores.sql.changelog import AnyIndex, SqlChangeLog
from lagotto.stores.sql.generations import SqlStaging, begin, kept_generations, write_next
from lagotto.stores.sql.read import counter
from lagotto.stores.sql.write import note_change, put_setting
from lagotto.stores.sqlite.fts5 import RULES_SETTING, Fts5Tables, fts5_generations, index_chunks

if TYPE_CHECKING:
    from lagotto.stores.sqlite.store import SqliteStore

log = logging.getLogger(__name__)

LOCK = ".rebuild.lock"


@asynccontextmanager
async def sqlite_staging(base: SqliteStore, config: BaseConfig) -> AsyncIterator[SqliteStaging]:
    """The next generation of a base; the former one is deleted once it has been replaced."""
    staging = SqliteStaging(base, config)
    with ExitStack() as stack:
        try:
            stack.enter_context(base.indexes.lock(timeout=0, name=LOCK))
        except StoreBusyError as exc:
            raise StoreBusyError(
                f"another process is rebuilding {base.location}; wait until it has finished"
            ) from exc
        await staging.prepare()
        try:
            yield staging
        finally:
            await in_thread(staging.indexes.close)
            if staging.switched:
                await staging.tidy_up()


class SqliteStaging(SqlStaging):
    """A Staging for SqliteStore: with FTS5 in the file, and indexes beside it."""

    def __init__(self, base: SqliteStore, config: BaseConfig) -> None:
        super().__init__(base, config, ask=base.ask, change=base.change)
        self._base = base
        self.indexes = base.search_indexes.open_for(config)
        self._former: Sequence[AnyIndex] = ()

    def begin(self, connection: Connection) -> None:
        begin(connection, self.config)
        if self.config.text_index == "fts5":
            Fts5Tables(connection, self.config.generation).create()
            put_setting(connection, RULES_SETTING, text_rules())

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        text_index, generation = self.config.text_index, self.config.generation
        prepared = await self._base.prepare_texts(entries, text_index)

        def change(connection: Connection) -> None:
            before = counter(connection, "change")
            parts, location = self.config, self.location
            write_next(connection, entries, config=parts, read=self.keys, location=location)
            if text_index == "fts5":
                last = LogPosition(counter(connection, "change"), 0)
                changes = SqlChangeLog(connection, head=last, generation=generation)
                index_chunks(changes, since=before, prepared=prepared)
            note_change(connection, generation)

        await self.change(change)

    async def update_indexes(self, *, least: int = 1) -> None:
        def update() -> None:
            with self._base.reading() as connection:
                changes = self._base.change_log(connection, self.config.generation)
                indexes, lock = self.indexes.by_role(), self._base.updater_lock
                catch_up_all(indexes, changes, lock=lock, least=least)

        await in_thread(retry_while_locked, update)

    async def build_indexes(self) -> None:
        # what was removed meanwhile belongs to the next commit
        await self.change(lambda connection: note_change(connection, self.config.generation))
        try:
            await self.update_indexes(least=0)
        except IndexUnavailableError as exc:  # it catches up once it is there; searches say so
            log.warning("an index of the next generation is not up to date: %s", exc)
        await in_thread(self.indexes.close)  # which saves the vectors

    async def switch(self) -> bool:
        self._former = list(self._base.search_indexes.open.by_role().values())
        return await super().switch()

    async def drop_former(self) -> None:
        await super().drop_former()
        await self.change(_drop_fts5)

    async def tidy_up(self) -> None:
        """Delete the former generation."""
        await self.drop_former()
        await in_thread(self._delete_indexes)

    def _delete_indexes(self) -> None:
        """Delete all indexes but those of the base as it is now.

        Searches that are still running have their files open. What still updates a former index
        would make it again, so it is waited for.
        """
        indexes = self._base.indexes
        self._base.finish_updates()
        used = {index.folder for index in self.indexes.by_role().values()}
        for folder in indexes.indexes():
            if folder not in used:
                indexes.delete(folder)
        delete_remote(self._former)


def _drop_fts5(connection: Connection) -> None:
    """Delete the tables of generations that are neither current nor next."""
    kept = kept_generations(connection)
    for generation in fts5_generations(connection):
        if generation not in kept or kept[generation].text_index != "fts5":
            Fts5Tables(connection, generation).drop()
