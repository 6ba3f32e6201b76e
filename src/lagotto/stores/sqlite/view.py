"""The embedded store as one search sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lagotto.concurrency import in_thread, interruptible
from lagotto.documents import Chunk, Document, Vector, Vectors
from lagotto.indexes.base import START, ChunkKeys, LogPosition
from lagotto.indexes.bm25 import idf
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.indexes.hits import NO_HITS, Hits
from lagotto.indexes.text_query import Match, Term, TextQuery, as_terms
from lagotto.indexes.vectors import Snapshot
from lagotto.stores.base import Passage, StoredChunks
from lagotto.stores.sql.read import (
    read_neighbours,
    read_parents,
    read_passages,
    read_sources,
    read_stored,
    read_vectors,
)
from lagotto.stores.sqlite.database import understood
from lagotto.stores.sqlite.text_index import TextIndexLeg
from lagotto.terms.vocabulary import Vocabulary

T = TypeVar("T")

QUICK_CHUNKS = 150_000
"""Up to here a leg takes about a millisecond, less than it is worth to change threads for:
`benchmarks/scale.py` at 100,000 chunks: 6.2 ms of CPU a search with threads, 5.1 without."""

QUICK_KEYS = 50


class SqliteView:
    """One read transaction, one state of the vectors, one set of allowed chunks.

    What takes longer than a moment is done in threads, on the connection by one at a time.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        path: Path,
        vectors: Snapshot | None,
        text: TextIndexLeg,
        vocabularies: Vocabularies,
        changes: LogPosition,
        allowed: FilterKeys | None,
        languages: Sequence[str | None],
    ) -> None:
        self.generation = 0
        self._connection = connection
        self._path = path
        self._one_at_a_time = threading.Lock()
        self._vectors = vectors
        self._text = text
        self._vocabularies = vocabularies
        self._changes = changes
        self._allowed = allowed
        self._keys = allowed.keys if allowed else None
        self._small = vectors is not None and len(vectors) <= QUICK_CHUNKS
        self.quick = self._small and text.quick
        self.languages = languages

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        if self._vectors is None:
            return NO_HITS
        if self._small:
            return self._vectors.search(query, k, allowed=self._keys)
        return await in_thread(self._vectors.search, query, k, allowed=self._keys)

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        return await self._ask(
            lambda connection: self._text.search(connection, query, k=k, allowed=self._allowed),
            quick=self.quick,
        )

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        if self._vectors is None:
            return np.zeros(len(keys), np.float32)
        scores = self._vectors.scores(query, keys)  # takes less time than changing threads
        scores[np.isnan(scores)] = 0.0
        return scores

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        return await self._ask(
            lambda connection: self._text.scores(connection, query, keys),
            quick=self.quick,
        )

    async def idf(self, terms: Sequence[str]) -> NDArray[np.float64]:
        having = await self._frequencies(terms)
        count = len(self._vectors) if self._vectors else 0
        return np.array([idf(number, count=count) for number in having], np.float64)

    async def excluding(self, match: Match) -> SqliteView:
        if self._vectors is None:
            return self
        seen = self._vectors.keys if self._keys is None else self._keys
        hidden = await self._ask(lambda connection: self._text.matching(connection, match, seen))
        rest = copy(self)
        rest._keys = np.setdiff1d(seen, hidden, assume_unique=True)
        rest._allowed = FilterKeys(rest._keys)
        return rest

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        having = await self._frequencies(words)
        unknown = {word for word, number in zip(words, having, strict=True) if not number}
        if not unknown:
            return [()] * len(words)
        return await self._ask(lambda connection: self._corrections(connection, words, unknown))

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        return await self._ask(lambda connection: self._similar(connection, words, threshold))

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        return await self._ask(lambda connection: read_vectors(connection, keys.tolist()))

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        found = await self._ask(
            lambda connection: read_passages(connection, keys.tolist()),
            quick=len(keys) <= QUICK_KEYS,
        )
        return [found[key] for key in keys.tolist() if key in found]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        return await self._ask(lambda connection: read_parents(connection, chunks))

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        return await self._ask(
            lambda connection: read_neighbours(connection, chunks, near=near, across=across)
        )

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self._ask(lambda connection: read_sources(connection, names))

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        found = await self._ask(lambda connection: read_stored(connection, names))
        if self._keys is None:
            return found
        return {
            name: chunks._replace(keys=np.intersect1d(chunks.keys, self._keys))
            for name, chunks in found.items()
        }

    async def _frequencies(self, terms: Sequence[str]) -> list[int]:
        return await self._ask(
            lambda connection: self._text.frequencies(connection, terms), quick=True
        )

    async def _ask(self, question: Callable[[Connection], T], *, quick: bool = False) -> T:
        def answer() -> T:
            with self._one_at_a_time, understood(self._path):
                return question(self._connection)

        return answer() if quick else await interruptible(answer, interrupt=self._interrupt)

    def _interrupt(self) -> None:
        """End the statement that is running; it fails, but nobody waits for it any more."""
        driver = self._connection.connection.driver_connection
        if driver is not None:
            driver.interrupt()

    def _corrections(
        self, connection: Connection, words: Sequence[str], unknown: set[str]
    ) -> list[tuple[Term, ...]]:
        vocabulary = self._vocabularies.current(connection, self._text, self._changes)
        return [as_terms(vocabulary.corrections(word)) if word in unknown else () for word in words]

    def _similar(
        self, connection: Connection, words: Sequence[str], threshold: float
    ) -> list[tuple[Term, ...]]:
        vocabulary = self._vocabularies.current(connection, self._text, self._changes)
        return [as_terms(vocabulary.similar(word, threshold=threshold)) for word in words]


class Vocabularies:
    """The vocabulary of the text index, made again when the index has changed."""

    def __init__(self) -> None:
        self._made_of = START
        self._vocabulary: Vocabulary | None = None
        self._making = threading.Lock()

    def current(
        self, connection: Connection, text: TextIndexLeg, changes: LogPosition
    ) -> Vocabulary:
        """The vocabulary as of a change, as the connection sees it."""
        with self._making:
            if self._vocabulary is None or self._made_of != changes:
                self._vocabulary = Vocabulary(text.vocabulary(connection))
                self._made_of = changes
            return self._vocabulary
