"""Rebuilding a base: a second generation of chunks and vectors in the same tables.

Documents belong to the base; what is derived from them (sets of chunks, chunks, vectors, removals
and commits of the change log) carries the number of a generation. The setting `generation` says
which one searches see, and every statement that could see two of them asks for that one.

- A rebuild begins by storing what the next generation is made with, in one setting. If there is
  one when a rebuild begins, with the same parts, it goes on; otherwise its rows are dropped first.
- Documents are read, cut and embedded, and written to the next generation in small transactions:
  rows of chunks under the key of the document, which must be the one that was read. A generation
  has a change log of its own, with the numbers of the base, so that searches and indexes of the
  current one see nothing of it.
- Whoever writes or removes a document meanwhile deletes its row, and with it what both generations
  have of it. So a document lacks a set of the next generation exactly if something is to be done
  for it; removed chunks are in the logs of both.
- Indexes of the next generation follow its log, and have the generation in their names.
- The switch is one transaction that stores the settings, provided that no document lacks a set.
  Before it, a process that is killed leaves the base as it was; after it, other processes see
  another generation with the next state that they read, and open its indexes.
- Rows of former generations are deleted in batches, their indexes as a whole; a rebuild that
  begins does the same for what a killed one left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Self

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Document, Record
from lagotto.errors import StoreBusyError
from lagotto.indexes.base import text_rules
from lagotto.stores.base import BaseConfig, Entry, Store, Version, agreed_config
from lagotto.stores.sql import statements, write
from lagotto.stores.sql.changelog import read_head
from lagotto.stores.sql.indexes import IndexPair
from lagotto.stores.sql.read import counter, document_keys, read_config, read_sources, setting
from lagotto.stores.sql.statements import ReadConnection, Statement, Transaction, WriteConnection

NEXT = "next_generation"
"""The setting with the NextGeneration, while there is one."""

SETS_AT_ONCE = 500
"""Sets of chunks that are deleted in one transaction."""


class NextGeneration(Record):
    """What the next generation is made with: its parts, and the rules for terms."""

    config: BaseConfig
    rules: str


def read_next(connection: ReadConnection) -> BaseConfig | None:
    stored = setting(connection, NEXT)
    return NextGeneration.model_validate_json(stored).config if stored else None


def generation_configs(connection: ReadConnection) -> dict[int, BaseConfig]:
    """The current generation, and the next one if there is one."""
    configs = (read_config(connection), read_next(connection))
    return {config.generation: config for config in configs if config is not None}


def abandon_next(connection: WriteConnection) -> None:
    """Give up the next generation; its rows go with those of former ones."""
    write.delete_settings(connection, NEXT)


def _pending(connection: ReadConnection, generation: int) -> dict[tuple[str, str], int]:
    """The documents that a generation lacks, in order, with their keys."""
    rows = statements.DOCUMENTS_WITHOUT_SET.rows(connection, generation=generation)
    return {(collection, name): key for collection, name, key in rows}


_FORMER_SETS = Statement(
    "SELECT key FROM chunk_set WHERE NOT (generation IN (:generations key)) AND key > :after "
    "ORDER BY key LIMIT :most"
)
_DELETE_SETS = Statement("DELETE FROM chunk_set WHERE key IN (:keys key)")
_DELETE_LOG = [
    Statement(f"DELETE FROM {table} WHERE NOT (generation IN (:generations key))")
    for table in ("history", "removal")
]


def _drop_former(connection: WriteConnection, *, after: int) -> int | None:
    """Delete rows of generations that are neither current nor next, sets of chunks from a key on.

    Returns the last key, None if these were all: then what the log has of them goes, too.
    """
    generations = list(generation_configs(connection))
    keys = _FORMER_SETS.column(connection, generations=generations, after=after, most=SETS_AT_ONCE)
    _DELETE_SETS.run(connection, keys=keys)
    if len(keys) == SETS_AT_ONCE:
        return int(keys[-1])
    for statement in _DELETE_LOG:
        statement.run(connection, generations=generations)
    return None


class SqlStaging(ABC):
    """What a Staging in the tables of a base does whatever the database.

    `ask` reads the latest state of the base, `change` changes it while nobody else writes.
    """

    put: write.Insert = staticmethod(write.insert_rows)
    indexes: IndexPair

    def __init__(
        self, base: Store, config: BaseConfig, *, ask: Transaction, change: Transaction
    ) -> None:
        self.location = base.location
        self.update = base.update  # the documents are those of the base
        self.config = config
        self._stored = NextGeneration(config=config, rules=text_rules()).model_dump_json()
        self.switched = False
        self.ask, self.change = ask, change
        self.keys: dict[tuple[str, str], int] = {}
        """The documents that were lacking when that was last asked, with the keys of their rows."""

    @abstractmethod
    def locked(self) -> AbstractAsyncContextManager[bool]:
        """Hold the lock of whoever rebuilds the base if it is free, and say whether it was."""

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[Self]:
        """It, begun or resumed; the former generation is deleted once it has been replaced."""
        async with self.locked() as free:
            if not free:
                raise StoreBusyError(
                    f"another process is rebuilding {self.location}; wait until it has finished"
                )
            await self.prepare()
            try:
                yield self
            finally:
                await in_thread(self.indexes.close)
                if self.switched:
                    await self.drop_former()

    async def prepare(self) -> None:
        """Resume a rebuild with the same parts, or begin a new one."""

        def can_resume(connection: ReadConnection) -> bool:
            """If there is one with these parts, whose log indexes can still follow."""
            if setting(connection, NEXT) != self._stored:
                return False
            change, _ = read_head(connection, self.config.generation)
            return change > counter(connection, "change") - write.CHANGES_KEPT

        resumed = await self.ask(can_resume)
        if not resumed:
            await self.change(abandon_next)
        await self.drop_former()
        if not resumed:
            await self.change(self.begin)

    def begin(self, connection: WriteConnection) -> None:
        """Begin the next generation; there are no rows of another."""
        write.put_setting(connection, NEXT, self._stored)
        write.note_change(connection, self.config.generation)

    def write_chunks(
        self, connection: WriteConnection, entries: Sequence[Entry]
    ) -> tuple[Sequence[Entry], write.Numbers]:
        """Store what it has of documents that are still the ones that were read.

        Returns these entries, and their numbers.
        """
        for entry in entries:
            agreed_config(self.config, entry, location=self.location)
        stored = document_keys(connection, [entry.document for entry in entries])
        names = {name for name, key in stored.items() if key == self.keys.get(name)}
        same = [entry for entry in entries if entry.document.ref in names]
        numbers = write.Numbers(
            [stored[entry.document.ref] for entry in same],
            write.take_range(connection, "chunk_set", len(same)),
            write.take_range(connection, "change", sum(len(entry.chunks) for entry in same)),
        )
        options: dict[str, Any] = {"generation": self.config.generation, "put": self.put}
        write.write_chunks(connection, same, numbers=numbers, **options)
        return same, numbers

    async def drop_former(self) -> None:
        """Delete the rows of former generations, in batches."""
        after: int | None = 0
        while after is not None:
            after = await self.change(partial(_drop_former, after=after))

    async def pending(self) -> list[tuple[str, str]]:
        self.keys = await self.ask(partial(_pending, generation=self.config.generation))
        return list(self.keys)

    async def documents(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self.ask(partial(read_sources, names=names))

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        """None: what is written to it is what it lacks."""
        return {}

    async def switch(self) -> bool:
        def switch(connection: WriteConnection) -> bool:
            if _pending(connection, self.config.generation):
                return False
            write.put_config(connection, self.config)
            abandon_next(connection)
            write.note_change(connection)
            return True

        self.switched = await self.change(switch)
        return self.switched
