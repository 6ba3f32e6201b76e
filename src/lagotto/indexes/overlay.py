"""The record beside an index: it is searched for what the index lacks, and decides scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import checkpoint
from lagotto.documents import Vector
from lagotto.indexes import base, text_query
from lagotto.indexes.base import ChangeLog, ChunkKeys, FilterKeys, Hits, LogPosition, VectorSnapshot
from lagotto.indexes.bm25 import CountedTerms, idf, term_weight
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, holds
from lagotto.indexes.vectors.sketch import dots
from lagotto.terms.vocabulary import Vocabulary

MOST_CHUNKS = 2_000
"""More new chunks than this take longer to read at a search than a search may take."""

MOST_KEPT = 10_000
"""New chunks that an overlay holds if it has read them a few at a time: each takes some 10 kB."""


def is_short(changes: ChangeLog, since: LogPosition, most: int | None = None) -> bool:
    """Whether at most `most` chunks, or few enough to read, were added since a position."""
    at_once = (MOST_CHUNKS if most is None else most) + 1
    first = next(changes.ranges(since=since.seq, at_once=at_once), None)
    return first is None or first[1] == changes.head.seq


Holders = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Which chunks hold a term, by their positions among the keys, and how often each does."""


@dataclass(frozen=True, eq=False)
class NewerChunks:
    """The chunks added after a position, by ascending keys, and the keys removed since."""

    since: LogPosition
    head: LogPosition
    chunks: Mapping[int, CountedTerms] = field(default_factory=dict)
    removed: ChunkKeys = field(default_factory=lambda: base.NO_HITS.keys)
    removed_holders: dict[Word, int] = field(default_factory=dict)
    """How many of the removed chunks hold a word, as far as an OverlayText has counted them."""
    _holders: dict[str, Holders] = field(default_factory=dict)
    _lengths: dict[Callable[[int], int], NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def only_removed(cls, changes: ChangeLog, *, since: LogPosition) -> NewerChunks:
        """What the log has removed after a position, without what it has added."""
        return cls(since, changes.head, removed=_removed(changes, since=since))

    @cached_property
    def keys(self) -> ChunkKeys:
        return np.array(list(self.chunks), np.int64)

    def extended(self, changes: ChangeLog, *, since: LogPosition) -> NewerChunks | None:
        """The same for a later state of the log, and of the index; only what is new is read.

        None if that is too much to read at a search, or to hold.
        """
        if self.since.seq > since.seq or not base.is_of(changes, self.head):  # not an earlier state
            return NewerChunks(since, since).extended(changes, since=since)
        unread = max(self.head, since)
        if not (is_short(changes, unread) and is_short(changes, since, MOST_KEPT)):
            return None
        chunks = {key: chunk for key, chunk in self.chunks.items() if key > since.seq}
        for start, stop in changes.ranges(since=unread.seq):
            for text in changes.added_texts(start, stop):
                checkpoint()
                chunks[text.key] = CountedTerms.of(text.text, text.language)
        if since == self.since:
            later = _removed(changes, since=self.head)
            removed = np.sort(np.concatenate([self.removed, later]))
        else:
            removed = later = _removed(changes, since=since)
        for key in later[later > since.seq].tolist():  # the others were never among these chunks
            chunks.pop(key, None)
        ordered = dict(sorted(chunks.items()))
        return NewerChunks(since, changes.head, ordered, removed[removed <= since.seq])

    @cached_property
    def mean_length(self) -> float:
        """How many terms a newer chunk has on average, above 0."""
        lengths = [len(chunk.terms) for chunk in self.chunks.values()]
        return sum(lengths) / max(1, len(lengths)) or 1.0

    def holders(self, term: str) -> Holders:
        if term not in self._holders:
            every = [chunk.counts.get(term, 0) for chunk in self.chunks.values()]
            counts = np.array(every, np.float64)
            rows = np.flatnonzero(counts)
            self._holders[term] = rows, counts[rows]
        return self._holders[term]

    def hold(self, terms: Iterable[str]) -> base.Mask:
        """For each of `keys`, whether the chunk holds one of the terms."""
        mask = np.zeros(len(self.keys), np.bool_)
        for term in terms:
            mask[self.holders(term)[0]] = True
        return mask

    def matches(self, query: TextQuery) -> base.Mask:
        """For each of `keys`, whether a query finds the chunk at all."""
        if query.where is None:
            return self.hold(term.text for word in query.words for term in word)
        return np.array([chunk.found_by(query) for chunk in self.chunks.values()], np.bool_)

    def scores(
        self, query: TextQuery, idfs: Sequence[float], *, mean: float, stored: Callable[[int], int]
    ) -> NDArray[np.float64]:
        """The BM25 score of each of `keys`, as CountedTerms has it; `stored` gives lengths."""
        if stored not in self._lengths:
            lengths = [stored(len(chunk.terms)) for chunk in self.chunks.values()]
            self._lengths[stored] = np.array(lengths, np.float64)
        total = np.zeros(len(self.keys))
        for word, word_idf in zip(query.words, idfs, strict=True):
            best = np.zeros(len(self.keys))
            for term in word:
                rows, counts = self.holders(term.text)
                lengths_here = self._lengths[stored][rows]
                weight = term_weight(counts, lengths_here, mean=mean, idf=word_idf)
                best[rows] = np.maximum(best[rows], term.weight * weight)
            total += best
        return total

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(sorted(set().union(*(chunk.counts for chunk in self.chunks.values()))))


def _removed(changes: ChangeLog, *, since: LogPosition) -> ChunkKeys:
    """The keys removed since, ascending; a key is removed once."""
    return np.sort(changes.removed(since.seq, changes.head.seq))


MOST_COUNTED = 2_000
"""The removed chunks with a word are counted as long as no more chunks than this are removed, or
hold the word; otherwise their share is estimated."""

OVERFETCH = 32


class OverlayText(base.TextSnapshot):
    """A TextSnapshot of an index that lags, and of what it lacks."""

    def __init__(self, index: base.TextSnapshot, newer: NewerChunks) -> None:
        self._index = index
        self._newer = newer
        self._idf: dict[Word, tuple[float, float]] = {}
        self._hits: dict[TextQuery, Hits] = {}
        self.position = newer.head
        self.immediate = index.immediate

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        older = await self._older(await self._weighed(query), k=k, allowed=allowed)
        newer = await self._newer_hits(query)
        if allowed is not None:
            newer = newer[allowed.contains(newer.keys)]
        return base.merge_hits([older, newer], k=k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        scores = await self._index.scores(await self._weighed(query), keys)
        scores[base.are_among(keys, self._newer.removed)] = 0.0
        newer = base.are_among(keys, self._newer.keys)
        scores[newer] = (await self._newer_hits(query)).scores_of(keys[newer], ascending=True)
        return scores

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        newer = base.are_among(among, self._newer.keys)
        older = among[~newer & ~base.are_among(among, self._newer.removed)]
        stored = await self._index.matching(match, older)
        chunks = self._newer.chunks
        fresh = [key for key in among[newer].tolist() if holds(match, chunks[key].terms)]
        return np.sort(np.concatenate([stored, np.array(fresh, np.int64)]))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        older = await self._index.frequencies(words)
        return [
            await self._live(word, having) + int(self._newer.hold(word.terms).sum())
            for word, having in zip(words, older, strict=True)
        ]

    async def statistics(self) -> base.TextStatistics:
        older, newer = await self._index.statistics(), self._newer
        count = max(older.chunks - len(newer.removed), 0) + len(newer.keys)
        mean = older.mean_length if older.chunks else None
        return base.TextStatistics(count, mean or newer.mean_length, older.stored_length)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        older = await self._index.alike(words, wanted)
        newer = wanted.find_all(self._newer.vocabulary, words)
        return [await self._united(*both) for both in zip(older, newer, strict=True)]

    async def _older(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        """The best `k` of the index that are still there; mostly few of the best are removed."""
        removed = self._newer.removed
        most = k + len(removed)
        hits = base.NO_HITS
        for depth in (*base.depths(k + OVERFETCH, most), most):
            candidates = await self._index.search(query, k=depth, allowed=allowed)
            hits = candidates[~base.are_among(candidates.keys, removed)]
            if len(hits) >= k or len(candidates) < depth:
                break
        return hits[:k]

    async def _united(self, older: Sequence[Term], newer: Sequence[Term]) -> tuple[Term, ...]:
        """Terms of both parts, the greatest weight first, without those that no chunk has now."""
        weights: dict[str, float] = {}
        for term in (*older, *newer):
            weights[term.text] = max(term.weight, weights.get(term.text, 0.0))
        having = await self.frequencies(text_query.single_words(weights))
        live = [term for term, number in zip(weights, having, strict=True) if number]
        return text_query.as_terms(
            sorted(((term, weights[term]) for term in live), key=lambda pair: (-pair[1], pair[0]))
        )

    async def _live(self, word: Word, having: int) -> int:
        """How many of the chunks that the index counts for a word are still there."""
        removed, counted = self._newer.removed, self._newer.removed_holders
        if not having or not len(removed):
            return having
        if min(having, len(removed)) <= MOST_COUNTED:
            if word not in counted:
                counted[word] = len(await self._index.matching(word, removed))
            return having - counted[word]
        share = len(removed) / max((await self._index.statistics()).chunks, 1)
        return max(1, round(having * (1 - share)))

    async def _weighed(self, query: TextQuery) -> TextQuery:
        """The query with weights that turn the IDF of the index into that of both parts."""
        words = tuple(
            tuple(Term(term.text, term.weight * both / older) for term in word)
            for word, (older, both) in zip(query.words, await self._idfs(query), strict=True)
        )
        return replace(query, words=words)

    async def _idfs(self, query: TextQuery) -> list[tuple[float, float]]:
        """The IDF of each word of a query: in the index, and in both parts."""
        query_words = [text_query.as_word(word) for word in query.words]
        if words := [word for word in query_words if word not in self._idf]:
            older, both = await self._index.statistics(), await self.statistics()
            having = await self._index.frequencies(words), await self.frequencies(words)
            for word, there, everywhere in zip(words, *having, strict=True):
                in_index = idf(there, count=max(older.chunks, there))
                self._idf[word] = in_index, idf(everywhere, count=max(both.chunks, everywhere))
        return [self._idf[word] for word in query_words]

    async def _newer_hits(self, query: TextQuery) -> Hits:
        """The newer chunks that a query asks for, by key."""
        if query not in self._hits:
            newer, known = self._newer, await self.statistics()
            idfs = [both for _, both in await self._idfs(query)]
            mean = known.mean_length or 1.0
            scores = newer.scores(query, idfs, mean=mean, stored=known.stored_length)
            mask = newer.matches(query)
            self._hits[query] = Hits(newer.keys[mask], scores[mask].astype(np.float32))
        return self._hits[query]


class EmptyIndex(base.TextSnapshot, VectorSnapshot):
    """The snapshot of an index that holds nothing; `stored_length` is that of a text index."""

    position = base.START
    immediate = True

    def __init__(self, stored_length: Callable[[int], int] = int) -> None:
        self._stored_length = stored_length

    async def search(self, query: object, *, k: int, allowed: FilterKeys | None) -> Hits:
        return base.NO_HITS

    async def scores(self, query: object, keys: ChunkKeys) -> NDArray[np.float32]:
        return np.zeros(len(keys), np.float32)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return np.empty(0, np.int64)

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return [0] * len(words)

    async def statistics(self) -> base.TextStatistics:
        return base.TextStatistics(0, None, self._stored_length)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        return [()] * len(words)


class OverlayVectors(VectorSnapshot):
    """A VectorSnapshot of an index that lags, and of the vectors that it lacks.

    Without a model, as where these are too many to read, only what is removed is left out.
    """

    def __init__(
        self, index: VectorSnapshot, changes: ChangeLog, *, model_id: str = "", dimension: int = 0
    ) -> None:
        self.since, self.position, self.immediate = index.position, changes.head, index.immediate
        new = self.since.seq, self.position.seq
        self._index = index
        self._removed = changes.removed(*new)
        self._keys, self._vectors = base.NO_HITS.keys, np.empty((0, 0), np.float32)
        if model_id:
            added = changes.added_vectors(*new, model_id=model_id, dimension=dimension)
            self._keys, self._vectors = added

    def over(self, index: VectorSnapshot) -> OverlayVectors:
        """The same over another snapshot of the index at the same position."""
        other = copy(self)
        other._index = index
        return other

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        hits = await self._index.search(query, k=k + len(self._removed), allowed=allowed)
        older = hits[~base.are_among(hits.keys, self._removed)]
        newer = self._newer(query)
        if allowed is not None:
            newer = newer[allowed.contains(newer.keys)]
        return base.merge_hits([older, newer], k=k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        scores = await self._index.scores(query, keys)
        scores[base.are_among(keys, self._removed)] = 0.0
        newer = base.are_among(keys, self._keys)
        scores[newer] = self._newer(query).scores_of(keys[newer])
        return scores

    def _newer(self, query: Vector) -> Hits:
        return Hits(self._keys, dots(self._vectors, query)) if len(self._keys) else base.NO_HITS


VECTORS_PER_READ = 5_000


class RecordVectors:
    """The vectors of one state of the record under a model.

    For indexes that hold approximations, or are behind a network. `best` and `scores` give the same
    scores, in the total order of Hits; a chunk that the record does not have is left out, or has
    the score 0.
    """

    def __init__(self, changes: ChangeLog, *, model_id: str, dimension: int) -> None:
        self._changes = changes
        self._model_id = model_id
        self._dimension = dimension

    async def best(self, query: Vector, keys: ChunkKeys, *, k: int) -> Hits:
        """The `k` chunks with the greatest cosines among those of `keys` that exist."""
        return await self._changes.run(lambda: self.best_of(query, keys, k=k))

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        """The cosine of each of `keys`, 0 for one that does not exist."""
        existing, vectors = await self._changes.run(lambda: self.of(np.unique(keys)))
        return Hits(existing, dots(vectors, query)).scores_of(keys)

    async def best_of_all(self, query: Vector, *, k: int, last: int) -> Hits:
        """The `k` chunks with the greatest cosines among all up to the key `last`."""
        return await self._changes.run(lambda: _best(query, self._up_to(last), k))

    def best_of(self, query: Vector, keys: ChunkKeys, *, k: int) -> Hits:
        """As `best`, for code that runs in a thread."""
        wanted = np.unique(keys)
        parts = np.split(wanted, range(VECTORS_PER_READ, len(wanted), VECTORS_PER_READ))
        return _best(query, map(self.of, parts), k)

    def of(self, keys: ChunkKeys) -> base.KeyedRows:
        """Those of `keys` that exist, ascending, and their vectors."""
        return self._changes.vectors_of(keys, model_id=self._model_id, dimension=self._dimension)

    def added(self, start: int, stop: int) -> base.KeyedRows:
        """The chunks that were added in a range of changes, and their vectors."""
        return self._changes.added_vectors(
            start, stop, model_id=self._model_id, dimension=self._dimension
        )

    def _up_to(self, last: int) -> Iterator[base.KeyedRows]:
        for start, stop in self._changes.ranges(since=0):
            if start >= last:
                break
            yield self.added(start, min(stop, last))


def _best(query: Vector, rows: Iterable[base.KeyedRows], k: int) -> Hits:
    best = base.NO_HITS
    for keys, vectors in rows:
        checkpoint()
        best = base.merge_hits([best, base.top_k(keys, dots(vectors, query), k)], k=k)
    return best
