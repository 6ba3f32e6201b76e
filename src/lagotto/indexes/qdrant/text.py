"""Full text on a Qdrant server: sparse vectors of our own BM25 weights.

A point's weights have the mean length of when its epoch was begun, and no IDF, which the query has.
So products are about the scores, within a bound that is known: a search reads proposals from the
record and scores them, until no other chunk can be among the best.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from qdrant_client import grpc, models

from lagotto._internal.concurrency import checkpoint, in_thread
from lagotto.documents import storable
from lagotto.indexes import base, bm25, text_query
from lagotto.indexes.base import ChangeLog, ChunkKeys, ChunkText, FilterKeys, Hits, kth_greatest
from lagotto.indexes.pushdown import collections_of, superset_condition
from lagotto.indexes.qdrant import driver
from lagotto.indexes.qdrant.driver import QdrantDriver
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import Point, RemoteIndex, RemoteState
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, holds
from lagotto.request_context import time_left
from lagotto.terms.vocabulary import Vocabulary

ROUNDING = 1.0001
"""The server adds 32-bit floats: relative errors far below this, for any number of words."""

MOST_KEYS_SENT = 1_000  # up to here allowed chunks are told by their keys
KEYS_PER_PAGE = 1_000  # keys of one answer when all that match are wanted
DEEPEST = 20_000
"""Proposals after which a search is satisfied with the best k so far: that many chunks have almost
the same score as the k-th."""

MOST_TERMS = 10_000_000  # terms of a vocabulary that are read
MOST_COUNTED = 100_000  # words whose frequencies are kept
CHUNKS_SAMPLED = 4_000
"""Changes from whose chunks the mean length is estimated before a collection is filled."""

DRIFTED = (0.8, 1.2)
"""Where the mean length has left this share of the one that weights were computed with, a search
reads many more chunks than it returns: the collection is built again."""


class QdrantTextIndex(RemoteIndex["QdrantText"], base.TextIndex[ChangeLog]):
    def __init__(self, site: IndexSite) -> None:
        name = site.name("text", f"{base.text_rules()}/qdrant-{driver.LAYOUT}")
        self.qdrant = QdrantDriver(site, name, dimension=None)
        super().__init__(self.qdrant, timeout=site.timeout)
        self.terms, self.vocabulary = bm25.AtPosition[list[str]](), bm25.VocabularyCache()
        self.counted = bm25.AtPosition[dict[Word, int]]()

    def added(self, changes: ChangeLog, start: int, stop: int) -> Sequence[ChunkText]:
        return changes.added_texts(start, stop)

    def of(self, changes: ChangeLog, keys: ChunkKeys) -> Sequence[ChunkText]:
        return changes.texts_of(keys)

    def point(self, source: ChunkText, state: RemoteState) -> Point:
        counted = _counted(source)
        length = len(counted.terms)
        return Point(
            source.key,
            chunk_weights(counted.counts, length=length, mean=state.mean),
            {driver.TERMS: sorted(counted.counts), "length": length},
            length=length,
            # of unknown language: which one stood in for it was decided when the chunk came
            certain=source.detected is not None,
        )

    def _open(self, state: RemoteState, changes: ChangeLog) -> QdrantText:
        return QdrantText(self, state, changes)

    def _mean(self, changes: ChangeLog) -> float:
        """By the points that are written again, or by the chunks, or a sample of many."""
        state = self._state
        if state.chunks and base.is_of(changes, state.last.position):
            return state.mean_length
        last = changes.head.seq
        keys = np.arange(1, last + 1, dtype=np.int64)
        if last > CHUNKS_SAMPLED:
            some = np.random.default_rng(last).choice(last, CHUNKS_SAMPLED, replace=False)
            keys = np.sort(some + 1)
        lengths = [len(_counted(chunk).terms) for chunk in changes.texts_of(keys)]
        return sum(lengths) / max(1, len(lengths)) or 1.0

    def _needs_rebuild(self, state: RemoteState) -> bool:
        least, most = DRIFTED
        return state.chunks > 0 and not least <= state.mean_length / state.mean <= most


class QdrantText(base.TextSnapshot):
    """A TextSnapshot at the last mark of a state."""

    def __init__(self, index: QdrantTextIndex, state: RemoteState, changes: ChangeLog) -> None:
        self._index = index
        self._driver = index.qdrant
        self._server = self._driver.server
        self._collection = self._driver.collection(state.epoch)
        self._state = state
        self._changes = changes
        self._updated: ChunkKeys | None = None
        self.position = state.last.position
        counted = index.counted.at(self.position, dict)
        self._frequencies = counted if len(counted) < MOST_COUNTED else {}

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        points = await self._allowed(allowed)
        if k < 1 or not self._state.chunks or (points.keys is not None and not len(points.keys)):
            return base.NO_HITS
        hits = base.NO_HITS
        if any(query.words):
            hits = await self._ranked(query, k, points)
        if query.where is None or len(hits) >= k:
            return hits
        return await self._filled(query.where, k, points, hits)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        known: Mapping[int, float] = {}
        if any(query.words):
            known = await self._exact(query, await self._idfs(query), np.unique(keys))
        return np.array([known.get(key, 0.0) for key in keys.tolist()], np.float32)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        where, exact = await self._condition(match)
        parts = [np.empty(0, np.int64)]
        filters = (
            driver.visible(self._state, where, driver.by_keys(some))
            for some in base.batches(among.tolist(), driver.MOST_KEYS)
        )
        async for keys in self._scrolled(filters):
            parts.append(keys if exact else await self._holding(match, keys))
        return np.sort(np.concatenate(parts))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        unknown = [word for word in dict.fromkeys(words) if word not in self._frequencies]
        counted = await asyncio.gather(*map(self._count, unknown))
        self._frequencies.update(zip(unknown, counted, strict=True))
        return [self._frequencies[word] for word in words]

    async def statistics(self) -> base.TextStatistics:
        state = self._state
        return base.TextStatistics(state.chunks, state.mean_length if state.chunks else None)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        def find() -> list[tuple[Term, ...]]:
            vocabulary = self._index.vocabulary.at(self.position, lambda: Vocabulary(self._terms()))
            return wanted.find_all(vocabulary, words)

        return await in_thread(find)

    async def _count(self, word: Word) -> int:
        if not word.terms:
            return 0
        wanted = driver.visible(self._state, holding(word.terms))
        question = methodcaller("count", self._collection, wanted)
        answer = await in_thread(self._server.ask_briefly, question, time_left())
        return int(answer.count)

    def _beginning_with(self, start: str) -> Sequence[str]:
        terms = self._terms()
        stop = bisect_right(terms, start, key=lambda term: term[: len(start)])
        return terms[bisect_left(terms, start) : stop]

    def _terms(self) -> list[str]:
        """All terms of the index, in order."""

        def read() -> list[str]:
            where = driver.visible(self._state)
            options = {"facet_filter": where, "limit": MOST_TERMS, "exact": True}
            answer = self._server.call("facet", self._collection, driver.TERMS, **options)
            return sorted(str(hit.value) for hit in answer.hits)

        return self._index.terms.at(self.position, read)

    async def _condition(self, match: Match) -> TermCondition:
        return await in_thread(term_condition, match, self._beginning_with)

    async def _ranked(self, query: TextQuery, k: int, points: AllowedPoints) -> Hits:
        """The best chunks of those that hold one of the words."""
        where = None if query.where is None else (await self._condition(query.where))[0]
        most = None if points.keys is None or points.few else len(points.keys)
        hits = await self._best(query, k, points, [where, points.condition], most=most)
        if hits is not None:
            return hits
        parts = [await self._best(query, k, points, [where, some]) for some in points.by_keys()]
        return base.merge_hits([part or base.NO_HITS for part in parts], k=k)

    async def _best(
        self,
        query: TextQuery,
        k: int,
        points: AllowedPoints,
        where: Sequence[models.Condition | None],
        *,
        most: int | None = None,
    ) -> Hits | None:
        """The best chunks under conditions, exactly; None if more than `most` had to be seen."""
        state, idfs = self._state, await self._idfs(query)
        bound = score_bound(longest=state.longest, mean=state.mean_length, fixed_mean=state.mean)
        weights = driver.sparse_vector(query_weights(query.words, idfs))
        scored: dict[int, float] = {}
        known: set[int] = set()

        def is_sure(product: float) -> bool:
            """Whether no chunk of this product or less can be one of the best."""
            return len(scored) >= k and bool(kth_greatest(_scores(scored), k) > bound * product)

        first = 2 * k + 32
        for depth in base.depths(first, math.inf if most is None else max(first, most) + 1):
            proposed = await self._driver.nearest(
                state,
                grpc.VectorInput(sparse=weights),
                where=driver.seen(state, *where),
                limit=depth,
                collections=points.collections,
            )
            for start in range(0, len(proposed), k + 16):
                if is_sure(float(proposed.scores[start])):
                    break
                new = set(proposed.keys[start : start + k + 16].tolist()) - known
                known |= new
                keys = points.within(np.array(sorted(new), np.int64))
                scored |= await self._exact(query, idfs, keys)
            sure = len(proposed) > 0 and is_sure(float(proposed.scores[-1]))
            if sure or len(proposed) < depth or (depth > DEEPEST and len(scored) >= k):
                return base.top_k(np.fromiter(scored, np.int64, len(scored)), _scores(scored), k)
        return None

    async def _filled(self, match: Match, k: int, points: AllowedPoints, hits: Hits) -> Hits:
        """What was found, and chunks without any of the words for which the condition holds."""
        where, _ = await self._condition(match)
        rest: list[int] = []
        missing = k - len(hits)
        conditions = [None] if points.keys is None else points.by_keys()
        filters = (driver.visible(self._state, where, some) for some in conditions)
        async for keys in self._scrolled(filters):
            new = keys[~base.are_among(keys, hits.keys)]
            rest += (await self._holding(match, new)).tolist()
            if len(rest) >= missing:
                break
        others = np.array(rest[:missing], np.int64)
        return base.merge_hits([hits, Hits(others, np.zeros(len(others), np.float32))], k=k)

    async def _scrolled(self, filters: Iterable[models.Filter]) -> AsyncIterator[ChunkKeys]:
        """The keys of all points that meet one condition after the other, page by page."""
        ask = partial(self._server.ask_briefly, left=time_left())
        for where in filters:
            pages = self._driver.pages(self._state, where, size=KEYS_PER_PAGE, ask=ask)
            while (keys := await in_thread(next, pages, None)) is not None:
                yield keys

    async def _allowed(self, allowed: FilterKeys | None) -> AllowedPoints:
        """The part of `allowed` that the snapshot has, and a condition for the server."""
        if allowed is None:
            return AllowedPoints()
        keys = allowed.keys[allowed.keys <= self._state.last.seq]
        collections = collections_of(allowed.where)
        if len(keys) <= MOST_KEYS_SENT:
            return AllowedPoints(keys, driver.by_keys(keys.tolist()), collections, few=True)
        where = superset_condition(allowed.where, self._state.fields)
        if where is None:
            return AllowedPoints(keys, None, collections)
        # fields that are newer in the record than in the index
        since, head = self._state.last.seq, self._changes.head.seq
        if self._updated is None and since < head:
            self._updated = await self._changes.run(lambda: self._changes.updated(since, head))
        newer = np.empty(0, np.int64) if self._updated is None else self._updated
        newer = newer[base.are_among(newer, keys)]
        if len(newer) > MOST_KEYS_SENT:
            return AllowedPoints(keys, None, collections)
        either = [driver.condition(where), driver.by_keys(newer.tolist())]
        return AllowedPoints(keys, models.Filter(should=either), collections)

    async def _idfs(self, query: TextQuery) -> list[float]:
        having = await self.frequencies([text_query.as_word(word) for word in query.words])
        return [bm25.idf(number, count=max(self._state.chunks, number)) for number in having]

    async def _exact(
        self, query: TextQuery, idfs: Sequence[float], keys: ChunkKeys
    ) -> dict[int, float]:
        """The scores of those of `keys` that the record has and the query finds."""
        mean = self._state.mean_length
        return {
            key: chunk.score(query, idfs, mean=mean)
            for key, chunk in (await self._read(keys)).items()
            if chunk.found_by(query)
        }

    async def _holding(self, match: Match, keys: ChunkKeys) -> ChunkKeys:
        """Those of `keys` for which a condition holds by the record."""
        chunks = await self._read(keys)
        return np.array(sorted(key for key in chunks if holds(match, chunks[key].terms)), np.int64)

    async def _read(self, keys: ChunkKeys) -> dict[int, bm25.CountedTerms]:
        """Those of `keys` that the record has at this position."""
        keys = keys[keys <= self._state.last.seq]
        if not len(keys):
            return {}
        chunks = await self._changes.run(lambda: self._changes.texts_of(keys))
        return await in_thread(lambda: {chunk.key: _counted(chunk) for chunk in chunks})


def _counted(chunk: ChunkText) -> bm25.CountedTerms:
    checkpoint()
    return bm25.CountedTerms.of(chunk.text, chunk.language)


class AllowedPoints(NamedTuple):
    """The chunks that may be found, with a condition that holds for all of them.

    `keys` are None without a filter. If `few`, the condition is exact. `collections` are the only
    ones that have them, None for any.
    """

    keys: ChunkKeys | None = None
    condition: models.Condition | None = None
    collections: frozenset[str] | None = None
    few: bool = False

    def within(self, keys: ChunkKeys) -> ChunkKeys:
        """Those of `keys` that may be found."""
        return keys if self.keys is None else keys[base.are_among(keys, self.keys)]

    def by_keys(self) -> Iterator[models.Condition]:
        """Exact conditions that together hold for all of them."""
        keys = [] if self.keys is None else self.keys.tolist()
        return map(driver.by_keys, base.batches(keys, driver.MOST_KEYS))


def _scores(scored: Mapping[int, float]) -> NDArray[np.float32]:
    return np.fromiter(scored.values(), np.float32, len(scored))


def dimension_of(term: str) -> int:
    """The dimension of a term, one of 2**32; different terms may share one."""
    return crc32(term.encode("utf-8", "surrogatepass"))


def chunk_weights(counts: Mapping[str, int], *, length: int, mean: float) -> dict[int, float]:
    """The vector of a chunk of `length` terms, given how often it holds each."""
    weights: dict[int, float] = defaultdict(float)
    for term, count in counts.items():
        weight = bm25.term_weight(float(count), float(length), mean=mean, idf=1.0)
        weights[dimension_of(term)] += weight
    return weights


def query_weights(words: Sequence[Sequence[Term]], idfs: Sequence[float]) -> dict[int, float]:
    """The vector of a query; its dot product with a chunk's is about the BM25 score."""
    weights: dict[int, float] = defaultdict(float)
    for word, word_idf in zip(words, idfs, strict=True):
        best: dict[str, float] = {}
        for term in word:
            best[term.text] = max(best.get(term.text, 0.0), term.weight)
        for text, weight in best.items():
            weights[dimension_of(text)] += weight * word_idf
    return weights


