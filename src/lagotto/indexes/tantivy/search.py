"""Searching one state of a tantivy index."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from operator import or_
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from tantivy import Occur, Order, Query, Schema, SchemaBuilder, Searcher

from lagotto import errors
from lagotto._internal.memory import paused_collector
from lagotto.documents import storable
from lagotto.errors import IndexDamagedError, StoreError, StoreReadOnlyError, native_panics
from lagotto.indexes import base, text_query
from lagotto.indexes.base import NO_HITS, ChunkKeys, FilterKeys, Hits
from lagotto.indexes.bm25 import VocabularyCache, idf
from lagotto.indexes.folder import NO_PERMISSION, NO_SPACE
from lagotto.indexes.text_query import Likeness, Match, Phrase, Term, TextQuery, Word
from lagotto.terms.vocabulary import Vocabulary

IMMEDIATE_WORDS = 32
"""With more words, even a small base is searched in a thread: 200 of them take 10 ms."""

KEY = "key"
DOCUMENT = "document"
TERMS = "terms"

MOST_TIED = 20_000
"""Of more chunks than this with the same score at the cut, tantivy picks the ones it likes."""

MOST_KEYS_LOOKED_UP = 2_500
"""Up to here looking up one key after the other beats walking through the dictionary of keys:
2,000 documents of 200,000 take 8 ms instead of 12, 4,000 take 17 instead of 14."""

MOST_LISTED = 500
"""All hits are listed if there are no more: that takes 90 us more than the best, and scoring what
the other legs found in a search of its own 240."""

LISTED_PER_KEY = 5
"""Chunks with a word that are listed in the time that it takes to look up one key."""

BITS_OF_SCORE = 24
"""A 32-bit float holds integers exactly up to two to the power of this."""

MOST_COMPILED, MOST_CACHED = 64, 10_000
"""Queries, and words with their frequencies, that are kept."""

_MEAN_LENGTH = re.compile(r'"value": ([0-9.e+-]+),\s*"description": "avgdl')


@dataclass(frozen=True)
class TantivySnapshot:
    """The index as it was when this was made, whatever is written later.

    Holds at least all changes up to `position`. `dead` of its `total` documents are removed, but
    still count in the BM25 statistics.
    """

    folder: Path
    searcher: Searcher
    position: base.LogPosition
    total: int
    dead: int
    cache: TermCache
    _compiled: dict[TextQuery, Query] = field(default_factory=dict, repr=False)
    _frequencies: dict[Word, int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """How many chunks can be found."""
        return int(self.searcher.num_docs)

    @cached_property
    def mean_length(self) -> float | None:
        """The mean length of the chunks in BM25, which tantivy tells only with an explanation."""
        with tantivy_errors(self.folder):
            for term in self._some_terms():
                query = Query.term_query(index_schema(), TERMS, term, "freq")
                for _, address in self.searcher.search(query, 1, count=False).hits:
                    self.cache.term = term
                    match = _MEAN_LENGTH.search(query.explain(self.searcher, address).to_json())
                    return float(match[1]) if match else None
        return None

    def _some_terms(self) -> Iterator[str]:
        """A term that an earlier snapshot held, and the most frequent one."""
        if self.cache.term is not None:
            yield self.cache.term
        for term, _ in self.searcher.terms_with_prefix(TERMS, "", limit=1):
            yield term

    def search(self, query: TextQuery, k: int, allowed: FilterKeys | None = None) -> SeenHits:
        """The k chunks with the greatest BM25 score, best first, equal ones by key; maybe others.

        A word counts with the best of its alternatives. If k of the allowed chunks match, k come
        back. A query without words finds what its condition holds for, by key.
        """
        if k < 1 or (allowed and not allowed.keys.size):
            return SeenHits(NO_HITS, sure=True, whole=False)
        if not any(query.words):
            hits = self._first(query.where, k, allowed) if query.where else NO_HITS
            return SeenHits(hits, sure=True, whole=False)
        with tantivy_errors(self.folder):
            wanted = self._scoring(query)
            terms = tuple(term.text for word in query.words for term in word)
            most = self._most_matching(query.where or Word(terms))
            if allowed is not None:
                return self._top_among(wanted, k, allowed, most=most)
            if most <= MOST_LISTED:
                return self._within(wanted, k, most + 1)
            return self._top(wanted, k)

    def present(self, terms: Sequence[str], allowed: FilterKeys) -> list[str]:
        """Those of the terms that an allowed chunk holds, in one search for BITS_OF_SCORE of them.

        A term's score is a power of two, so that their sum says which ones a chunk holds.
        """
        present: list[str] = []
        for start in range(0, len(terms), BITS_OF_SCORE):
            some = terms[start : start + BITS_OF_SCORE]
            wanted = any_of(
                Query.boost_query(Query.const_score_query(_holding(term), 1.0), 2.0**bit)
                for bit, term in enumerate(some)
            )
            most = self._most_matching(Word(tuple(some)))
            with tantivy_errors(self.folder):
                if most > LISTED_PER_KEY * len(allowed.keys):
                    hits = self._best(only_where(self._chosen(allowed), wanted), len(allowed.keys))
                else:
                    hits = self._best(wanted, most)
                    hits = hits[allowed.contains(hits.keys)]
            bits = reduce(or_, set(hits.scores.astype(np.int64).tolist()), 0)
            present += [term for bit, term in enumerate(some) if bits >> bit & 1]
        return present

    def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The BM25 score of each of `keys`, the same as in `search`; 0 without a match."""
        if not any(query.words) or not keys.size:
            return np.zeros(len(keys), np.float32)
        with tantivy_errors(self.folder):
            inside = only_where(_having(KEY, keys), self._scoring(query))
            hits = self._best(inside, len(keys))
        return hits.scores_of(keys)

    def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        """Those of the sorted keys `among` for which a condition holds, ascending."""
        wanted = match_query(match)
        most = self._most_matching(match)
        if len(among) <= MOST_KEYS_LOOKED_UP and most > LISTED_PER_KEY * len(among):
            wanted, most = only_where(_having(KEY, among), wanted), len(among)
        keys = self._in_order(wanted, most)
        return keys[base.are_among(keys, among)]

    def vocabulary(self) -> list[str]:
        """All terms that some chunk has, the most frequent ones first."""
        live = Query.all_query() if self.dead else None
        with tantivy_errors(self.folder):
            counted = self.searcher.terms_with_prefix(TERMS, "", filter_query=live)
        return [term for term, _ in counted]

    def document_frequency(self, word: Word) -> int:
        """How many chunks hold one of the word's terms."""
        known = self._frequencies.get(word)
        if known is None:
            with tantivy_errors(self.folder):
                known = self._counted(word)
            if len(self._frequencies) >= MOST_CACHED:
                self._frequencies.clear()
            self._frequencies[word] = known
        return known

    def _counted(self, word: Word) -> int:
        terms = dict.fromkeys(map(storable, word.terms))
        frequencies = {term: self.searcher.doc_freq(TERMS, term) for term in terms}
        present = tuple(term for term, having in frequencies.items() if having)
        if present and self.cache.term is None:
            self.cache.term = present[0]
        if len(present) < 2 and not self.dead:
            return sum(frequencies.values())
        wanted = match_query(Word(present))
        answer = self.searcher.aggregate(wanted, {"n": {"value_count": {"field": KEY}}})
        return int(answer["n"]["value"])

    def _scoring(self, query: TextQuery) -> Query:
        """Kept, since the scores of other chunks are asked for after a search."""
        known = self._compiled.get(query)
        if known is None:
            words = tuple(map(self._of_one_idf, query.words))
            known = scoring_query(replace(query, words=words))
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            self._compiled[query] = known
        return known

    def _of_one_idf(self, word: Sequence[Term]) -> tuple[Term, ...]:
        """The alternatives with weights that turn tantivy's IDF of each into that of the word.

        Those that no chunk holds are left out: of a single term tantivy skips what can't be among
        the best, so that a search takes a third less time.
        """
        if len(word) < 2:
            return tuple(word)
        frequencies = [self.searcher.doc_freq(TERMS, storable(term.text)) for term in word]
        pairs = [(term, having) for term, having in zip(word, frequencies, strict=True) if having]
        if len(pairs) < 2:
            return (pairs[0][0] if pairs else word[0],)
        whole = idf(self.document_frequency(text_query.as_word(word)), count=len(self))
        return tuple(
            Term(term.text, term.weight * whole / idf(having, count=self.total))
            for term, having in pairs
        )

    def _first(self, match: Match, k: int, allowed: FilterKeys | None) -> Hits:
        """The k chunks with the least keys."""
        if allowed is None:
            keys = self._in_order(match_query(match), min(k, len(self)))
        else:
            keys = self.matching(match, allowed.keys)[:k]
        return Hits(keys, np.zeros(len(keys), np.float32))

    def _in_order(self, wanted: Query, count: int) -> ChunkKeys:
        """The least `count` keys of the chunks that are wanted, ascending."""
        with tantivy_errors(self.folder):
            answer = self.searcher.search(
                wanted, max(1, count), count=False, order_by_field=KEY, order=Order.Asc
            )
        with paused_collector():
            return np.array([key for key, _ in answer.hits], np.int64)

    def _most_matching(self, match: Match) -> int:
        """A condition holds for no more chunks than this."""

        def holders(term: str) -> int:
            return int(self.searcher.doc_freq(TERMS, storable(term)))

        if isinstance(match, Phrase):  # no more than hold the rarest of its terms
            return sum(min(map(holders, terms)) for terms in match.variants if terms)
        if isinstance(match, Word):
            return sum(map(holders, set(match.terms)))
        return len(self)

    def _top(self, wanted: Query, k: int) -> SeenHits:
        """The best k; deeper than k as long as the last ones tie with something unseen."""
        seen = SeenHits(NO_HITS, sure=True, whole=False)
        for depth in base.depths(k + 16, k + MOST_TIED):
            seen = self._within(wanted, k, depth)
            if seen.sure:
                break
        return seen

    def _top_among(self, wanted: Query, k: int, allowed: FilterKeys, *, most: int) -> SeenHits:
        """The best k of `allowed`, by a search of those alone where that is cheaper.

        Where the filter has nothing to do with the query, the first depth is enough, and also
        where it sees all hits, of which there are at most `most`.
        """
        needed = k + 3 * math.isqrt(k) + 1  # more than k, since chance is uneven
        expected = needed * len(self) // len(allowed.keys) + 16
        for depth in base.depths(min(expected, most + 1), _worth(allowed)):
            seen = self._within(wanted, k, depth, allowed.keys)
            if seen.sure:
                return seen
        inside = only_where(self._chosen(allowed), wanted)
        if len(allowed.keys) > MOST_KEYS_LOOKED_UP:
            return self._top(inside, k)
        return self._within(inside, k, len(allowed.keys) + 1)

    def _within(
        self, wanted: Query, k: int, depth: int, allowed: ChunkKeys | None = None
    ) -> SeenHits:
        """The hits among the first `depth`."""
        depth = max(1, min(depth, len(self)))
        seen = self._best(wanted, depth)
        hits = seen if allowed is None else seen[base.are_among(seen.keys, allowed)]
        hits = base.top_k(hits.keys, hits.scores, len(hits))
        whole = len(seen) < depth or depth == len(self)
        sure = whole or (len(hits) >= k and bool(hits.scores[k - 1] > seen.scores[-1]))
        return SeenHits(hits, sure, whole)

    def _best(self, wanted: Query, limit: int) -> Hits:
        """The hits with the greatest scores, best first, equal ones in any order."""
        hits = self.searcher.search(wanted, max(1, limit), count=False).hits
        if not hits:
            return NO_HITS
        scores, addresses = zip(*hits, strict=True)
        keys = cast("list[int]", self.searcher.fast_field_values(KEY, list(addresses)))
        return Hits(np.array(keys, np.int64), np.array(scores, np.float32))

    def _chosen(self, allowed: FilterKeys) -> Query:
        """The allowed chunks; kept with their keys, whose searches follow each other."""
        known: Query | None = allowed.compiled.get("tantivy")
        if known is None:
            field, keys = KEY, allowed.keys
            if allowed.documents is not None:
                field, keys = DOCUMENT, allowed.documents
            known = allowed.compiled["tantivy"] = _having(field, keys)
        return known


