"""Searching one state of a text index on a Qdrant server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, grpc, models

from lagotto.concurrency import checkpoint, in_thread
from lagotto.indexes.base import (
    ChangeLog,
    ChunkKeys,
    ChunkText,
    FilterKeys,
    LogPosition,
    TextStatistics,
)
from lagotto.indexes.bm25 import idf, text_score
from lagotto.indexes.filter_keys import are_among
from lagotto.indexes.hits import NO_HITS, Hits, merge_hits
from lagotto.indexes.qdrant.client import QdrantServer
from lagotto.indexes.qdrant.conditions import TERMS, TermCondition, holding, term_condition
from lagotto.indexes.qdrant.points import by_keys, seen, visible
from lagotto.indexes.qdrant.pushdown import MOST_KEYS, AllowedPoints, Pushdown
from lagotto.indexes.qdrant.ranking import ExactRanking
from lagotto.indexes.qdrant.raw_requests import nearest
from lagotto.indexes.qdrant.state import CollectionState
from lagotto.indexes.qdrant.term_dictionary import TermDictionary
from lagotto.indexes.qdrant.weights import query_vector, score_bound
from lagotto.indexes.text_query import (
    Match,
    Term,
    TextQuery,
    Word,
    as_word,
    holds,
    single_words,
)
from lagotto.indexes.vocabulary_cache import TermLookup
from lagotto.request_context import time_left
from lagotto.terms import index_terms

SPARSE = "text"
"""The name of the sparse vector of a point."""

MOST_TERMS = 10_000_000
"""Terms of a vocabulary that are read."""

DEEPEST = 20_000
"""Proposals after which a search is satisfied with the best k so far: that many chunks have almost
the same score as the k-th."""

T = TypeVar("T")


PAGE = 1_000
"""Keys of one answer when all that match are wanted."""


class Scoring(NamedTuple):
    """What a query's exact scores are computed with."""

    query: TextQuery
    idfs: list[float]
    mean: float

    def score(self, terms: Sequence[str]) -> float | None:
        """The score of a chunk with these terms, None if the query does not find it."""
        counts = Counter(terms)
        where, words = self.query.where, self.query.words
        if where is not None:
            found = holds(where, terms)
        else:
            found = any(term.text in counts for word in words for term in word)
        if not found:
            return None
        return text_score(words, self.idfs, counts, length=len(terms), mean=self.mean)


