"""Opening a view: the state of the base, and the chunks that the filter allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from lagotto._internal.concurrency import in_thread
from lagotto.errors import StoreBusyError, StoreError
from lagotto.filters import Filter
from lagotto.indexes.base import LogPosition, TextIndex, VectorIndex
from lagotto.stores.postgres.chunk_words import SETTING, parse_configs
from lagotto.stores.postgres.database import SET_STATEMENT_TIMEOUT, ReadTransaction, limit
from lagotto.stores.postgres.native import NativeIndexes, PostgresNative
from lagotto.stores.postgres.remote_indexes import RemoteIndexes
from lagotto.stores.postgres.text_index import PostingsText, Statistics
from lagotto.stores.postgres.vector_index import GRAPH, PgVectors, keep_candidates
from lagotto.stores.sql.changelog import SqlChangeLog, read_head
from lagotto.stores.sql.statements import CURRENT, Statement
from lagotto.stores.sql.view import SqlView
from lagotto.stores.sql.view_factory import ViewFactory, refreshed

ATTEMPTS = 3
"""How often an index that is ahead of the transaction is asked again."""

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
        known, native_setting = await _state(reader)
        if known.get("graph"):
            await keep_candidates(reader, known["indexed_chunks"])
        if self._remote.are_used:
            return await self.until_indexed(
                lambda gave_up: self._with_remote(reader, where, known, gave_up)
            )
        return await reader.ask(
            lambda connection: self._in_tables(reader, connection, where, known, native_setting)
        )

    def _in_tables(
        self,
        reader: ReadTransaction,
        connection: Connection,
        where: Filter,
        known: Mapping[str, int],
        native_setting: str | None,
    ) -> SqlView:
        """The base with all indexes in tables."""
        token = known["token"]
        position = LogPosition(known["change"], token)
        text = self._postings(reader, connection, known, position)
        vectors = _pgvectors(reader, known, position)
        allowed, notes = self.resolved(connection, where, token)
        return SqlView(
            reader,
            text=text,
            vectors=vectors,
            allowed=allowed,
            languages=self.languages(connection, token),
            generation=known["generation"],
            filter_notes=notes,
            native=PostgresNative(
                reader,
                self._native,
                parse_configs(native_setting),
                known=text.known,
                vectors=vectors,
                languages=lambda: self._all_languages(reader, token),
            ),
        )

    async def _with_remote(
        self,
        reader: ReadTransaction,
        where: Filter,
        known: Mapping[str, int],
        gave_up: StoreError | None,
    ) -> SqlView:
        """The base with an index behind a network, or two."""
        for _ in range(ATTEMPTS):
            indexes = self._remote.pair()
            down = await in_thread(lambda both: tuple(map(refreshed, both)), indexes)
            read = partial(self._at_state, reader, where, known, indexes, down, gave_up)
            view = await reader.ask(read)
            if view is not None:
                self.updater.request()
                return view
            await self._remote.reset_other_histories(reader)
        raise StoreBusyError(
            f"{self._remote.location}: an index of the base is changing; search again"
        )

    def _at_state(
        self,
        reader: ReadTransaction,
        where: Filter,
        known: Mapping[str, int],
        indexes: tuple[TextIndex[SqlChangeLog] | None, VectorIndex[SqlChangeLog] | None],
        down: tuple[StoreError | None, ...],
        gave_up: StoreError | None,
        connection: Connection,
    ) -> SqlView | None:
        """None if an index is ahead of what the connection sees."""
        position = read_head(connection).position(connection)
        changes = SqlChangeLog(connection, head=position, reader=reader)
        found = self.snapshots.both(changes, *indexes, down=down, gave_up=gave_up)
        if found is None:
            return None
        allowed, notes = self.resolved(connection, where, known["token"])
        return SqlView(
            reader,
            text=found.text or self._postings(reader, connection, known, position),
            vectors=found.vectors or _pgvectors(reader, known, position),
            allowed=allowed,
            languages=self.languages(connection, known["token"]),
            generation=known["generation"],
            degraded=found.degraded,
            filter_notes=notes,
        )

    def _postings(
        self,
        reader: ReadTransaction,
        connection: Connection,
        known: Mapping[str, int],
        position: LogPosition,
    ) -> PostingsText:
        statistics = Statistics(
            generation=known["generation"],
            last_key=known["change"],
            chunks=known["indexed_chunks"],
            terms=known["indexed_terms"],
            gone=self.cache.get("gone", known["token"], lambda: _GONE.keys(connection)),
        )
        return PostingsText(reader, statistics, position)

    async def _all_languages(self, reader: ReadTransaction, token: int) -> Sequence[str | None]:
        return await reader.ask(
            lambda connection: self.cache.get(
                "all languages", token, lambda: _LANGUAGES.column(connection)
            )
        )


def _pgvectors(
    reader: ReadTransaction, known: Mapping[str, int], position: LogPosition
) -> PgVectors:
    return PgVectors(
        reader,
        generation=known["generation"],
        dimension=known.get("dimension"),
        chunks=known["indexed_chunks"],
        indexed=bool(known.get("graph")),
        position=position,
    )


async def _state(reader: ReadTransaction) -> tuple[dict[str, int], str | None]:
    """The counters of the base, and the setting of its native parts.

    The same statement sets the timeout for a search with a deadline.
    """
    seconds = limit()
    rows = await (
        reader.rows(_STATE)
        if seconds is None
        else reader.rows(_STATE_WITH_LIMIT, {"limit": seconds})
    )
    known = dict(rows)
    native_setting = known.pop(SETTING, None)
    return {name: int(value) for name, value in known.items()}, native_setting
