"""The server's own full-text search: its functions parse the query and rank the chunks.

A query is parsed once per configuration that documents of the base have, and a chunk is compared
with the query of its own configuration. The server ranks all matches anyway, so all are read: any
filter is then exact, and the scores of chunks that other legs find are known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from psycopg import errors

from lagotto.documents import storable
from lagotto.errors import QueryError
from lagotto.indexes.base import ChunkKeys, FilterKeys
from lagotto.indexes.filter_keys import Mask
from lagotto.indexes.hits import Hits, top_k
from lagotto.indexes.text_query import NativeQuery
from lagotto.prefs import FtsMode
from lagotto.stores.postgres.adapters import KeysParameter, keys_of
from lagotto.stores.postgres.chunk_words import Configs, config_of
from lagotto.stores.postgres.native.index import WordIndex
from lagotto.stores.postgres.transaction import ReadTransaction

_READ_BY: Mapping[FtsMode, LiteralString] = {
    "web": "websearch_to_tsquery(config::regconfig, %(text)s)",
    "plain": "plainto_tsquery(config::regconfig, %(text)s)",
    "phrase": "phraseto_tsquery(config::regconfig, %(text)s)",
    "strict": "to_tsquery(config::regconfig, %(text)s)",
    # No function joins words by OR. A lexeme may contain anything, so it is quoted.
    "any": r"""(
        SELECT string_agg(
            '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' | '
        )::tsquery
        FROM unnest(tsvector_to_array(to_tsvector(config::regconfig, %(text)s))) AS lexeme
    )""",
}

# Materialized, or the query would be parsed again for every chunk.
_MATCHES: LiteralString = """
WITH asked AS MATERIALIZED (
    SELECT config, {query} AS query FROM unnest(%(configs)s::text[]) AS config
)
SELECT chunk_key, {function}(words, query) AS score
FROM asked JOIN chunk_words
    ON words @@ query AND (chunk_words.config = asked.config OR %(everywhere)s) {within}
"""
_WITHIN: LiteralString = "AND chunk_key = ANY(%(allowed)s)"
_ALL: LiteralString = """
SELECT string_agg(int8send(chunk_key), ''), string_agg(float4send(score), '')
FROM ({matches}) AS matching
"""

LONGEST = 10_000
"""Characters of a query that are used: the server's stack is limited."""

FEW = 5_000
"""A filter that leaves at most this many chunks is sent to the server, which ranks only these."""

REFUSALS = (errors.SyntaxError, errors.ProgramLimitExceeded, errors.StatementTooComplex)


@dataclass(slots=True)
class NativeSearch:
    """Native full text for one search; `allowed` are the chunks that its filter leaves.

    `configs` are those of the index, None if the state that the search sees has no index.
    """

    reader: ReadTransaction
    index: WordIndex
    configs: Configs | None
    last_key: int
    languages: Callable[[], Awaitable[Sequence[str | None]]]
    allowed: FilterKeys | None
    _made: list[Configs] = field(default_factory=list)  # shared with other filters
    _scored: dict[NativeQuery, tuple[NDArray[np.float32], Mask]] = field(default_factory=dict)

    def within(self, allowed: FilterKeys | None) -> NativeSearch:
        """The same search under another filter."""
        return replace(self, allowed=allowed, _scored={})

    async def prepare(self, query: NativeQuery) -> None:
        """Build the index if needed; run a strict query now, since the server may reject it."""
        if not (self.configs or self._made):
            self._made.append(await self.index.make())
        if query.mode == "strict":
            await self._score(query)

    async def search(self, query: NativeQuery, *, k: int) -> Hits:
        """The best `k` of the chunks that match."""
        scores, found = await self._score(query)
        keys = np.flatnonzero(found)
        return top_k(keys, scores[keys], k)

    async def scores(self, query: NativeQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The score of each of `keys`, 0 for those that don't match."""
        scores, _ = await self._score(query)
        return scores[keys]

    def is_answered(self, query: NativeQuery) -> bool:
        """Whether the answer to a query is cached."""
        return query in self._scored

    async def asked(self, query: NativeQuery) -> tuple[LiteralString, dict[str, Any]]:
        """A statement for all matches with their scores, and its parameters."""
        known = self.configs or next(iter(self._made), ())
        languages = await self.languages() if query.config is None else [query.config]
        parameters: dict[str, Any] = {
            "text": storable(query.text)[:LONGEST],
            "configs": sorted({config_of(language, known) for language in languages}),
            "everywhere": query.config is not None,
        }
        few = self.allowed is not None and len(self.allowed.keys) <= FEW
        if self.allowed is not None and few:
            parameters["allowed"] = KeysParameter(self.allowed.keys)
        return _MATCHES.format(
            function=query.function, query=_READ_BY[query.mode], within=_WITHIN if few else ""
        ), parameters

    async def _score(self, query: NativeQuery) -> tuple[NDArray[np.float32], Mask]:
        """Scores by key, and which keys match."""
        if query not in self._scored:
            keys, ranks = await self._matches(query)
            seen = keys <= self.last_key  # a fresh reader may know newer ones
            scores = np.zeros(self.last_key + 1, np.float32)
            scores[keys[seen]] = ranks[seen]
            found = np.zeros(self.last_key + 1, np.bool_)
            found[keys[seen]] = True
            if self.allowed is not None:
                found &= self.allowed.mask(len(found))
            self._scored[query] = scores, found
        return self._scored[query]

    async def _matches(self, query: NativeQuery) -> tuple[ChunkKeys, NDArray[np.float32]]:
        """The rows in the state that the search sees, or in the latest one if that has no index."""
        if self.configs:
            return await self._matches_in(self.reader, query)
        async with self.index.fresh() as reader:
            return await self._matches_in(reader, query)

    async def _matches_in(
        self, reader: ReadTransaction, query: NativeQuery
    ) -> tuple[ChunkKeys, NDArray[np.float32]]:
        matches, parameters = await self.asked(query)
        try:
            ((keys, ranks),) = await reader.rows(_ALL.format(matches=matches), parameters)
        except REFUSALS as exc:
            problem = (
                f"PostgreSQL can't read this as a tsquery ({exc.diag.message_primary}); join words "
                "by & | ! <-> and close every parenthesis and quotation"
            )
            raise QueryError(query.text, 0, problem) from exc
        return keys_of(keys), np.frombuffer(ranks or b"", ">f4").astype(np.float32)
