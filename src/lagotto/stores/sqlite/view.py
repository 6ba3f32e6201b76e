"""The embedded store as one search sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lagotto.concurrency import in_thread
from lagotto.documents import Chunk, Vector
from lagotto.stores.base import ChunkKeys, Passage, Term, TextQuery
from lagotto.stores.hits import Hits
from lagotto.stores.reading import read_parents, read_passages
from lagotto.stores.sqlite.database import understood
from lagotto.stores.sqlite.text_leg import TextLeg
from lagotto.stores.vectors import Snapshot
from lagotto.terms.vocabulary import Vocabulary

T = TypeVar("T")

QUICK_CHUNKS = 150_000
"""Up to here a leg takes about a millisecond, less than it is worth to change threads for:
`benchmarks/scale.py` at 100,000 chunks: 6.2 ms of CPU a search with threads, 5.1 without."""

QUICK_KEYS = 50

NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.float32))


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
        text: TextLeg,
        vocabularies: Vocabularies,
        allowed: ChunkKeys | None,
        languages: Sequence[str | None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._one_at_a_time = threading.Lock()
        self._vectors = vectors
        self._text = text
        self._vocabularies = vocabularies
        self._allowed = allowed
        self._small = vectors is not None and len(vectors) <= QUICK_CHUNKS
        self.languages = languages

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        if self._vectors is None:
            return NO_HITS
        if self._small:
            return self._vectors.search(query, k, allowed=self._allowed)
        return await in_thread(self._vectors.search, query, k, allowed=self._allowed)

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        if not query.words:
            return NO_HITS
        return await self._ask(
            lambda connection: self._text.search(connection, query, k=k, allowed=self._allowed),
            quick=self._small and self._text.quick and self._allowed is None,
        )

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        if self._vectors is None:
            return np.zeros(len(keys), np.float32)
        scores = self._vectors.scores(query, keys)  # takes less time than changing threads
        scores[np.isnan(scores)] = 0.0
        return scores

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        if not query.words:
            return np.zeros(len(keys), np.float32)
        return await self._ask(
            lambda connection: self._text.scores(connection, query, keys),
            quick=self._small and self._text.quick,
        )

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        with self._one_at_a_time:
            unknown = self._text.unknown(self._connection, words)
        if not unknown:
            return [()] * len(words)
        return await self._ask(lambda connection: self._corrections(connection, words, unknown))

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        found = await self._ask(
            lambda connection: read_passages(connection, keys.tolist()),
            quick=len(keys) <= QUICK_KEYS,
        )
        return [found[key] for key in keys.tolist() if key in found]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        return await self._ask(lambda connection: read_parents(connection, chunks))

    async def _ask(self, question: Callable[[Connection], T], *, quick: bool = False) -> T:
        def answer() -> T:
            with self._one_at_a_time, understood(self._path):
                return question(self._connection)

        return answer() if quick else await in_thread(answer)

    def _corrections(
        self, connection: Connection, words: Sequence[str], unknown: set[str]
    ) -> list[tuple[Term, ...]]:
        vocabulary = self._vocabularies.current(connection, self._text)
        return [
            tuple(Term(term, weight) for term, weight in vocabulary.corrections(word))
            if word in unknown
            else ()
            for word in words
        ]


class Vocabularies:
    """The vocabulary of the text index, made again when the index has changed."""

    def __init__(self) -> None:
        self._made_of = -1
        self._vocabulary: Vocabulary | None = None
        self._making = threading.Lock()
        self.state = 0
        """The number of the last change; set by the store."""

    def current(self, connection: Connection, text: TextLeg) -> Vocabulary:
        """The vocabulary as of the last change."""
        with self._making:
            if self._vocabulary is None or self._made_of != self.state:
                state = self.state
                self._vocabulary = Vocabulary(text.vocabulary(connection))
                self._made_of = state
            return self._vocabulary
