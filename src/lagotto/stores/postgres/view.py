"""The store on a server as one search sees it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, Vector, Vectors
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.bm25 import idf
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import Match, NativeQuery, Term, TextQuery
from lagotto.stores.base import Passage, StoredChunks
from lagotto.stores.capabilities import HybridFound, HybridQuery
from lagotto.stores.postgres.native.search import NativeSearch
from lagotto.stores.postgres.native.single_query import SingleQuery
from lagotto.stores.postgres.native.trigram_text import TrigramTextComparison
from lagotto.stores.postgres.text_index import fuzzy
from lagotto.stores.postgres.text_index.search import Mask, TextSearch
from lagotto.stores.postgres.transaction import Reader
from lagotto.stores.postgres.vector_index.search import VectorSearch
from lagotto.stores.sql.read import (
    read_neighbours,
    read_parents,
    read_passages,
    read_sources,
    read_stored,
    read_vectors,
)


class PostgresView:
    """One repeatable-read transaction, one set of allowed chunks."""

    quick = False

    def __init__(
        self,
        reader: Reader,
        *,
        vectors: VectorSearch,
        text: TextSearch,
        native: NativeSearch,
        allowed: Mask | None,
        languages: Sequence[str | None],
        generation: int = 0,
    ) -> None:
        self.generation = generation
        self._reader = reader
        self._vectors = vectors
        self._text = text
        self._native = native
        self._allowed = allowed
        self.languages = languages
        self._at_hand: dict[int, Passage] = {}

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        return await self._vectors.search(query, k=k, allowed=self._allowed)

    async def prepare(self, query: NativeQuery) -> None:
        await self._native.prepare(query)

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        if query.native is not None:
            return await self._native.search(query.native, k=k)
        return await self._text.search(query, k=k, allowed=self._allowed)

    async def hybrid(self, asked: HybridQuery) -> HybridFound | None:
        search = SingleQuery(
            self._reader, self._vectors, self._native, self._text.statistics, self._allowed
        )
        answer = await search.ask(asked)
        if answer is None:
            return None
        found, passages = answer
        self._at_hand |= passages
        return found

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        return await self._vectors.scores(query, keys)

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        if query.native is not None:
            return await self._native.scores(query.native, keys)
        return await self._text.scores(query, keys)

    async def idf(self, terms: Sequence[str]) -> NDArray[np.float64]:
        count = self._text.statistics.chunks
        having = await self._text.frequencies(terms)
        return np.array([idf(number, count=count) for number in having], np.float64)

    async def excluding(self, match: Match) -> PostgresView:
        allowed = await self._text.everything() if self._allowed is None else self._allowed
        rest = copy(self)
        rest._allowed = allowed & ~await self._text.holding(match)
        rest._native = self._native.within(rest._allowed)
        return rest

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        return [await fuzzy.corrections(self._reader, self._text, word) for word in words]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        return [
            await fuzzy.similar(self._reader, self._text, word, threshold=threshold)
            for word in words
        ]

    async def comparable(self) -> bool:
        return await self._texts().is_quick()

    async def trigram_search(self, words: str, *, threshold: float, k: int) -> Hits:
        return await self._texts().search(words, threshold=threshold, k=k)

    async def trigram_scores(self, words: str, keys: ChunkKeys) -> NDArray[np.float32]:
        return await self._texts().scores(words, keys)

    def _texts(self) -> TrigramTextComparison:
        return TrigramTextComparison(self._reader, self._text.statistics.chunks, self._allowed)

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        return await self._reader.ask(lambda connection: read_vectors(connection, keys.tolist()))

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        wanted = keys.tolist()
        if missing := [key for key in wanted if key not in self._at_hand]:
            found = await self._reader.ask(lambda connection: read_passages(connection, missing))
        else:
            found = {}
        found |= {key: self._at_hand[key] for key in wanted if key in self._at_hand}
        return [found[key] for key in wanted if key in found]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        return await self._reader.ask(lambda connection: read_parents(connection, chunks))

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        return await self._reader.ask(
            lambda connection: read_neighbours(connection, chunks, near=near, across=across)
        )

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self._reader.ask(lambda connection: read_sources(connection, names))

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        found = await self._reader.ask(lambda connection: read_stored(connection, names))
        if self._allowed is None:
            return found
        return {
            name: chunks._replace(keys=chunks.keys[self._allowed[chunks.keys]])
            for name, chunks in found.items()
        }