def score_bound(*, longest: int, mean: float, fixed_mean: float) -> float:
    """The greatest ratio of an exact score to the product; see the module."""
    k1, b = bm25.K1, bm25.B
    weighted, exact = (1 + k1 * (1 - b + b * longest / some) for some in (fixed_mean, mean))
    return max(1.0, weighted / exact) * ROUNDING


TermCondition = tuple[models.Condition, bool]
"""A condition that every chunk meets for which a Match holds, and whether no other does."""


def holding(terms: Iterable[str]) -> models.Condition:
    """Chunks that hold one of the terms."""
    wanted = sorted(set(map(storable, terms)))
    return models.FieldCondition(key=driver.TERMS, match=models.MatchAny(any=wanted))


def term_condition(match: Match, expand: Callable[[str], Iterable[str]]) -> TermCondition:
    """The condition for a Match; `expand` gives the terms of the index that begin with something.

    The order of words is not stored, so phrases are not exact.
    """
    if isinstance(match, Word):
        return holding(match.terms), True
    if isinstance(match, text_query.Prefix):
        return holding(expand(match.start)), True
    if isinstance(match, text_query.Phrase):
        variants = [
            [holding([term]) for term in sorted(set(some))] for some in match.variants if some
        ]
        return _one_of([models.Filter(must=terms) for terms in variants]), False
    if isinstance(match, text_query.Every | text_query.Either):
        parts = [term_condition(part, expand) for part in match.parts]
        conditions = [condition for condition, _ in parts]
        every = isinstance(match, text_query.Every)
        joined = models.Filter(must=conditions) if every else _one_of(conditions)
        return joined, all(exact for _, exact in parts)
    condition, exact = term_condition(match.part, expand)
    # what meets one that is not exact need not hold it
    return models.Filter(must_not=[condition] if exact else None), exact


def _one_of(conditions: Sequence[models.Condition]) -> models.Condition:
    """One of the conditions; without any, none: unlike an empty `should`, which holds always."""
    return models.Filter(should=list(conditions)) if conditions else holding([])