class TantivyText(base.EmbeddedSnapshot[TantivySnapshot], base.TextSnapshot):
    @cached_property
    def _whole(self) -> dict[TextQuery, tuple[FilterKeys | None, Hits]]:
        """Queries of which all hits were seen, among the allowed chunks."""
        return {}

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        brief = self._is_brief(query)
        seen = await self._ask(lambda index: index.search(query, k, allowed), brief=brief)
        if seen.whole:
            self._whole[query] = allowed, seen.hits
        return seen.hits[:k]

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        allowed, hits = self._whole.get(query, (None, None))
        if hits is not None and (allowed is None or allowed.contains(keys).all()):
            return hits.scores_of(keys)
        return await self._ask(lambda index: index.scores(query, keys), brief=self._is_brief(query))

    async def present(self, terms: Sequence[str], allowed: FilterKeys, *, most: int) -> list[str]:
        if len(allowed.keys) > MOST_KEYS_LOOKED_UP:
            return await super().present(terms, allowed, most=most)
        # Kept with the filter: the words of its queries repeat.
        known: dict[str, bool | None] = allowed.compiled.setdefault("tantivy terms", {})
        answers = {term: known.get(term) for term in terms}
        if new := [term for term, answer in answers.items() if answer is None]:
            present = await self._ask(
                lambda index: index.present(new, allowed), brief=self.immediate
            )
            answers |= dict.fromkeys(new, False) | dict.fromkeys(present, True)
            if len(known) >= MOST_CACHED:
                known.clear()
            known |= answers
        return [term for term in terms if answers[term]]

    def _is_brief(self, query: TextQuery) -> bool:
        return self.immediate and len(query.words) <= IMMEDIATE_WORDS

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        return await self._ask(lambda index: index.matching(match, among))

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return await self._ask(lambda index: [*map(index.document_frequency, words)], brief=True)

    async def statistics(self) -> base.TextStatistics:
        return base.TextStatistics(len(self.state), self.state.mean_length, stored_length)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        known = self.state.cache.vocabularies
        ready = known.ready(self.position)
        if ready is not None and wanted.is_known(ready, words):
            return wanted.find_all(ready, words)  # in less time than changing threads takes
        return await self._ask(
            lambda index: wanted.find_all(
                known.at(index.position, lambda: Vocabulary(index.vocabulary())), words
            )
        )


