"""Opening a view: the state of the base, and the chunks that the filter allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection

from lagotto.filters import And, Filter, merged
from lagotto.indexes.base import ChunkKeys, FilterKeys, LogPosition
from lagotto.stores.postgres.chunk_words import SETTING
from lagotto.stores.postgres.native import NativeExtension
from lagotto.stores.postgres.remote_indexes import RemoteIndexes
from lagotto.stores.postgres.text_index import PostingsText, Statistics
from lagotto.stores.postgres.transaction import SET_STATEMENT_TIMEOUT, ReadTransaction, limit
from lagotto.stores.postgres.types import keys_of
from lagotto.stores.postgres.vector_index import PgVectors, keep_candidates
from lagotto.stores.sql.changelog import main_languages, read_head
from lagotto.stores.sql.filters import chunks_that_match, filter_notes
from lagotto.stores.sql.read import findable_keys
from lagotto.stores.sql.statements import Statement
from lagotto.stores.sql.view import SqlView

MOST_ANSWERS = 64
"""The capacity of the state cache."""

_STATE = f"""
SELECT name, value::text FROM counter
UNION ALL SELECT name, value FROM setting WHERE name IN ('dimension', 'generation', '{SETTING}')
UNION ALL SELECT 'graph', indisvalid::int::text FROM pg_index
WHERE indexrelid = to_regclass('embedding_graph')
UNION ALL (SELECT 'token', token::text FROM history ORDER BY state DESC LIMIT 1)
"""
_STATE_WITH_LIMIT = f"{_STATE} UNION ALL SELECT 'limit', length({SET_STATEMENT_TIMEOUT})::text"
_GONE = "SELECT string_agg(int8send(chunk_key), '') FROM gone"
_LANGUAGES = "SELECT DISTINCT language FROM document"


class StateCache:
    """Caches answers that hold for one state of the base; the oldest are evicted first.

    A state is identified by the random token of its last commit, so that a base restored from a
    backup, or a standby that took over, is never mistaken for the one that gave the answers.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    async def get(self, name: Hashable, token: int, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The cached answer to a question in a state."""
        key = (name, token)
        if key not in self._answers:
            answer = await ask()
            while len(self._answers) >= MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[key] = answer
        return self._answers[key]


class ViewFactory:
    """Makes views; caches what they have in common as long as nothing is written."""

    def __init__(self, extension: NativeExtension, remote: RemoteIndexes) -> None:
        self._extension = extension
        self._remote = remote
        self._cache = StateCache()

    async def view(self, reader: ReadTransaction, where: Filter) -> SqlView:
        """The base as the reader's transaction sees it, under a filter."""
        known, native_setting = await _state(reader)
        state = known["token"]
        position = LogPosition(known["change"], state)
        if self._remote.are_used:
            return await self._remote_view(reader, where, known)
        text = await self._postings(reader, known, position)
        vectors = await self._pgvectors(reader, known, position)
        return SqlView(
            reader,
            text=text,
            vectors=vectors,
            everything=text.all_keys,
            allowed=await self._allowed(reader, where, state),
            languages=await self._languages(reader, state),
            generation=known.get("generation", 0),
            filter_notes=await self._notes(reader, where, state),
            extension=self._extension.attach(
                reader,
                text=text,
                vectors=vectors,
                setting=native_setting,
                languages=lambda: self._all_languages(reader, state),
            ),
        )

    async def _remote_view(
        self, reader: ReadTransaction, where: Filter, known: Mapping[str, int]
    ) -> SqlView:
        """The base with indexes behind a network; native parts need those in tables."""
        state = known["token"]
        position = await reader.ask(_position)
        remote = await self._remote.snapshots(reader, position)
        text, vectors = remote.text, remote.vectors
        return SqlView(
            reader,
            text=text or await self._postings(reader, known, position),
            vectors=vectors or await self._pgvectors(reader, known, position),
            everything=lambda: reader.ask(findable_keys),
            allowed=await self._allowed(reader, where, state),
            languages=await self._languages(reader, state),
            generation=known.get("generation", 0),
            degraded=remote.degraded,
            filter_notes=await self._notes(reader, where, state),
        )

    async def _postings(
        self, reader: ReadTransaction, known: Mapping[str, int], position: LogPosition
    ) -> PostingsText:
        statistics = Statistics(
            last_key=known["change"],
            chunks=known["indexed_chunks"],
            terms=known["indexed_terms"],
            gone=await self._gone(reader, known["token"]),
        )
        return PostingsText(reader, statistics, position)

    async def _pgvectors(
        self, reader: ReadTransaction, known: Mapping[str, int], position: LogPosition
    ) -> PgVectors:
        indexed = bool(known.get("graph"))
        if indexed:
            await keep_candidates(reader, known["indexed_chunks"])
        return PgVectors(
            reader,
            dimension=known.get("dimension"),
            chunks=known["indexed_chunks"],
            indexed=indexed,
            position=position,
        )

    async def _gone(self, reader: ReadTransaction, state: int) -> ChunkKeys:
        async def ask() -> ChunkKeys:
            ((keys,),) = await reader.rows(_GONE)
            return keys_of(keys)

        gone: ChunkKeys = await self._cache.get("gone", state, ask)
        return gone

    async def _allowed(
        self, reader: ReadTransaction, where: Filter, state: int
    ) -> FilterKeys | None:
        if where == And():
            return None

        async def ask() -> FilterKeys:
            keys = await reader.ask(lambda connection: _matching(connection, where))
            return FilterKeys(np.sort(keys), where=merged(where))

        allowed: FilterKeys = await self._cache.get(where.cache_key, state, ask)
        return allowed

    async def _notes(self, reader: ReadTransaction, where: Filter, state: int) -> Sequence[str]:
        if where == And():
            return ()

        async def ask() -> Sequence[str]:
            allowed = await self._allowed(reader, where, state)
            some = allowed is None or bool(len(allowed.keys))
            return await reader.ask(
                lambda connection: filter_notes(connection, where, matches_some=some)
            )

        notes: Sequence[str] = await self._cache.get(f"notes {where.cache_key}", state, ask)
        return notes

    async def _languages(self, reader: ReadTransaction, state: int) -> Sequence[str | None]:
        async def ask() -> list[str | None]:
            return await reader.ask(main_languages)

        languages: list[str | None] = await self._cache.get("languages", state, ask)
        return languages

    async def _all_languages(self, reader: ReadTransaction, state: int) -> Sequence[str | None]:
        async def ask() -> list[str | None]:
            return [language for (language,) in await reader.rows(_LANGUAGES)]

        languages: list[str | None] = await self._cache.get("all languages", state, ask)
        return languages


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


def _matching(connection: Connection, where: Filter) -> ChunkKeys:
    """Keys of the matching chunks, sent as one value, which is faster than rows."""
    sql, values = chunks_that_match(connection, where)
    joined = Statement(f"SELECT string_agg(int8send(key), ''::bytea) FROM ({sql}) AS matching")
    return keys_of(joined.scalar(connection, **values))


def _position(connection: Connection) -> LogPosition:
    return read_head(connection).position(connection)
