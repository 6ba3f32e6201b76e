"""Indexes of a base on a server that are behind a network of their own, such as a Qdrant cluster.

They read the change log in a thread, over a connection of their own, one process at a time.
Writers of such a base write one after the other, each in one transaction that takes its numbers
too: so changes are committed in the order of their numbers, and an index that has come to a number
lacks nothing before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, Engine

from lagotto._internal.concurrency import in_thread
from lagotto.indexes.base import (
    Finding,
    IndexRole,
    IndexState,
    TextIndex,
    VectorIndex,
)
from lagotto.indexes.registry import (
    IndexChoice,
    IndexSite,
    chosen,
    open_text_index,
    open_vector_index,
)
from lagotto.indexes.updater import (
    IndexUpdater,
    catch_up_all,
)
from lagotto.stores.base import BaseConfig
from lagotto.stores.postgres.database import (
    Address,
    ReadTransaction,
    create_blocking,
    postgres_errors,
    updater_lock,
)
from lagotto.stores.sql.changelog import AnyIndex, SqlChangeLog
from lagotto.stores.sql.read import read_config, setting
from lagotto.stores.sql.view import refreshed

POSTINGS, PGVECTOR = "postings", "pgvector"
"""The indexes in tables, which a base on a server has unless it is made with others."""


class RemoteIndexes:
    """The remote indexes of a base, and the thread that brings them up to date.

    `indexes` lacks those that the base has in tables.
    """

    def __init__(
        self, address: Address, wanted: IndexChoice, *, location: str, timeout: float
    ) -> None:
        self._address = address
        self._wanted = wanted
        self.location = location
        self._timeout = timeout
        self._engine: Engine | None = None
        self.updater = IndexUpdater(self.catch_up)
        self.indexes: dict[IndexRole, AnyIndex] = {}
        self.base_id = ""
        self.choice = IndexChoice()
        self._opened_for: tuple[object, ...] | None = None

    @property
    def are_used(self) -> bool:
        """Whether the base has remote indexes."""
        return self.choice != IndexChoice()

    def pair(self) -> tuple[TextIndex[SqlChangeLog] | None, VectorIndex[SqlChangeLog] | None]:
        """The text index and the vector index; another thread may open others."""
        indexes = self.indexes
        text, vectors = indexes.get("text"), indexes.get("vectors")
        return (
            text if isinstance(text, TextIndex) else None,
            vectors if isinstance(vectors, VectorIndex) else None,
        )

    def adapt(self, config: BaseConfig, base_id: str) -> None:
        """Open the indexes that a base is made with, unless they are open."""
        self.base_id = base_id
        self.choice = choice = self._chosen(config)
        made_for = (config.generation, config.model_id, config.dimension, choice)
        if made_for == self._opened_for:
            return
        former, self._opened_for = self.indexes, made_for
        self.indexes = self.open_for(config, choice)
        for index in former.values():
            index.abandon()

    def open_for(
        self, config: BaseConfig, choice: IndexChoice | None = None
    ) -> dict[IndexRole, AnyIndex]:
        """The remote indexes of a generation of the base, opened; `choice` has their addresses."""
        opened: dict[IndexRole, AnyIndex] = {}
        choice = choice or _remote(config.text_index, config.vector_index)
        site = IndexSite(self.base_id, self._timeout, config.generation)
        if choice.text is not None:
            opened["text"] = open_text_index(replace(site, address=choice.text))
        if choice.vectors is not None and config.model_id and config.dimension:
            opened["vectors"] = open_vector_index(
                replace(site, address=choice.vectors),
                model_id=config.model_id,
                dimension=config.dimension,
            )
        return opened

    def _chosen(self, config: BaseConfig) -> IndexChoice:
        stored = (config.text_index or POSTINGS, config.vector_index or PGVECTOR)
        wanted = (self._wanted.text, self._wanted.vectors)
        text, vectors = (
            chosen(*pair, usual="", role=role, location=self.location)
            for role, pair in zip(("text", "vector"), zip(stored, wanted, strict=True), strict=True)
        )
        return _remote(text, vectors)

    def close(self) -> None:
        """Apply what is still to be applied, within a time limit, and close the connections."""
        self.updater.finish()
        for index in self.indexes.values():
            index.close()
        self.indexes, self._opened_for = {}, None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def catch_up(self, *, least: int = 0) -> None:
        """Bring the indexes to the head of the change log, if they lack `least` changes; blocks."""
        with postgres_errors(self.location), self._connection() as connection:
            self.adapt(read_config(connection), setting(connection, "base_id") or "")
            lock = partial(updater_lock, connection)
            catch_up_all(self.indexes, SqlChangeLog(connection), lock=lock, least=least)

    def catch_up_next(self, indexes: Mapping[IndexRole, AnyIndex], generation: int) -> None:
        """The same for indexes of the next generation."""
        with postgres_errors(self.location), self._connection() as connection:
            changes = SqlChangeLog(connection, generation=generation)
            catch_up_all(indexes, changes, lock=partial(updater_lock, connection))

    async def reset_other_histories(self, reader: ReadTransaction) -> None:
        """Discard indexes that are ahead of the base since a backup of it was restored."""

        def foreign(connection: Connection) -> list[AnyIndex]:
            changes = SqlChangeLog(connection)
            positions = ((index, index.position) for index in self.indexes.values())
            return [one for one, at in positions if changes.token_at(at.seq) != at.token]

        for index in await reader.ask(foreign):
            await in_thread(index.reset_if_at, index.position)

    def states(self, connection: Connection) -> Iterator[IndexState]:
        """How far each index has come, as far as it is known."""
        changes = SqlChangeLog(connection)
        for role, index in self.indexes.items():
            yield IndexState(
                role=role,
                kind=index.kind,
                applied_seq=index.applied_seq(changes),
                changes=changes.head.seq,
            )

    def unreachable(self) -> list[str]:
        """The indexes that can't be reached, and why; blocks."""
        problems = {index.kind: refreshed(index) for index in self.indexes.values()}
        return [f"{kind}: {problem}" for kind, problem in problems.items() if problem]

    def check(self) -> list[Finding]:
        """What is to be said of the indexes; blocks, and changes nothing."""
        with postgres_errors(self.location), self._connection() as connection:
            changes = SqlChangeLog(connection)
            return [one.check(changes) for one in self.indexes.values() if changes.head.seq]

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A transaction that sees one state of the base."""
        if self._engine is None:
            self._engine = create_blocking(self._address)
        one_state = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        with one_state.begin() as connection:
            yield connection


def _remote(text: str | None, vectors: str | None) -> IndexChoice:
    """Those of the chosen indexes that are not in tables."""
    return IndexChoice(
        None if text in (None, POSTINGS) else text, None if vectors in (None, PGVECTOR) else vectors
    )