class SeenHits(NamedTuple):
    """Hits in their order: `sure` if the best k are among them, `whole` if there are no others."""

    hits: Hits
    sure: bool
    whole: bool


def _worth(allowed: FilterKeys) -> int:
    """How many hits can be seen in the time that it takes to look for that many keys."""
    if allowed.documents is not None:
        return 2 * len(allowed.documents) + 500
    return min(8 * len(allowed.keys), len(allowed.keys) + 8_000)


@dataclass
class TermCache:
    """What a snapshot leaves to the next: a term that the index holds, and its vocabulary.

    Finding either walks through all terms.
    """

    term: str | None = None
    vocabularies: VocabularyCache = field(default_factory=VocabularyCache)


def stored_length(terms: int) -> int:
    """The length that tantivy stores in a byte: exact up to 40, then with four binary digits."""
    if terms <= 40:
        return terms
    above = terms - 24
    dropped = above.bit_length() - 4
    return 24 + (above >> dropped << dropped)


@cache
def index_schema() -> Schema:
    """A chunk's key, its document's key, and its terms with their positions."""
    builder = SchemaBuilder()
    builder.add_integer_field(KEY, indexed=True, fast=True)
    builder.add_integer_field(DOCUMENT, indexed=True)
    builder.add_text_field(TERMS, tokenizer_name="whitespace", index_option="position")
    return builder.build()


