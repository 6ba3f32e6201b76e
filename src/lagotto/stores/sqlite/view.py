"""The embedded store as one search sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from lagotto.documents import Chunk, Vector
from lagotto.stores.base import ChunkKeys, Passage, Term, TextQuery
from lagotto.stores.hits import Hits
from lagotto.stores.reading import read_parents, read_passages
from lagotto.stores.sqlite.text_leg import TextLeg
from lagotto.stores.vectors import Snapshot
from lagotto.terms.vocabulary import Vocabulary

NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.float32))


class SqliteView:
    """One read transaction, one state of the vectors, one set of allowed chunks."""

    def __init__(
        self,
        connection: AsyncConnection,
        *,
        vectors: Snapshot | None,
        text: TextLeg,
        vocabulary: Vocabularies,
        allowed: ChunkKeys | None,
        languages: Sequence[str | None],
    ) -> None:
        self._connection = connection
        self._one_at_a_time = asyncio.Lock()  # a connection answers one question after another
        self._vectors = vectors
        self._text = text
        self._vocabulary = vocabulary
        self._allowed = allowed
        self.languages = languages

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        if self._vectors is None:
            return NO_HITS
        return await asyncio.to_thread(self._vectors.search, query, k, allowed=self._allowed)

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        if not query.words:
            return NO_HITS
        async with self._one_at_a_time:
            return await self._text.search(self._connection, query, k=k, allowed=self._allowed)

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        if self._vectors is None:
            return np.zeros(len(keys), np.float32)
        scores = await asyncio.to_thread(self._vectors.scores, query, keys)
        scores[np.isnan(scores)] = 0.0
        return scores

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        if not query.words:
            return np.zeros(len(keys), np.float32)
        async with self._one_at_a_time:
            return await self._text.scores(self._connection, query, keys)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        async with self._one_at_a_time:
            unknown = await self._text.unknown(self._connection, words)
            if not unknown:
                return [()] * len(words)
            vocabulary = await self._vocabulary.current(self._connection, self._text)
        return await asyncio.to_thread(_corrections, vocabulary, words, unknown)

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        async with self._one_at_a_time:
            found = await read_passages(self._connection, keys.tolist())
        return [found[key] for key in keys.tolist() if key in found]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        async with self._one_at_a_time:
            return await read_parents(self._connection, chunks)


class Vocabularies:
    """The vocabulary of the text index, made again when the index has changed."""

    def __init__(self) -> None:
        self._state = -1
        self._vocabulary: Vocabulary | None = None
        self._making = asyncio.Lock()
        self.state = 0
        """The number of the last change; set by the store."""

    async def current(self, connection: AsyncConnection, text: TextLeg) -> Vocabulary:
        """The vocabulary as of the last change."""
        async with self._making:
            if self._vocabulary is None or self._state != self.state:
                state = self.state
                terms = await text.vocabulary(connection)
                self._vocabulary = await asyncio.to_thread(Vocabulary, terms)
                self._state = state
            return self._vocabulary


def _corrections(
    vocabulary: Vocabulary, words: Sequence[str], unknown: set[str]
) -> list[tuple[Term, ...]]:
    return [
        tuple(Term(term, weight) for term, weight in vocabulary.corrections(word))
        if word in unknown
        else ()
        for word in words
    ]
