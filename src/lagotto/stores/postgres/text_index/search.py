"""BM25, conditions and spelling over postings, for one search.

Keys are dense enough for arrays with one element per key: scores are sums of such arrays, and
conditions are masks combined by `&`, `|` and `~`.

For corrections and similar terms, pg_trgm proposes and the rules that all stores share decide by
the similarity of whole words. Word similarity (`<%`) compares with the best part of a term and is
never lower, so it proposes all that `%` does, and more that the rules reject. Corrections use `%`:
with their low threshold the surplus would double the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import ClassVar, LiteralString

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import storable
from lagotto.indexes.base import ChunkKeys, FilterKeys, LogPosition, TextSnapshot, TextStatistics
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.filter_keys import Mask
from lagotto.indexes.hits import Hits, top_k
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Word,
    as_terms,
    holds,
    single_words,
)
from lagotto.stores.postgres.adapters import KeysParameter, keys_of
from lagotto.stores.postgres.text_index.postings import Postings, joined, living, phrase
from lagotto.stores.postgres.transaction import ReadTransaction
from lagotto.terms import Vocabulary
from lagotto.terms.features import deletion_pairs
from lagotto.terms.vocabulary import CANDIDATES, LEAST_SIMILARITY

_OF_TERMS = "SELECT term, records FROM posting WHERE term = ANY(%(terms)s) ORDER BY segment"
_OF_PREFIX = """
SELECT term, records FROM posting WHERE term >= %(start)s AND term < %(stop)s ORDER BY segment
"""
_HOLDING = """
SELECT string_agg(int8send(chunk_key), '') FROM chunk_terms
WHERE chunk_key = ANY(%(keys)s) AND terms @@ cast(%(phrase)s AS tsquery)
"""
_ALL = "SELECT string_agg(int8send(chunk_key), '') FROM chunk_terms"

PROPOSED = 2 * CANDIDATES
"""Terms that pg_trgm proposes: more than the rules use, as some may have no chunks left."""

_NEAREST = f"ORDER BY similarity(text, %(word)s) DESC, text LIMIT {PROPOSED}"
_SIMILAR = f"SELECT text FROM term WHERE %(word)s <%% text {_NEAREST}"
_MEANT = f"""
(SELECT text FROM term WHERE text %% %(word)s {_NEAREST})
UNION
SELECT text FROM term WHERE shapes && %(shapes)s
"""
_THRESHOLDS = """
SELECT set_config('pg_trgm.similarity_threshold', %(threshold)s, true),
       set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)
"""

BEHIND_ALL = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of all chunks that BM25 needs, and the removed chunks."""

    last_key: int
    chunks: int
    terms: int
    gone: ChunkKeys