def scoring_query(query: TextQuery) -> Query:
    """Any of the words; their scores add up, each one's being that of its best alternative.

    Where there is a condition, it alone says what is found, and adds nothing to the score.
    """
    words = any_of(list(map(_word_query, filter(None, query.words))))
    if query.where is None:
        return words
    silent = without_score(match_query(query.where))
    return Query.boolean_query([(Occur.Must, silent), (Occur.Should, words)])


def _word_query(alternatives: Sequence[Term]) -> Query:
    queries = []
    for term in alternatives:
        query = Query.term_query(index_schema(), TERMS, storable(term.text), "freq")
        queries.append(query if term.weight == 1 else Query.boost_query(query, term.weight))
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)


def match_query(match: Match) -> Query:
    """The chunks for which `match` holds; what they score means nothing."""
    if isinstance(match, Word):
        return any_of(map(_holding, match.terms))
    if isinstance(match, text_query.Prefix):
        start = _special.sub(r"\\\g<0>", storable(match.start))
        return Query.regex_query(index_schema(), TERMS, f"{start}.*")
    if isinstance(match, Phrase):
        return any_of(_holding(*terms) for terms in match.variants if terms)
    if isinstance(match, text_query.Either):
        return any_of(map(match_query, match.parts))
    # tantivy needs something to take the negative conditions away from
    clauses = [(Occur.Must, Query.all_query())]
    for part in match.parts if isinstance(match, text_query.Every) else (match,):
        if isinstance(part, text_query.Without):
            clauses.append((Occur.MustNot, match_query(part.part)))
        else:
            clauses.append((Occur.Must, match_query(part)))
    return Query.boolean_query(clauses)


