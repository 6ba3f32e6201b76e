"""Changes that an index does not hold yet, searched from the record and merged.

An index may lag: it is behind a network, another process holds its lock, the disk is full. Then
its snapshot answers for what it holds, without what was removed since, and the chunks added since
are scored here. So a writer finds what it wrote, and if k chunks match, k come back.

Vector scores are exact either way. Text scores of the newer chunks use document frequencies and a
count of both parts together. The index keeps its own statistics for its chunks, and where it can't
tell the mean length (tantivy, FTS5), that of the newer chunks stands in. With a lag of one per cent
of a base the scores differ by about one per cent from those of an index that is up to date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.indexes.base import (
    START,
    ChangeLog,
    ChunkKeys,
    FilterKeys,
    LogPosition,
    TextSnapshot,
    TextStatistics,
    VectorSnapshot,
)
from lagotto.indexes.bm25 import idf, text_score
from lagotto.indexes.filter_keys import are_among
from lagotto.indexes.hits import NO_HITS, Hits, merge_hits, top_k
from lagotto.indexes.text_query import (
    Match,
    Term,
    TextQuery,
    Word,
    as_terms,
    as_word,
    holds,
    single_words,
)
from lagotto.terms import analyze
from lagotto.terms.vocabulary import Vocabulary

MOST_CHANGES = 5_000
"""More than this takes longer to read at a search than a search may take."""


def is_short(changes: ChangeLog, *, since: LogPosition) -> bool:
    """Whether the changes since a position are few enough for an overlay."""
    return changes.head.number - since.number <= MOST_CHANGES


class NewerChunks:
    """The chunks added after a position, with their terms, and the keys removed since."""

    def __init__(
        self, head: LogPosition, *, terms: dict[int, list[str]], removed: ChunkKeys
    ) -> None:
        self.head = head
        self.terms = terms
        self.removed = removed
        self.keys = np.array(sorted(terms), np.int64)
        self.counts = {key: Counter(found) for key, found in terms.items()}

    @classmethod
    def of(cls, changes: ChangeLog, *, since: LogPosition) -> NewerChunks:
        """What the log has after a position."""
        terms: dict[int, list[str]] = {}
        removed = [np.empty(0, np.int64)]
        for start, stop in changes.ranges(since=since.number):
            for chunk in changes.added_texts(start, stop):
                terms[chunk.key] = analyze(chunk.text, chunk.language)
            removed.append(changes.removed(start, stop))
        gone = np.unique(np.concatenate(removed))
        return cls(changes.head, terms=terms, removed=gone[gone <= since.number])

    @property
    def mean_length(self) -> float:
        """How many terms a newer chunk has on average, at least 1."""
        return max(1.0, sum(map(len, self.terms.values())) / max(1, len(self.terms)))

    def frequency(self, word: Word) -> int:
        """How many of the newer chunks hold one of a word's terms."""
        return sum(any(term in held for term in word.terms) for held in self.counts.values())

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The terms of the newer chunks."""
        return Vocabulary(sorted(set().union(*self.counts.values())))


class EmptyText:
    """The TextSnapshot of an index that holds nothing."""

    indexed_up_to = START
    immediate = True

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        return NO_HITS

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        return np.zeros(len(keys), np.float32)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return np.empty(0, np.int64)

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return [0] * len(words)

    async def statistics(self) -> TextStatistics:
        return TextStatistics(0, None)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        return [()] * len(words)

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        return [()] * len(words)


class OverlayText:
    """A TextSnapshot of an index that lags, and of what it lacks."""

    def __init__(self, index: TextSnapshot, newer: NewerChunks) -> None:
        self._index = index
        self._newer = newer
        self.indexed_up_to = newer.head
        self.immediate = index.immediate

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        found = await self._index.search(query, k=k + len(self._newer.removed), allowed=allowed)
        kept = ~are_among(found.keys, self._newer.removed)
        keys = self._newer.keys
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        keys = keys[[_asked(query, self._newer.terms[key]) for key in keys.tolist()]]
        newer = Hits(keys, await self._scored(query, keys))
        return merge_hits([Hits(found.keys[kept], found.scores[kept]), newer], k=k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        scores = await self._index.scores(query, keys)
        scores[are_among(keys, self._newer.removed)] = 0.0
        newer = are_among(keys, self._newer.keys)
        scores[newer] = await self._scored(query, keys[newer])
        return scores

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        newer = are_among(among, self._newer.keys)
        older = among[~newer & ~are_among(among, self._newer.removed)]
        found = await self._index.matching(match, older)
        held = [key for key in among[newer].tolist() if holds(match, self._newer.terms[key])]
        return np.sort(np.concatenate([found, np.array(held, np.int64)]))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return [
            having - await self._removed_with(word) + self._newer.frequency(word)
            for word, having in zip(words, await self._index.frequencies(words), strict=True)
        ]

    async def statistics(self) -> TextStatistics:
        older, newer = await self._index.statistics(), self._newer
        count = older.chunks - len(newer.removed) + len(newer.keys)
        mean = newer.mean_length
        if older.mean_length is not None and older.chunks:
            total = older.mean_length * older.chunks + mean * len(newer.keys)
            mean = total / (older.chunks + len(newer.keys))
        return TextStatistics(max(count, len(newer.keys)), mean)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        having = await self.frequencies(single_words(words))
        unknown = [word for word, number in zip(words, having, strict=True) if not number]
        older = dict(zip(unknown, await self._index.corrections(unknown), strict=True))
        find = self._newer.vocabulary.corrections
        return [
            await self._united(older[word], as_terms(find(word))) if word in older else ()
            for word in words
        ]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        older = await self._index.similar(words, threshold=threshold)
        find = self._newer.vocabulary.similar
        return [
            await self._united(terms, as_terms(find(word, threshold=threshold)))
            for word, terms in zip(words, older, strict=True)
        ]

    async def _united(self, older: Sequence[Term], newer: Sequence[Term]) -> tuple[Term, ...]:
        """Terms of both parts, the greatest weight first, without those that no chunk has now."""
        weights: dict[str, float] = {}
        for term in (*older, *newer):
            weights[term.text] = max(term.weight, weights.get(term.text, 0.0))
        having = await self.frequencies(single_words(weights))
        living = [term for term, number in zip(weights, having, strict=True) if number]
        return as_terms(
            sorted(((term, weights[term]) for term in living), key=lambda pair: (-pair[1], pair[0]))
        )

    async def _removed_with(self, word: Word) -> int:
        """How many of the removed chunks the index counts for a word."""
        if not len(self._newer.removed):
            return 0
        return len(await self._index.matching(word, self._newer.removed))

    async def _scored(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """BM25 of newer chunks, 0 where the query asks for others."""
        if not len(keys) or not query.words:
            return np.zeros(len(keys), np.float32)
        known = await self.statistics()
        having = await self.frequencies([as_word(word) for word in query.words])
        idfs = [idf(number, count=known.chunks) for number in having]
        mean = known.mean_length or 1.0
        scores = [self._score(query, key, idfs, mean) for key in keys.tolist()]
        return np.array(scores, np.float32)

    def _score(self, query: TextQuery, key: int, idfs: Sequence[float], mean: float) -> float:
        terms, counts = self._newer.terms[key], self._newer.counts[key]
        if not _asked(query, terms):
            return 0.0
        return text_score(query.words, idfs, counts, length=len(terms), mean=mean)


@dataclass(frozen=True, slots=True)
class OverlayVectors:
    """A VectorSnapshot of an index that lags, and of the vectors that it lacks."""

    index: VectorSnapshot
    keys: ChunkKeys
    vectors: Vectors
    removed: ChunkKeys
    indexed_up_to: LogPosition

    @classmethod
    def of(
        cls, index: VectorSnapshot, changes: ChangeLog, *, model_id: str, dimension: int
    ) -> OverlayVectors:
        """The index with what the log has after it."""
        since = index.indexed_up_to.number
        last = changes.head.number
        keys, vectors = changes.added_vectors(since, last, model_id=model_id, dimension=dimension)
        return cls(index, keys, vectors, changes.removed(since, last), changes.head)

    @property
    def immediate(self) -> bool:
        return self.index.immediate

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        found = await self.index.search(query, k=k + len(self.removed), allowed=allowed)
        kept = ~are_among(found.keys, self.removed)
        keys, scores = self.keys, np.vecdot(self.vectors, query)
        if allowed is not None:
            inside = allowed.contains(keys)
            keys, scores = keys[inside], scores[inside]
        older = Hits(found.keys[kept], found.scores[kept])
        return merge_hits([older, top_k(keys, scores, k)], k=k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        scores = await self.index.scores(query, keys)
        scores[are_among(keys, self.removed)] = 0.0
        own = dict(zip(self.keys.tolist(), np.vecdot(self.vectors, query).tolist(), strict=True))
        for index, key in enumerate(keys.tolist()):
            scores[index] = own.get(key, scores[index])
        return scores


def _asked(query: TextQuery, terms: Sequence[str]) -> bool:
    """Whether a query finds a chunk with these terms at all."""
    if query.where is not None:
        return holds(query.where, terms)
    return any(term.text in terms for word in query.words for term in word)
