"""Full text on a Qdrant server: sparse vectors of our own BM25 weights."""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, grpc, models

from lagotto._internal.concurrency import checkpoint, in_thread
from lagotto.indexes.base import (
    NO_HITS,
    ChangeLog,
    ChunkKeys,
    ChunkText,
    ContextText,
    FilterKeys,
    Hits,
    LogPosition,
    PreparedTexts,
    TextStatistics,
    are_among,
    kth_greatest,
    merge_hits,
    text_rules,
    top_k,
)
from lagotto.indexes.bm25 import K1, B, TermLookup, VocabularyCache, idf, term_weight, text_score
from lagotto.indexes.qdrant.client import QdrantServer
from lagotto.indexes.qdrant.collections import CollectionState
from lagotto.indexes.qdrant.filters import TERMS, TermCondition, holding, term_condition
from lagotto.indexes.qdrant.following import QdrantFollower, is_of
from lagotto.indexes.qdrant.points import (
    MOST_KEYS,
    AllowedPoints,
    NewPoint,
    Pushdown,
    by_keys,
    seen,
    visible,
)
from lagotto.indexes.qdrant.raw_requests import nearest
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import Match, Term, TextQuery, Word, as_word, holds
from lagotto.request_context import time_left
from lagotto.terms import index_terms
from lagotto.terms.vocabulary import MOST_CORRECTIONS, MOST_SIMILAR

ROUNDING = 1.0001
"""The server adds 32-bit floats: relative errors far below this, for any number of words."""


def dimension_of(term: str) -> int:
    """The dimension of a term, one of 2**32; different terms may share one."""
    return crc32(term.encode("utf-8", "surrogatepass"))


def chunk_vector(counts: Mapping[str, int], *, length: int, mean: float) -> grpc.SparseVector:
    """The vector of a chunk of `length` terms, given how often it holds each."""
    weights: dict[int, float] = defaultdict(float)
    for term, count in counts.items():
        weights[dimension_of(term)] += term_weight(float(count), float(length), mean=mean, idf=1.0)
    return _sparse(weights)


def query_vector(words: Sequence[Sequence[Term]], idfs: Sequence[float]) -> grpc.SparseVector:
    """The vector of a query; its dot product with a chunk's is about the BM25 score."""
    weights: dict[int, float] = defaultdict(float)
    for word, word_idf in zip(words, idfs, strict=True):
        for text, weight in _best_weights(word).items():
            weights[dimension_of(text)] += weight * word_idf
    return _sparse(weights)


def score_bound(*, longest: int, mean: float, fixed_mean: float) -> float:
    """The greatest ratio of an exact score to the product; see above."""
    ratio = _divisor(longest, fixed_mean) / _divisor(longest, mean)
    return max(1.0, ratio) * ROUNDING


def _divisor(length: int, mean: float) -> float:
    """D for a term that occurs once."""
    return 1 + K1 * (1 - B + B * length / mean)


def _best_weights(word: Sequence[Term]) -> Mapping[str, float]:
    best: Counter[str] = Counter()
    for term in word:
        best[term.text] = max(best[term.text], term.weight)  # type: ignore[assignment]
    return best


def _sparse(weights: Mapping[int, float]) -> grpc.SparseVector:
    return grpc.SparseVector(indices=weights, values=weights.values())


class ExactRanking:
    """The best `k` of what has been scored; `bound` times a product is no less than the score."""

    def __init__(self, k: int, *, bound: float) -> None:
        self._k = k
        self._bound = bound
        self._scored: dict[int, float] = {}
        self._seen: set[int] = set()

    def __len__(self) -> int:
        return len(self._scored)

    def unseen(self, keys: Sequence[int]) -> list[int]:
        """Those of `keys` that have not been added."""
        return [key for key in keys if key not in self._seen]

    def add(self, keys: Sequence[int], scores: Mapping[int, float]) -> None:
        """Add proposals, of which only those with a score are hits."""
        self._seen.update(keys)
        self._scored.update(scores)

    def is_sure(self, product: float) -> bool:
        """Whether no chunk of this product or less can be one of the best."""
        if len(self._scored) < self._k:
            return False
        scores = np.fromiter(self._scored.values(), np.float32, len(self._scored))
        return bool(kth_greatest(scores, self._k) > self._bound * product)

    def hits(self) -> Hits:
        """The best so far."""
        keys = np.fromiter(self._scored, np.int64, len(self._scored))
        scores = np.fromiter(self._scored.values(), np.float32, len(self._scored))
        return top_k(keys, scores, self._k)


MOST_COUNTED = 100_000
"""Words whose frequencies are kept."""

ReadTerms = Callable[[], Iterable[str]]


