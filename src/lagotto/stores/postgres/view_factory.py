"""Opening a view: the state of the base, the chunks that a filter allows, remote indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine

from lagotto._internal.concurrency import in_thread
from lagotto.errors import StoreBusyError, StoreError
from lagotto.filters import Filter
from lagotto.indexes.base import Finding, IndexRole, LogPosition
from lagotto.indexes.registry import IndexChoice
from lagotto.indexes.updater import IndexUpdater, catch_up_all
from lagotto.stores.postgres import database
from lagotto.stores.postgres.native import SETTING, NativeIndexes, PostgresNative, parse_configs
from lagotto.stores.postgres.text_index import PostingsText, Statistics
from lagotto.stores.postgres.vector_index import GRAPH, PgVectors, keep_candidates
from lagotto.stores.sql.changelog import AnyIndex, SqlChangeLog
from lagotto.stores.sql.indexes import IN_TABLES, IndexPair, StoreIndexes
from lagotto.stores.sql.read import read_config, setting
from lagotto.stores.sql.statements import CURRENT, Statement
from lagotto.stores.sql.view import OwnParts, SqlView, State, ViewFactory

ATTEMPTS = 3  # how often an index that is ahead of the transaction is asked again
_STATE = f"""
SELECT name, value::text FROM counter
UNION ALL SELECT name, value FROM setting WHERE name IN ('dimension', 'generation', '{SETTING}')
UNION ALL SELECT 'graph', indisvalid::int::text FROM pg_index
WHERE indexrelid = to_regclass('{GRAPH}' || {CURRENT})
UNION ALL SELECT 'indexed_' || name, value::text FROM indexed,
    LATERAL (VALUES ('chunks', chunks), ('terms', terms)) AS counted (name, value)
WHERE generation = {CURRENT}
UNION ALL (
    SELECT 'token', token::text FROM history WHERE generation = {CURRENT}
    ORDER BY state DESC LIMIT 1
)
"""
_GONE = Statement(f"SELECT chunk_key AS key FROM gone WHERE generation = {CURRENT}")
_LANGUAGES = Statement("SELECT DISTINCT language FROM document")


class PostgresViews(ViewFactory):
    """Makes the views of a base on a server.

    `remote` are its indexes behind a network, if it has any; native parts need those in tables.
    """

    def __init__(self, native: NativeIndexes, remote: RemoteIndexes) -> None:
        super().__init__(remote.updater, in_threads=False)
        self._native = native
        self._remote = remote

    async def view(self, reader: database.ReadTransaction, where: Filter) -> SqlView:
        """The base as the reader's transaction sees it, under a filter."""
        known = await _state(reader)
        if known.get("graph"):
            keep_candidates(reader, known["indexed_chunks"])

        async def attempt(gave_up: StoreError | None) -> SqlView:
            for _ in range(ATTEMPTS):
                view = await self._attempt(reader, where, known, gave_up)
                if view is not None:
                    if self._remote.are_used:
                        self.updater.request()
                    return view
                await self._remote.reset_other_histories(reader)
            raise StoreBusyError(
                f"{self._remote.location}: an index of the base is changing; search again"
            )

        return await self.until_indexed(attempt)

    async def _attempt(
        self,
        reader: database.ReadTransaction,
        where: Filter,
        known: dict[str, Any],
        gave_up: StoreError | None,
    ) -> SqlView | None:
        """None if an index is ahead of what the reader sees."""
        indexes = self._remote.open  # another thread may open others
        down = await in_thread(indexes.refresh) if self._remote.are_used else {}

        def at_state(connection: Connection) -> SqlView | None:
            position = LogPosition(known["change"], known["token"])
            if self._remote.are_used:
                position = SqlChangeLog(connection).head
            return self.view_at(
                SqlChangeLog(connection, head=position, reader=reader),
                where,
                State(known["token"], position, known["generation"]),
                indexes,
                down=down,
                gave_up=gave_up,
                own=lambda usual: self._parts(reader, connection, known, position, usual),
            )

        return await reader.ask(at_state)

    def _parts(
        self,
        reader: database.ReadTransaction,
        connection: Connection,
        known: dict[str, Any],
        position: LogPosition,
        usual: OwnParts,
    ) -> OwnParts:
        """The indexes in tables where no others are found, and what needs both of these."""
        generation, chunks, token = known["generation"], known["indexed_chunks"], known["token"]
        text = usual.text
        if text is None:
            gone = self.cached("gone", token, lambda: _GONE.keys(connection))
            terms = known["indexed_terms"]
            statistics = Statistics(generation, known["change"], chunks, terms, gone)
            text = PostingsText(reader, statistics, position)
        vectors = usual.vectors or PgVectors(
            reader,
            generation=generation,
            dimension=known.get("dimension"),
            chunks=chunks,
            indexed=bool(known.get("graph")),
            position=position,
        )
        if not isinstance(text, PostingsText) or not isinstance(vectors, PgVectors):
            return OwnParts(text, vectors)

        def read_languages(connection: Connection) -> Sequence[str | None]:
            return self.cached("all languages", token, lambda: _LANGUAGES.column(connection))

        native = PostgresNative(
            reader,
            self._native,
            known[SETTING],
            known=text.known,
            vectors=vectors,
            languages=lambda: reader.ask(read_languages),
        )
        return OwnParts(text, vectors, native)