@dataclass(slots=True)
class PostingsText:
    """A TextSnapshot over postings in tables; postings are read once per view."""

    reader: ReadTransaction
    known: Statistics
    indexed_up_to: LogPosition
    immediate: ClassVar[bool] = False
    _postings: dict[str, Postings] = field(default_factory=dict)
    _scored: dict[TextQuery, tuple[NDArray[np.float32], Mask]] = field(default_factory=dict)
    _everything: Mask | None = None

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        scores, found = await self._score(query)
        keys = np.flatnonzero(found if allowed is None else found & allowed.mask(len(found)))
        return top_k(keys, scores[keys], k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        scores, _ = await self._score(query)
        return scores[keys]

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        await self._read(term for word in words for term in word.terms)
        return [self._frequency(word.terms) for word in words]

    def _frequency(self, terms: Sequence[str]) -> int:
        """How many chunks hold one of the terms."""
        keys = [self._postings[storable(term)]["key"] for term in dict.fromkeys(terms)]
        return len(keys[0]) if len(keys) == 1 else len(np.unique(np.concatenate([[], *keys])))

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return among[(await self.holding(match))[among]]

    async def statistics(self) -> TextStatistics:
        known = self.known
        return TextStatistics(known.chunks, known.terms / known.chunks if known.chunks else None)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        having = await self.frequencies(single_words(words))
        return [
            () if number else await _corrections(self.reader, self, word)
            for word, number in zip(words, having, strict=True)
        ]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        return [await _similar(self.reader, self, word, threshold=threshold) for word in words]

    async def all_keys(self) -> ChunkKeys:
        """Keys of all findable chunks, ascending."""
        return np.flatnonzero(await self.everything())

    async def everything(self) -> Mask:
        """All findable chunks."""
        if self._everything is None:
            ((keys,),) = await self.reader.rows(_ALL)
            self._everything = self.mask(keys_of(keys))
        return self._everything

    async def holding(self, match: Match) -> Mask:
        """The chunks for which `match` holds; undefined for keys without a chunk."""
        nothing = self.mask()
        if isinstance(match, Word):
            await self._read(match.terms)
            return self._any_of(match.terms)
        if isinstance(match, Prefix):
            return await self._beginning_with(storable(match.start))
        if isinstance(match, Phrase):
            return reduce(or_, [await self._in_order(terms) for terms in match.variants], nothing)
        if isinstance(match, Either):
            return reduce(or_, [await self.holding(part) for part in match.parts], nothing)
        if isinstance(match, Every):
            return reduce(and_, [await self.holding(part) for part in match.parts], ~nothing)
        return ~await self.holding(match.part)

    def mask(self, keys: ChunkKeys | None = None) -> Mask:
        """A mask of these keys."""
        mask = np.zeros(self.known.last_key + 1, np.bool_)
        if keys is not None:
            mask[keys] = True
        return mask

    async def _score(self, query: TextQuery) -> tuple[NDArray[np.float32], Mask]:
        """Scores by key, and which keys are found."""
        if query not in self._scored:
            terms = [term for word in query.words for term in word]
            await self._read([term.text for term in terms])
            total = np.zeros(self.known.last_key + 1)
            for word in query.words:
                self._add(total, word)
            found = self._any_of([term.text for term in terms])
            if query.where is not None:
                found = await self.holding(query.where)
                if holds(query.where, ()):  # also for keys without a chunk
                    found &= await self.everything()
                total[~found] = 0.0
            self._scored[query] = total.astype(np.float32), found
        return self._scored[query]

    def _add(self, total: NDArray[np.float64], word: Sequence[Term]) -> None:
        """Add the score of a word: that of its best alternative."""
        having = self._frequency([term.text for term in word])
        whole = idf(having, count=self.known.chunks)
        if len(word) == 1:
            keys, scores = self._term_scores(word[0], whole)
            total[keys] += scores
            return
        best_of = np.zeros(len(total))
        for term in word:
            keys, scores = self._term_scores(term, whole)
            best_of[keys] = np.maximum(best_of[keys], scores)
        total += best_of

    def _term_scores(self, term: Term, idf: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        postings = self._postings[storable(term.text)]
        known = self.known
        mean = known.terms / known.chunks if known.chunks else 1.0
        counts, lengths = (postings[name].astype(np.float64) for name in ("count", "length"))
        scores = term_weight(counts, lengths, mean=mean or 1.0, idf=term.weight * idf)
        return postings["key"], scores

    def _any_of(self, terms: Iterable[str]) -> Mask:
        mask = self.mask()
        for term in terms:
            mask[self._postings[storable(term)]["key"]] = True
        return mask

    async def _read(self, terms: Iterable[str]) -> None:
        """Read the postings of terms that were not read before."""
        unread = {storable(term) for term in terms} - self._postings.keys()
        if unread:
            rows = joined(await self.reader.rows(_OF_TERMS, {"terms": sorted(unread)}))
            for term in unread:
                self._postings[term] = living(rows.get(term, b""), self.known.gone)

    async def _beginning_with(self, start: str) -> Mask:
        bounds = {"start": start, "stop": start + BEHIND_ALL}
        rows = await self.reader.rows(_OF_PREFIX, bounds)
        records = b"".join(records for _, records in rows)
        return self.mask(living(records, self.known.gone)["key"])

    async def _in_order(self, terms: Sequence[str]) -> Mask:
        """The chunks that contain these terms one after the other."""
        await self._read(terms)
        mask = reduce(and_, [self._any_of([term]) for term in terms]) if terms else self.mask()
        if len(terms) < 2 or not mask.any():
            return mask
        asked = {"keys": KeysParameter(np.flatnonzero(mask)), "phrase": phrase(terms)}
        ((keys,),) = await self.reader.rows(_HOLDING, asked)
        return self.mask(keys_of(keys))


async def _corrections(reader: ReadTransaction, text: TextSnapshot, word: str) -> tuple[Term, ...]:
    """The corrections of a word that is not a term."""
    shapes = deletion_pairs([word])[0].view(np.int64).tolist()
    asked = {"word": storable(word), "shapes": shapes}
    vocabulary = await _vocabulary(reader, text, _MEANT, asked, threshold=LEAST_SIMILARITY)
    return as_terms(vocabulary.corrections(word))


async def _similar(
    reader: ReadTransaction, text: TextSnapshot, word: str, *, threshold: float
) -> tuple[Term, ...]:
    """The terms similar to a word by their trigrams."""
    asked = {"word": storable(word)}
    vocabulary = await _vocabulary(reader, text, _SIMILAR, asked, threshold=threshold)
    return as_terms(vocabulary.similar(word, threshold=threshold))


async def _vocabulary(
    reader: ReadTransaction,
    text: TextSnapshot,
    proposing: LiteralString,
    asked: Mapping[str, object],
    *,
    threshold: float,
) -> Vocabulary:
    """The proposed terms that some chunk contains."""
    await reader.rows(_THRESHOLDS, {"threshold": str(threshold)})
    terms = [term for (term,) in await reader.rows(proposing, asked)]
    frequencies = await text.frequencies(single_words(terms))
    return Vocabulary([term for term, having in zip(terms, frequencies, strict=True) if having])
