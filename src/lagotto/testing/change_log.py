"""A change log in memory, and snapshots that score one chunk after the other: the oracle."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.concurrency import in_thread
from lagotto.documents import JsonScalar, Vector, Vectors
from lagotto.indexes.base import (
    START,
    ChunkFields,
    ChunkKeys,
    ChunkText,
    FilterKeys,
    LogPosition,
    TextStatistics,
)
from lagotto.indexes.bm25 import idf, text_score
from lagotto.indexes.hits import Hits, top_k
from lagotto.indexes.text_query import Match, Term, TextQuery, Word, as_terms, as_word, holds
from lagotto.terms import index_terms
from lagotto.terms.vocabulary import Vocabulary

T = TypeVar("T")

Fields = Mapping[str, tuple[JsonScalar, ...]]
NO_FIELDS: Fields = {}


class MemoryChangeLog:
    """A ChangeLog that a test writes: chunks come and go, each in a commit of its own."""

    def __init__(self) -> None:
        self.chunks: dict[int, ChunkText] = {}
        self.vectors: dict[int, Vector] = {}
        self.added: dict[int, tuple[ChunkText, Vector | None]] = {}
        """Every chunk that was ever added, by its key, to do the same to a store."""
        self._fields: dict[int, Fields] = {}
        self._removals: dict[int, int] = {}
        self._updates: dict[int, int] = {}
        self._tokens: list[int] = [0]

    def add(
        self,
        text: str,
        vector: Vector | None = None,
        *,
        language: str | None = None,
        fields: Fields = NO_FIELDS,
    ) -> int:
        """Add a chunk, alone in its document; its key."""
        key = self._commit()
        self._fields[key] = fields
        self.chunks[key] = ChunkText(key, document=key, text=text, language=language)
        self.added[key] = self.chunks[key], vector
        if vector is not None:
            self.vectors[key] = vector
        return key

    def remove(self, key: int) -> None:
        """Remove a chunk."""
        self._removals[self._commit()] = key
        del self.chunks[key]
        self.vectors.pop(key, None)

    def update(self, key: int, fields: Fields) -> None:
        """Give the document of a chunk other metadata."""
        self._updates[self._commit()] = key
        self._fields[key] = fields

    def fork(self) -> MemoryChangeLog:
        """A copy that goes its own way from here."""
        other = MemoryChangeLog()
        other.chunks, other.vectors = dict(self.chunks), dict(self.vectors)
        other.added = dict(self.added)
        other._fields, other._updates = dict(self._fields), dict(self._updates)
        other._removals, other._tokens = dict(self._removals), list(self._tokens)
        return other

    def _commit(self) -> int:
        self._tokens.append(secrets.randbits(62) + 1)
        return len(self._tokens) - 1

    @property
    def head(self) -> LogPosition:
        return LogPosition(len(self._tokens) - 1, self._tokens[-1])

    def token_at(self, number: int) -> int | None:
        return self._tokens[number] if number < len(self._tokens) else None

    def ranges(self, *, since: int, at_once: int = 5_000) -> Iterator[tuple[int, int]]:
        for start in range(since, self.head.number, at_once):
            yield start, min(start + at_once, self.head.number)

    def added_texts(self, start: int, stop: int) -> list[ChunkText]:
        return [chunk for key, chunk in self.chunks.items() if start < key <= stop]

    def added_vectors(
        self, start: int, stop: int, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        keys = [key for key in self.vectors if start < key <= stop]
        rows = np.array([self.vectors[key] for key in keys], np.float32)
        return np.array(keys, np.int64), rows.reshape(len(keys), dimension)

    def removed(self, start: int, stop: int) -> ChunkKeys:
        gone = [key for number, key in self._removals.items() if start < number <= stop]
        return np.array(gone, np.int64)

    def updated(self, start: int, stop: int) -> ChunkKeys:
        numbers = {key for number, key in self._updates.items() if start < number <= stop}
        return np.array(sorted(numbers & self.chunks.keys()), np.int64)

    def texts_of(self, keys: ChunkKeys) -> list[ChunkText]:
        return [self.chunks[key] for key in keys.tolist() if key in self.chunks]

    def vectors_of(
        self, keys: ChunkKeys, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        having = sorted(set(keys.tolist()) & self.vectors.keys())
        rows = np.array([self.vectors[key] for key in having], np.float32)
        return np.array(having, np.int64), rows.reshape(len(having), dimension)

    def fields_of(self, keys: ChunkKeys) -> list[ChunkFields]:
        found = {
            key: {"collection": ("default",), **self._fields[key]}
            for key in keys.tolist()
            if key in self.chunks
        }
        return [
            ChunkFields(key, str(values["collection"][0]), values) for key, values in found.items()
        ]

    async def run(self, work: Callable[[], T]) -> T:
        return await in_thread(work)


class MemoryText:
    """A TextSnapshot of all chunks that a log has now, scored one by one."""

    immediate = True

    def __init__(self, log: MemoryChangeLog) -> None:
        self.indexed_up_to = log.head if log.chunks or log.head != START else START
        self.terms = {
            key: index_terms(chunk.text, chunk.language)
            for key, chunk in sorted(log.chunks.items())
        }

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = np.array([key for key in self.terms if self._asked(query, key)], np.int64)
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return top_k(keys, await self.scores(query, keys), k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        return np.array([self._score(query, key) for key in keys.tolist()], np.float32)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        held = [
            key for key in among.tolist() if key in self.terms and holds(match, self.terms[key])
        ]
        return np.array(held, np.int64)

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return [self._having(word) for word in words]

    async def statistics(self) -> TextStatistics:
        return TextStatistics(len(self.terms), self._mean if self.terms else None)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        known = self._vocabulary()
        return [() if word in known else as_terms(known.corrections(word)) for word in words]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        known = self._vocabulary()
        return [as_terms(known.similar(word, threshold=threshold)) for word in words]

    @property
    def _mean(self) -> float:
        return sum(map(len, self.terms.values())) / max(1, len(self.terms)) or 1.0

    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(sorted(set().union(*self.terms.values())))

    def _having(self, word: Word) -> int:
        return sum(holds(word, terms) for terms in self.terms.values())

    def _asked(self, query: TextQuery, key: int) -> bool:
        terms = self.terms.get(key)
        if terms is None:
            return False
        if query.where is not None:
            return holds(query.where, terms)
        return any(term.text in terms for word in query.words for term in word)

    def _score(self, query: TextQuery, key: int) -> float:
        if not self._asked(query, key):
            return 0.0
        terms = self.terms[key]
        having = [self._having(as_word(word)) for word in query.words]
        idfs = [idf(number, count=len(self.terms)) for number in having]
        return text_score(query.words, idfs, Counter(terms), length=len(terms), mean=self._mean)


class MemoryVectors:
    """A VectorSnapshot of all vectors that a log has now."""

    immediate = True

    def __init__(self, log: MemoryChangeLog) -> None:
        self.indexed_up_to = log.head
        self.rows = dict(sorted(log.vectors.items()))

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = np.array(list(self.rows), np.int64)
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return top_k(keys, await self.scores(query, keys), k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        zero = np.zeros_like(query)
        rows = [self.rows.get(key, zero) for key in keys.tolist()]
        return np.array([np.vecdot(row, query) for row in rows], np.float32)
