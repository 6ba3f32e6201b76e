"""The beginning of a search: which state the base is in, and what the filter lets through."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, literal_column, select

from lagotto.filters import And, Filter
from lagotto.indexes.base import ChunkKeys
from lagotto.stores.postgres.adapters import keys_of
from lagotto.stores.postgres.native.index import SETTING, Configs, WordIndex, parse_configs
from lagotto.stores.postgres.native.search import NativeSearch
from lagotto.stores.postgres.state_cache import StateCache
from lagotto.stores.postgres.text_index.search import Mask, Statistics, TextSearch
from lagotto.stores.postgres.timeouts import SET_STATEMENT_TIMEOUT, limit
from lagotto.stores.postgres.transaction import Reader
from lagotto.stores.postgres.vector_index.search import VectorSearch
from lagotto.stores.postgres.view import PostgresView
from lagotto.stores.sql.read import chunks_that_match, main_languages

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


class ViewFactory:
    """Makes views; remembers what they have in common as long as nothing is written."""

    def __init__(self) -> None:
        self._remembered = StateCache()

    async def view(self, reader: Reader, where: Filter, words: WordIndex) -> PostgresView:
        """The base as the reader's transaction sees it, through a filter."""
        known, configs = await _state(reader)
        state = known["token"]
        text = TextSearch(
            reader,
            Statistics(
                last_key=known["change"],
                chunks=known["indexed_chunks"],
                terms=known["indexed_terms"],
                gone=await self._gone(reader, state),
            ),
        )
        vectors = VectorSearch(
            reader,
            dimension=known.get("dimension"),
            chunks=known["indexed_chunks"],
            indexed=bool(known.get("graph")),
        )
        allowed = await self._allowed(reader, text, where, state)
        native = NativeSearch(
            reader,
            words,
            configs,
            last_key=known["change"],
            languages=lambda: self._all_languages(reader, state),
            allowed=allowed,
        )
        return PostgresView(
            reader,
            vectors=vectors,
            text=text,
            native=native,
            allowed=allowed,
            languages=await self._languages(reader, state),
            generation=known.get("generation", 0),
        )

    async def _gone(self, reader: Reader, state: int) -> ChunkKeys:
        async def ask() -> ChunkKeys:
            ((keys,),) = await reader.rows(_GONE)
            return keys_of(keys)

        gone: ChunkKeys = await self._remembered.get("gone", state, ask)
        return gone

    async def _allowed(
        self, reader: Reader, text: TextSearch, where: Filter, state: int
    ) -> Mask | None:
        if where == And():
            return None

        async def ask() -> Mask:
            return text.mask(await reader.ask(lambda connection: _matching(connection, where)))

        # Others may have taken numbers for chunks in this state: then a mask has more places.
        name = (where.cache_key, text.statistics.last_key)
        mask: Mask = await self._remembered.get(name, state, ask)
        return mask

    async def _languages(self, reader: Reader, state: int) -> Sequence[str | None]:
        async def ask() -> list[str | None]:
            return await reader.ask(main_languages)

        languages: list[str | None] = await self._remembered.get("languages", state, ask)
        return languages

    async def _all_languages(self, reader: Reader, state: int) -> Sequence[str | None]:
        async def ask() -> list[str | None]:
            return [language for (language,) in await reader.rows(_LANGUAGES)]

        languages: list[str | None] = await self._remembered.get("all languages", state, ask)
        return languages


async def _state(reader: Reader) -> tuple[dict[str, int], Configs | None]:
    """The numbers of the base, and with what its native index was made.

    The server hears of a deadline in the same message.
    """
    seconds = limit()
    rows = await (
        reader.rows(_STATE)
        if seconds is None
        else reader.rows(_STATE_WITH_LIMIT, {"limit": seconds})
    )
    known = dict(rows)
    configs = parse_configs(known.pop(SETTING, None))
    return {name: int(value) for name, value in known.items()}, configs


def _matching(connection: Connection, where: Filter) -> ChunkKeys:
    """Keys of the matching chunks, sent as one value, which is quicker than rows."""
    found = chunks_that_match(where).subquery()
    joined = func.string_agg(func.int8send(found.c.key), literal_column("''::bytea"))
    return keys_of(connection.scalar(select(joined)))
