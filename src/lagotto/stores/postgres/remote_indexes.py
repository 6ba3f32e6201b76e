"""Indexes of a base on a server that are behind a network of their own, such as a Qdrant cluster.

They read the change log in a thread, over a connection of their own, one process at a time.
Writers of such a base write one after the other, each in one transaction that takes its numbers
too: so changes are committed in the order of their numbers, and an index that has come to a number
lacks nothing before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from sqlalchemy import Connection, Engine

from lagotto._internal.concurrency import in_thread
from lagotto.indexes.base import Finding, IndexRole
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.updater import IndexUpdater, catch_up_all
from lagotto.stores.postgres.database import (
    FOLLOWERS,
    Address,
    ReadTransaction,
    create_blocking,
    one_state,
    postgres_errors,
    try_lock,
)
from lagotto.stores.sql.changelog import AnyIndex, SqlChangeLog
from lagotto.stores.sql.indexes import IN_TABLES, IndexPair, StoreIndexes
from lagotto.stores.sql.read import read_config, setting
from lagotto.stores.sql.view import refreshed

POSTINGS, PGVECTOR = "postings", "pgvector"
"""The indexes in tables, which a base on a server has unless it is made with others."""


class RemoteIndexes(StoreIndexes):
    """The remote indexes of a base, and the thread that brings them up to date."""

    def __init__(self, address: Address, wanted: IndexChoice, *, timeout: float) -> None:
        usual = IndexChoice(POSTINGS, PGVECTOR)
        super().__init__(wanted, usual=usual, location=address.location, timeout=timeout)
        self._address = address
        self._engine: Engine | None = None
        self.updater = IndexUpdater(self.catch_up)

    @property
    def are_used(self) -> bool:
        """Whether the base has remote indexes."""
        return not {self.choice.text or POSTINGS, self.choice.vectors or PGVECTOR} <= IN_TABLES

    def close(self) -> None:
        """Apply what is still to be applied, within a time limit, and close the connections."""
        self.updater.finish()
        super().close()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def catch_up(self, *, least: int = 0) -> None:
        """Bring the indexes to the head of the change log, if they lack `least` changes; blocks."""
        with self._reading() as connection:
            self.place(setting(connection, "base_id") or "")
            self.adapt(read_config(connection))
            lock = partial(_updater_lock, connection)
            catch_up_all(self.open.by_role(), SqlChangeLog(connection), lock=lock, least=least)

    def catch_up_next(self, indexes: IndexPair, generation: int) -> None:
        """The same for indexes of the next generation."""
        with self._reading() as connection:
            changes = SqlChangeLog(connection, generation=generation)
            catch_up_all(indexes.by_role(), changes, lock=partial(_updater_lock, connection))

    async def reset_other_histories(self, reader: ReadTransaction) -> None:
        """Discard indexes that are ahead of the base since a backup of it was restored."""

        def foreign(connection: Connection) -> list[AnyIndex]:
            changes = SqlChangeLog(connection)
            positions = ((index, index.position) for index in self.open.by_role().values())
            return [one for one, at in positions if changes.token_at(at.seq) != at.token]

        for index in await reader.ask(foreign):
            await in_thread(index.reset_if_at, index.position)

    def unreachable(self) -> list[str]:
        """The indexes that can't be reached, and why; blocks."""
        problems = {index.kind: refreshed(index) for index in self.open.by_role().values()}
        return [f"{kind}: {problem}" for kind, problem in problems.items() if problem]

    def check_all(self) -> list[Finding]:
        """What is to be said of the indexes; blocks, and changes nothing."""
        with self._reading() as connection:
            return self.check(SqlChangeLog(connection))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the base."""
        if self._engine is None:
            self._engine = create_blocking(self._address)
        with postgres_errors(self.location), one_state(self._engine).begin() as connection:
            yield connection


@contextmanager
def _updater_lock(connection: Connection, role: IndexRole) -> Iterator[bool]:
    """Try to lock a remote index for an updater, until the end of the transaction.

    The transaction may see a state from before the lock was released: then the index is ahead of
    it, and the updater leaves it alone.
    """
    yield bool(connection.exec_driver_sql(try_lock(FOLLOWERS[role])).scalar())
