"""Opening a view: the state of the base, and the chunks that the filter allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from lagotto._internal.concurrency import in_thread
from lagotto.errors import StoreBusyError, StoreError
from lagotto.filters import Filter
from lagotto.indexes.base import LogPosition
from lagotto.stores.postgres.database import SET_STATEMENT_TIMEOUT, ReadTransaction, limit
from lagotto.stores.postgres.native import SETTING, NativeIndexes, PostgresNative, parse_configs
from lagotto.stores.postgres.remote_indexes import RemoteIndexes
from lagotto.stores.postgres.text_index import PostingsText, Statistics
from lagotto.stores.postgres.vector_index import GRAPH, PgVectors, keep_candidates
from lagotto.stores.sql.changelog import SqlChangeLog, read_head
from lagotto.stores.sql.statements import CURRENT, Statement
from lagotto.stores.sql.view import (
    DownPair,
    OwnParts,
    SqlView,
    State,
    ViewFactory,
    both_refreshed,
)

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
_STATE_WITH_LIMIT = f"{_STATE} UNION ALL SELECT 'limit', length({SET_STATEMENT_TIMEOUT})::text"
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

    async def view(self, reader: ReadTransaction, where: Filter) -> SqlView:
        """The base as the reader's transaction sees it, under a filter."""
        known = await _state(reader)
        if known.get("graph"):
            await keep_candidates(reader, known["indexed_chunks"])

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
        reader: ReadTransaction,
        where: Filter,
        known: dict[str, Any],
        gave_up: StoreError | None,
    ) -> SqlView | None:
        """None if an index is ahead of what the reader sees."""
        indexes = self._remote.open  # another thread may open others
        down: DownPair = (None, None)
        if self._remote.are_used:
            down = await in_thread(both_refreshed, indexes)

        def at_state(connection: Connection) -> SqlView | None:
            position = LogPosition(known["change"], known["token"])
            if self._remote.are_used:
                position = read_head(connection).position(connection)
            return self.view_at(
                SqlChangeLog(connection, head=position, reader=reader),
                where,
                State(known["token"], position, known["generation"]),
                indexes,
                down=down,
                gave_up=gave_up,
                own=lambda found: self._parts(reader, connection, known, position, found),
            )

        return await reader.ask(at_state)

    def _parts(
        self,
        reader: ReadTransaction,
        connection: Connection,
        known: dict[str, Any],
        position: LogPosition,
        found: OwnParts,
    ) -> OwnParts:
        """The indexes in tables where no others are found, and what needs both of these."""
        generation, chunks, token = known["generation"], known["indexed_chunks"], known["token"]
        text = found.text
        if text is None:
            gone = self.cache.get("gone", token, lambda: _GONE.keys(connection))
            terms = known["indexed_terms"]
            statistics = Statistics(generation, known["change"], chunks, terms, gone)
            text = PostingsText(reader, statistics, position)
        vectors = found.vectors or PgVectors(
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
            return self.cache.get("all languages", token, lambda: _LANGUAGES.column(connection))

        native = PostgresNative(
            reader,
            self._native,
            known[SETTING],
            known=text.known,
            vectors=vectors,
            languages=lambda: reader.ask(read_languages),
        )
        return OwnParts(text, vectors, native)


async def _state(reader: ReadTransaction) -> dict[str, Any]:
    """The counters of the base as numbers, and the configurations of its native parts.

    The same statement sets the timeout for a search with a deadline.
    """
    seconds = limit()
    rows = await (
        reader.rows(_STATE)
        if seconds is None
        else reader.rows(_STATE_WITH_LIMIT, {"limit": seconds})
    )
    known: dict[str, Any] = dict(rows)
    configs = parse_configs(known.pop(SETTING, None))
    return {**{name: int(value) for name, value in known.items()}, SETTING: configs}