_special = re.compile(r"[\\.+*?()|\[\]{}^$]")


def _holding(*terms: str) -> Query:
    """The chunks that hold the terms one right after the other."""
    some = list(map(storable, terms))
    if len(some) == 1:
        return Query.term_query(index_schema(), TERMS, some[0], "basic")
    return Query.phrase_query(index_schema(), TERMS, [*some])


def _having(field: str, keys: ChunkKeys) -> Query:
    """The chunks that have one of `keys` in a field, without score."""
    if len(keys) > MOST_KEYS_LOOKED_UP:
        return without_score(Query.term_set_query(index_schema(), field, keys.tolist()))
    schema, term = index_schema(), Query.term_query
    return without_score(any_of(term(schema, field, key, "basic") for key in keys.tolist()))


def without_score(condition: Query) -> Query:
    """A condition that adds nothing to the score of what it holds for."""
    return Query.const_score_query(condition, 0.0)


def only_where(silent: Query, wanted: Query) -> Query:
    """`wanted` where a condition without score holds, with the same scores."""
    return Query.boolean_query([(Occur.Must, silent), (Occur.Must, wanted)])


def any_of(queries: Iterable[Query]) -> Query:
    """One of the queries, or several; nothing if there are none."""
    should = Occur.Should  # looked up once: there may be thousands
    return Query.boolean_query([(should, query) for query in queries])


@contextmanager
def tantivy_errors(folder: Path) -> Iterator[None]:
    """Turn whatever goes wrong with the index in `folder` into StoreErrors or IndexDamagedError.

    A full disk, missing rights and the like are no fault of the index. The rest is.
    """
    try:
        with native_panics(f"the text index {folder} is damaged: tantivy", IndexDamagedError):
            yield
    except (ValueError, OSError) as exc:
        match = _NUMBER.search(str(exc))
        number = int(match[1] or match[2]) if match else None
        if isinstance(exc, OSError):
            number = exc.errno
        what = f"the text index {folder}"
        if number in NO_SPACE:
            raise errors.StoreFullError(f"{what} can't grow: {exc}; free some disk space") from exc
        if number in NO_PERMISSION:
            raise StoreReadOnlyError(f"{what} can't be written: {exc}; check rights") from exc
        if number in _NO_RESOURCES:
            raise StoreError(f"{what} can't be used: {exc}; raise the limit") from exc
        raise IndexDamagedError(f"{what} is damaged: {exc}") from exc


_NUMBER = re.compile(r"os error (\d+)|Os \{ code: (\d+)")
_NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