async def _state(reader: database.ReadTransaction) -> dict[str, Any]:
    """The counters of the base as numbers, and the configurations of its native parts."""
    known: dict[str, Any] = dict(await reader.rows(_STATE))
    configs = parse_configs(known.pop(SETTING, None))
    return {**{name: int(value) for name, value in known.items()}, SETTING: configs}


POSTINGS, PGVECTOR = "postings", "pgvector"
"""The indexes in tables, which a base on a server has unless it is made with others."""


class RemoteIndexes(StoreIndexes):
    """The indexes of a base that are behind a network of their own, such as a Qdrant cluster.

    They read the change log in a thread, over a connection of their own, one process at a time.
    Writers of such a base write one after the other, each in one transaction that takes its numbers
    too: so changes are committed in the order of their numbers, and an index that has come to a
    number lacks nothing before it.
    """

    def __init__(self, address: database.Address, wanted: IndexChoice, *, timeout: float) -> None:
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

    def catch_up(
        self, indexes: IndexPair | None = None, *, generation: int | None = None, least: int = 0
    ) -> None:
        """Bring indexes that lack `least` changes to the head of the change log; blocks.

        Without them, those of the current generation.
        """
        with self._reading() as connection:
            if indexes is None:
                self.place(setting(connection, "base_id") or "")
                self.adapt(read_config(connection))

            def lock(role: IndexRole) -> AbstractContextManager[bool]:
                """Until the end of the transaction, which may see a state from before the lock was
                released: then the index is ahead of it, and the updater leaves it alone."""
                statement = database.try_lock(database.FOLLOWERS[role])
                return nullcontext(bool(connection.exec_driver_sql(statement).scalar()))

            changes = SqlChangeLog(connection, generation=generation)
            catch_up_all((indexes or self.open).by_role(), changes, lock=lock, least=least)

    async def reset_other_histories(self, reader: database.ReadTransaction) -> None:
        """Discard indexes that are ahead of the base since a backup of it was restored."""

        def foreign(connection: Connection) -> list[AnyIndex]:
            changes = SqlChangeLog(connection)
            positions = ((index, index.position) for index in self.open.by_role().values())
            return [one for one, at in positions if changes.token_at(at.seq) != at.token]

        for index in await reader.ask(foreign):
            await in_thread(index.reset_if_at, index.position)

    def unreachable(self) -> list[str]:
        """The indexes that can't be reached, and why; blocks."""
        indexes = self.open.by_role()
        return [f"{indexes[role].kind}: {why}" for role, why in self.open.refresh().items()]

    def check_all(self) -> list[Finding]:
        """What is to be said of the indexes; blocks, and changes nothing."""
        with self._reading() as connection:
            return self.check(SqlChangeLog(connection))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the base."""
        if self._engine is None:
            self._engine = database.create_blocking(self._address)
        with database.postgres_errors(self.location), self._engine.begin() as connection:
            yield connection
