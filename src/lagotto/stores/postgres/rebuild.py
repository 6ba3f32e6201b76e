"""Rebuilding a base on a server; how is described in `sql/generations.py`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from lagotto._internal.concurrency import in_thread
from lagotto.errors import StoreBusyError, StoreError
from lagotto.indexes.updater import delete_remote, retry_while_locked
from lagotto.stores.base import BaseConfig, Entry, LanguageCounts, WriteGuard
from lagotto.stores.postgres.database import (
    REBUILDER,
    SCHEMA,
    copy_rows,
    create_single,
    postgres_errors,
)
from lagotto.stores.postgres.schema import enforce_dimension, forget_dimensions
from lagotto.stores.postgres.text_index import (
    PostingSegment,
    add_entries,
    entry_segment,
    record_commit,
)
from lagotto.stores.postgres.vector_index import drop_graphs
from lagotto.stores.sql.generations import SqlStaging, begin, kept_generations, write_next

if TYPE_CHECKING:
    from lagotto.stores.postgres.store import PostgresStore

LOCK_TIMEOUT = 0.8
"""Seconds that a change of a table waits for running searches, while new ones wait for it. Less
than the second after which the server looks for deadlocks, and would end a search."""

_ONE_FORMER = text("SELECT number FROM segment WHERE generation <> ALL(:kept) LIMIT 1")
_DROP_POSTINGS = text("DELETE FROM posting WHERE segment = :number")
_DROP_SEGMENT = text("DELETE FROM segment WHERE number = :number")

log = logging.getLogger(__name__)


@asynccontextmanager
async def postgres_staging(
    base: PostgresStore, config: BaseConfig
) -> AsyncIterator[PostgresStaging]:
    """The next generation of a base; the former one is deleted once it has been replaced."""
    with postgres_errors(base.location):
        single = create_single(base.address).execution_options(isolation_level="AUTOCOMMIT")
        async with single.connect() as connection:  # holds the lock until it closes
            only_one = text(f"SELECT pg_try_advisory_lock({REBUILDER}, {SCHEMA}::int)")
            if not await connection.scalar(only_one):
                raise StoreBusyError(
                    f"another process is rebuilding {base.location}; wait until it has finished"
                )
            staging = PostgresStaging(base, config)
            await staging.prepare()
            try:
                yield staging
            finally:
                await in_thread(staging.indexes.close)
                if staging.switched:
                    await staging.drop_former()


class PostgresStaging(SqlStaging):
    """A Staging for PostgresStore: with postings and a graph in tables, or indexes elsewhere."""

    def __init__(self, base: PostgresStore, config: BaseConfig) -> None:
        super().__init__(base, config, ask=base.ask, change=base.change)
        self._base = base
        self.indexes = base.remote.open_for(config)

    async def prepare(self) -> None:
        await super().prepare()
        await self._if_free(partial(enforce_dimension, config=self.config))

    def begin(self, connection: Connection) -> None:
        begin(connection, self.config)
        statement = "INSERT INTO indexed (generation, chunks, terms) VALUES (:generation, 0, 0)"
        connection.execute(text(statement), {"generation": self.config.generation})

    async def write(self, entries: Sequence[Entry], *, guard: WriteGuard | None = None) -> None:
        segment: PostingSegment | None = None
        counts = await self._base.language_counts([entry.document for entry in entries])
        if self.indexes.text is None:
            segment = await in_thread(entry_segment, entries, counts)
        await self.change(partial(self._write, entries=entries, segment=segment, counts=counts))
        await self._base.merge_segments(self.config.generation)

    def _write(
        self,
        connection: Connection,
        entries: Sequence[Entry],
        segment: PostingSegment | None,
        counts: LanguageCounts,
    ) -> None:
        made, numbers = write_next(
            connection,
            entries,
            config=self.config,
            read=self.keys,
            location=self.location,
            put=copy_rows,
        )
        if segment is not None and len(made) < len(entries):  # others have changed meanwhile
            segment = entry_segment(made, counts)
        generation = self.config.generation
        added = add_entries(connection, made, numbers.chunks, segment, generation=generation)
        record_commit(connection, added={generation: added}, generation=generation)

    async def update_indexes(self, *, least: int = 1) -> None:
        if self.indexes.by_role():
            generation = self.config.generation
            work = partial(self._base.remote.catch_up_next, self.indexes, generation)
            await in_thread(retry_while_locked, work)

    async def build_indexes(self) -> None:
        # what was removed meanwhile belongs to the next commit
        await self.change(partial(record_commit, generation=self.config.generation))
        await self.update_indexes()
        if self.indexes.vectors is None:
            await self._base.settle(self.config)

    async def switch(self) -> bool:
        former = list(self._base.remote.open.by_role().values())
        if not await super().switch():
            return False
        await self._base.config()  # which opens the indexes
        await in_thread(delete_remote, former)
        return True

    async def drop_former(self) -> None:
        await super().drop_former()
        while await self.change(_drop_segment):
            pass
        kept = await self.ask(kept_generations)
        await self._if_free(partial(forget_dimensions, kept=kept))
        try:
            with postgres_errors(self.location):
                await drop_graphs(create_single(self._base.address), kept=kept)
        except StoreError as exc:
            log.warning("a former graph of vectors could not be deleted: %s", exc)

    async def _if_free(self, change: partial[None]) -> None:
        """Change a table that searches read, unless they keep it too busy."""
        try:
            await self._base.change(change, wait=LOCK_TIMEOUT)
        except StoreBusyError as exc:
            log.info("a constraint of the vectors is left as it is: %s", exc)


def _drop_segment(connection: Connection) -> bool:
    """Delete the postings of a segment of a former generation; False if that was the last."""
    kept = [*kept_generations(connection)]
    number = connection.scalar(_ONE_FORMER, {"kept": kept})
    if number is not None:
        connection.execute(_DROP_POSTINGS, {"number": number})
        connection.execute(_DROP_SEGMENT, {"number": number})
        return True
    for table in ("gone", "indexed"):
        dropped = text(f"DELETE FROM {table} WHERE generation <> ALL(:kept)")
        connection.execute(dropped, {"kept": kept})
    return False