class TermDictionary:
    """The terms of the last state that was asked for."""

    def __init__(self) -> None:
        self._likeness = VocabularyCache()
        self._position: LogPosition | None = None
        self._terms: list[str] = []
        self._reading = threading.Lock()
        self._counted: tuple[LogPosition | None, dict[Word, int]] = (None, {})

    def frequencies(self, position: LogPosition) -> dict[Word, int]:
        """The document frequencies at a position, as far as they have been counted."""
        known, counted = self._counted
        if known != position or len(counted) >= MOST_COUNTED:
            counted = {}
            self._counted = (position, counted)
        return counted

    def lookup(self, position: LogPosition, read: ReadTerms) -> TermLookup:
        """The terms by likeness; `read` is called if need be."""
        return self._likeness.at(position, lambda: self._sorted(position, read))

    def beginning_with(self, start: str, position: LogPosition, read: ReadTerms) -> list[str]:
        """The terms with a prefix."""
        terms = self._sorted(position, read)
        first = bisect_left(terms, start)
        last = next(
            (index for index in range(first, len(terms)) if not terms[index].startswith(start)),
            len(terms),
        )
        return terms[first:last]

    def _sorted(self, position: LogPosition, read: ReadTerms) -> list[str]:
        with self._reading:
            if self._position != position:
                self._terms = sorted(read())
                self._position = position
            return self._terms


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
    def position(self) -> LogPosition:
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

    async def corrections(
        self, words: Sequence[str], *, limit: int = MOST_CORRECTIONS
    ) -> list[tuple[Term, ...]]:
        lookup = await self._vocabulary()
        return await in_thread(lookup.corrected, words, limit=limit)

    async def similar(
        self, words: Sequence[str], *, threshold: float, limit: int = MOST_SIMILAR
    ) -> list[tuple[Term, ...]]:
        lookup = await self._vocabulary()
        return await in_thread(lookup.alike, words, threshold=threshold, limit=limit)

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
        keys = keys[keys <= self._state.position.seq]
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


SAMPLED = 4_000
"""Changes from whose chunks the mean length is estimated before a collection is filled."""

DRIFTED = (0.8, 1.2)
"""Where the mean length has left this share of the one that weights were computed with, a search
reads many more chunks than it returns: the collection is built again."""


class QdrantTextIndex(QdrantFollower):
    """A TextIndex in a collection of a Qdrant server."""

    role = "text"

    def __init__(self, site: IndexSite) -> None:
        super().__init__(site, made_with=text_rules())
        self._dictionary = TermDictionary()

    def stored_length(self, terms: int, /) -> int:
        return terms

    def catch_up(self, changes: ChangeLog) -> QdrantText | None:
        state = self._caught_up(changes)
        if state.position != changes.head:
            return None
        return QdrantText(self.server, state, changes, self._dictionary)

    def latest(self, changes: ChangeLog) -> QdrantText | None:
        state = self._state
        if state is None or not is_of(changes, state.position):
            return None
        return QdrantText(self.server, state, changes, self._dictionary)

    def prepare(self, texts: Iterable[ContextText]) -> PreparedTexts:
        """Nothing to prepare."""
        return {}

    def add_chunks(self, changes: ChangeLog, *, since: int, prepared: PreparedTexts) -> None:
        """Nothing to do: the index follows later."""

    def remove_documents(self, changes: ChangeLog, document_keys: Sequence[int]) -> None:
        """Nothing to do: the index follows later."""

    def _create(self, changes: ChangeLog) -> CollectionState:
        return self.collections.create(
            sparse={SPARSE: models.SparseVectorParams()},
            keywords=(TERMS,),
            mean=self._known_mean(changes) or _estimated_mean(changes),
        )

    def _known_mean(self, changes: ChangeLog) -> float | None:
        """The mean length by the collection that is built again."""
        state = self._state
        if state is None or not state.chunks or not is_of(changes, state.position):
            return None
        return state.mean_length

    def _points(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> Iterator[NewPoint]:
        for chunk in changes.added_texts(start, stop):
            checkpoint()
            terms = index_terms(chunk.text, chunk.language)
            counts = Counter(terms)
            vector = chunk_vector(counts, length=len(terms), mean=state.mean)
            payload = {TERMS: sorted(counts), "length": len(terms)}
            vectors = grpc.NamedVectors(vectors={SPARSE: grpc.Vector(sparse=vector)})
            yield NewPoint(chunk.key, grpc.Vectors(vectors=vectors), payload, len(terms))

    def _keys(self, changes: ChangeLog, start: int, stop: int) -> ChunkKeys:
        return np.array([chunk.key for chunk in changes.added_texts(start, stop)], np.int64)

    def _certain(self, changes: ChangeLog, start: int, stop: int) -> ChunkKeys:
        """Not those of unknown language: which one stood in for it was decided when they came."""
        chunks = changes.added_texts(start, stop)
        return np.array([chunk.key for chunk in chunks if chunk.detected], np.int64)

    def _outdated(self, state: CollectionState) -> bool:
        least, most = DRIFTED
        drift = state.mean_length / state.mean
        return state.chunks > 0 and not least <= drift <= most


def _estimated_mean(changes: ChangeLog) -> float:
    """The mean length of the chunks of a log, or of a sample if there are many."""
    last = changes.head.seq
    keys = np.arange(1, last + 1, dtype=np.int64)
    if last > SAMPLED:
        keys = np.sort(np.random.default_rng(last).choice(last, SAMPLED, replace=False) + 1)
    lengths = [_length(chunk) for chunk in changes.texts_of(keys)]
    return sum(lengths) / max(1, len(lengths)) or 1.0


def _length(chunk: ChunkText) -> int:
    checkpoint()
    return len(index_terms(chunk.text, chunk.language))