class QdrantText:
    """A TextSnapshot of a collection at one position of the change log."""

    immediate = False

    def __init__(
        self,
        server: QdrantServer,
        state: CollectionState,
        changes: ChangeLog,
        dictionary: TermDictionary,
    ) -> None:
        self._server = server
        self._state = state
        self._changes = changes
        self._dictionary = dictionary
        self._pushdown = Pushdown(state, changes)
        self._frequencies = dictionary.frequencies(state.position)

    @property
    def indexed_up_to(self) -> LogPosition:
        return self._state.position

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        points = await self._pushdown.of(allowed)
        if k < 1 or points.most < 1:
            return NO_HITS
        found = NO_HITS
        if any(query.words):
            found = await self._ranked(query, k, points)
        if query.where is None or len(found) >= k:
            return found
        return await self._filled(query.where, k, points, found)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        scores = np.zeros(len(keys), np.float32)
        if any(query.words):
            known = await self._exact(await self._scoring(query), np.unique(keys))
            for index, key in enumerate(keys.tolist()):
                scores[index] = known.get(key, 0.0)
        return scores

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        condition, exact = await self._condition(match)
        parts = [np.empty(0, np.int64)]
        for start in range(0, len(among), MOST_KEYS):
            some = by_keys(among[start : start + MOST_KEYS].tolist())
            async for keys in self._scrolled(visible(self._state, condition, some)):
                parts.append(keys if exact else await self._holding(match, keys))
        return np.sort(np.concatenate(parts))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        unknown = [word for word in dict.fromkeys(words) if word not in self._frequencies]
        counted = await asyncio.gather(*map(self._count, unknown))
        self._frequencies.update(zip(unknown, counted, strict=True))
        return [self._frequencies[word] for word in words]

    async def statistics(self) -> TextStatistics:
        state = self._state
        return TextStatistics(state.chunks, state.mean_length if state.chunks else None)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        having = await self.frequencies(single_words(words))
        unknown = {word for word, number in zip(words, having, strict=True) if not number}
        if not unknown:
            return [()] * len(words)
        lookup = await self._vocabulary()
        return await in_thread(lookup.corrected, words, unknown)

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        lookup = await self._vocabulary()
        return await in_thread(lookup.alike, words, threshold=threshold)

    async def _ask(self, question: Callable[[QdrantClient], T]) -> T:
        return await in_thread(self._server.ask_briefly, question, time_left())

    async def _count(self, word: Word) -> int:
        if not word.terms:
            return 0
        wanted = visible(self._state, holding(word.terms))
        found = await self._ask(lambda client: client.count(self._state.collection, wanted))
        return found.count

    async def _vocabulary(self) -> TermLookup:
        return await in_thread(self._dictionary.lookup, self._state.position, self._read_vocabulary)

    def _beginning_with(self, start: str) -> Iterable[str]:
        return self._dictionary.beginning_with(start, self._state.position, self._read_vocabulary)

    def _read_vocabulary(self) -> Iterable[str]:
        wanted = visible(self._state)
        found = self._server.ask(
            lambda client: client.facet(
                self._state.collection, TERMS, facet_filter=wanted, limit=MOST_TERMS, exact=True
            )
        )
        return [str(hit.value) for hit in found.hits]

    async def _condition(self, match: Match) -> TermCondition:
        return await in_thread(term_condition, match, self._beginning_with)

    async def _ranked(self, query: TextQuery, k: int, points: AllowedPoints) -> Hits:
        """The best chunks of those that hold one of the words."""
        scoring = await self._scoring(query)
        where = None if query.where is None else (await self._condition(query.where)).condition
        most = None if points.keys is None or points.few else len(points.keys)
        asked = seen(self._state, where, points.condition)
        found = await self._best(scoring, k, points, asked, most=most)
        if found is not None:
            return found
        parts = []
        for condition in points.by_keys():
            asked = seen(self._state, where, condition)
            parts.append(await self._best(scoring, k, points, asked, most=None) or NO_HITS)
        return merge_hits(parts, k=k)

    async def _best(
        self,
        scoring: Scoring,
        k: int,
        points: AllowedPoints,
        asked: models.Filter | None,
        *,
        most: int | None,
    ) -> Hits | None:
        """The best chunks under a condition, exactly; None if more than `most` had to be seen."""
        state = self._state
        bound = score_bound(longest=state.longest, mean=scoring.mean, fixed_mean=state.mean)
        ranking = ExactRanking(k, bound=bound)
        vector = query_vector(scoring.query.words, scoring.idfs)
        depth = 2 * k + 32
        while True:
            proposed = await self._proposed(vector, asked, limit=depth, shards=points.shards)
            sure = await self._score(ranking, scoring, points, proposed, step=k + 16)
            if sure or len(proposed) < depth or (depth > DEEPEST and len(ranking) >= k):
                return ranking.hits()
            depth *= 4
            if most is not None and depth > most:
                return None

    async def _score(
        self,
        ranking: ExactRanking,
        scoring: Scoring,
        points: AllowedPoints,
        proposed: Hits,
        *,
        step: int,
    ) -> bool:
        """Score what was proposed, as far as that may change the best k; whether they are sure."""
        for start in range(0, len(proposed), step):
            if ranking.is_sure(float(proposed.scores[start])):
                return True
            keys = ranking.unseen(proposed.keys[start : start + step].tolist())
            kept = points.kept(np.array(sorted(keys), np.int64))
            ranking.add(keys, await self._exact(scoring, kept))
        return len(proposed) > 0 and ranking.is_sure(float(proposed.scores[-1]))

    async def _proposed(
        self,
        vector: grpc.SparseVector,
        asked: models.Filter | None,
        *,
        limit: int,
        shards: list[int | str] | None = None,
    ) -> Hits:
        """The points with the greatest products."""
        if not vector.indices:
            return NO_HITS
        return await nearest(
            self._server,
            self._state.collection,
            grpc.VectorInput(sparse=vector),
            using=SPARSE,
            where=asked,
            limit=limit,
            shards=shards,
        )

    async def _filled(self, match: Match, k: int, points: AllowedPoints, found: Hits) -> Hits:
        """What was found, and chunks without any of the words for which the condition holds."""
        where = (await self._condition(match)).condition
        rest: list[int] = []
        missing = k - len(found)
        conditions = [None] if points.keys is None else points.by_keys()
        for condition in conditions:
            async for keys in self._scrolled(visible(self._state, where, condition)):
                new = keys[~are_among(keys, found.keys)]
                rest += (await self._holding(match, new)).tolist()
                if len(rest) >= missing:
                    break
            if len(rest) >= missing:
                break
        others = np.array(rest[:missing], np.int64)
        return merge_hits([found, Hits(others, np.zeros(len(others), np.float32))], k=k)

    async def _scrolled(self, asked: models.Filter) -> AsyncIterator[ChunkKeys]:
        """The keys of all points that meet a condition, ascending, page by page."""
        offset: models.ExtendedPointId | None = None
        while True:
            points, offset = await self._ask(
                lambda client, offset=offset: client.scroll(  # type: ignore[misc]
                    self._state.collection, asked, limit=PAGE, offset=offset, with_payload=False
                )
            )
            if points:
                yield np.array([point.id for point in points], np.int64)
            if offset is None:
                return

    async def _scoring(self, query: TextQuery) -> Scoring:
        having = await self.frequencies([as_word(word) for word in query.words])
        state = self._state
        idfs = [idf(number, count=max(state.chunks, number)) for number in having]
        return Scoring(query, idfs, state.mean_length)

    async def _exact(self, scoring: Scoring, keys: ChunkKeys) -> dict[int, float]:
        """The scores of those of `keys` that the record has and the query finds."""
        scores: dict[int, float] = {}
        for key, terms in (await self._terms(keys)).items():
            score = scoring.score(terms)
            if score is not None:
                scores[key] = score
        return scores

    async def _holding(self, match: Match, keys: ChunkKeys) -> ChunkKeys:
        """Those of `keys` for which a condition holds by the record."""
        held = [key for key, terms in (await self._terms(keys)).items() if holds(match, terms)]
        return np.array(sorted(held), np.int64)

    async def _terms(self, keys: ChunkKeys) -> dict[int, list[str]]:
        """The terms of those of `keys` that the record has at this position."""
        keys = keys[keys <= self._state.position.number]
        if not len(keys):
            return {}
        chunks = await self._changes.run(lambda: self._changes.texts_of(keys))
        return await in_thread(_analyzed, chunks)


def _analyzed(chunks: Sequence[ChunkText]) -> dict[int, list[str]]:
    terms = {}
    for chunk in chunks:
        checkpoint()
        terms[chunk.key] = index_terms(chunk.text, chunk.language)
    return terms
