"""The beginning of a search: which state the base is in, and what the filter lets through."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, literal_column, select

from lagotto.filters import And, Filter
from lagotto.stores.base import ChunkKeys
from lagotto.stores.postgres.parameters import keys_of
from lagotto.stores.postgres.reader import Reader
from lagotto.stores.postgres.remembered import Remembered
from lagotto.stores.postgres.text_search import Mask, Statistics, TextSearch
from lagotto.stores.postgres.vector_search import VectorSearch
from lagotto.stores.postgres.view import PostgresView
from lagotto.stores.reading import chunks_that_match, main_languages

_STATE = """
SELECT name, value FROM counter
UNION ALL SELECT name, value::bigint FROM setting WHERE name = 'dimension'
UNION ALL SELECT 'graph', indisvalid::int FROM pg_index
WHERE indexrelid = to_regclass('embedding_graph')
"""
_GONE = "SELECT string_agg(int8send(chunk_key), '') FROM gone"


class Look:
    """Makes views; remembers what they have in common as long as nothing is written."""

    def __init__(self) -> None:
        self._remembered = Remembered()

    async def view(self, reader: Reader, where: Filter) -> PostgresView:
        """The base as the reader's transaction sees it, through a filter."""
        known: dict[str, int] = dict(await reader.rows(_STATE))
        state = known["state"]
        text = TextSearch(
            reader,
            Statistics(
                last_key=known["change"],
                chunks=known["indexed_chunks"],
                terms=known["indexed_terms"],
                gone=await self._gone(reader, known["change"]),
            ),
        )
        vectors = VectorSearch(
            reader,
            dimension=known.get("dimension"),
            chunks=known["indexed_chunks"],
            indexed=bool(known.get("graph")),
        )
        return PostgresView(
            reader,
            vectors=vectors,
            text=text,
            allowed=await self._allowed(reader, text, where, state),
            languages=await self._languages(reader, state),
        )

    async def _gone(self, reader: Reader, change: int) -> ChunkKeys:
        async def ask() -> ChunkKeys:
            ((keys,),) = await reader.rows(_GONE)
            return keys_of(keys)

        gone: ChunkKeys = await self._remembered.get("gone", change, ask)
        return gone

    async def _allowed(
        self, reader: Reader, text: TextSearch, where: Filter, state: int
    ) -> Mask | None:
        if where == And():
            return None

        async def ask() -> Mask:
            return text.mask(await reader.ask(lambda connection: _matching(connection, where)))

        mask: Mask = await self._remembered.get(repr(where), state, ask)
        return mask

    async def _languages(self, reader: Reader, state: int) -> Sequence[str | None]:
        async def ask() -> list[str | None]:
            return await reader.ask(main_languages)

        languages: list[str | None] = await self._remembered.get("languages", state, ask)
        return languages


def _matching(connection: Connection, where: Filter) -> ChunkKeys:
    """Keys of the matching chunks, sent as one value, which is quicker than rows."""
    found = chunks_that_match(where).subquery()
    joined = func.string_agg(func.int8send(found.c.key), literal_column("''::bytea"))
    return keys_of(connection.scalar(select(joined)))
