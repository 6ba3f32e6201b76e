"""Searching one state of a tantivy index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from tantivy import Occur, Query, Schema, SchemaBuilder, Searcher

from lagotto.documents import storable
from lagotto.stores.base import ChunkKeys, Term, TextQuery
from lagotto.stores.hits import Hits
from lagotto.stores.sqlite.tantivy_errors import translated

KEY = "key"
TERMS = "terms"

TIED = 20_000
"""Of more chunks than this with the same score at the cut, tantivy picks the ones it likes."""

FEW_KEYS = 500
"""Up to here looking up one key after the other beats walking through the dictionary of keys."""


def index_schema() -> Schema:
    """A chunk's key, and its terms with their positions."""
    builder = SchemaBuilder()
    builder.add_integer_field(KEY, indexed=True, fast=True)
    builder.add_text_field(TERMS, tokenizer_name="whitespace", index_option="position")
    return builder.build()


@dataclass(frozen=True, slots=True)
class TextSnapshot:
    """The index as it was when this was made, whatever is written later.

    Holds at least all changes up to `stamp`. `dead` of its `total` documents are removed, but
    still count in the BM25 statistics.
    """

    folder: Path
    searcher: Searcher
    schema: Schema
    stamp: int
    total: int
    dead: int

    def search(self, query: TextQuery, k: int, *, allowed: ChunkKeys | None = None) -> Hits:
        """The k chunks with the greatest BM25 score, best first, equal ones by key.

        A word counts with the best of its alternatives. `allowed` are sorted keys; if k of them
        match, k come back.
        """
        if not _has_terms(query) or k < 1 or (allowed is not None and not allowed.size):
            return _hits([], [])
        wanted = text_query(self.schema, query)
        with translated(self.folder):
            if allowed is None:
                return self._top(wanted, k)
            found = self._top_among(wanted, k, allowed)
            return self._top(self._only(allowed, wanted), k) if found is None else found

    def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The BM25 score of each of `keys`, the same as in `search`; 0 without a match."""
        scores = np.zeros(len(keys), dtype=np.float32)
        if not _has_terms(query) or not keys.size:
            return scores
        different, places = np.unique(keys, return_inverse=True)
        with translated(self.folder):
            wanted = self._only(different, text_query(self.schema, query))
            hits = self._best(wanted, len(different))
        of_different = np.zeros(len(different), dtype=np.float32)
        of_different[np.searchsorted(different, hits.keys)] = hits.scores
        return of_different[places]

    def vocabulary(self) -> list[str]:
        """All terms that some chunk has, the most frequent ones first."""
        living = Query.all_query() if self.dead else None
        with translated(self.folder):
            counted = self.searcher.terms_with_prefix(TERMS, "", filter_query=living)
        return [term for term, _ in counted]

    def document_frequency(self, term: str) -> int:
        """How many chunks have the term."""
        with translated(self.folder):
            if not self.dead:
                return self.searcher.doc_freq(TERMS, storable(term))
            wanted = Query.term_query(self.schema, TERMS, storable(term), "basic")
            found = self.searcher.aggregate(wanted, {"n": {"value_count": {"field": KEY}}})
        return int(found["n"]["value"])

    def _top(self, wanted: Query, k: int) -> Hits:
        """The best k; deeper than k as long as the last ones tie with something unseen."""
        best = _hits([], [])
        for depth in _depths(k + 16, k + TIED):
            best, sure = self._look(wanted, k, depth, None)
            if sure:
                break
        return best

    def _top_among(self, wanted: Query, k: int, allowed: ChunkKeys) -> Hits | None:
        """The best k of `allowed`, or None if it is cheaper to look for those keys only.

        Where the filter has nothing to do with the query, the first look is deep enough.
        """
        expected = 2 * k * self.searcher.num_docs // len(allowed) + 16
        for depth in _depths(expected, _worth(len(allowed))):
            best, sure = self._look(wanted, k, depth, allowed)
            if sure:
                return best
        return None

    def _look(
        self, wanted: Query, k: int, depth: int, allowed: ChunkKeys | None
    ) -> tuple[Hits, bool]:
        """The best k within the first `depth` hits, and whether more depth can't change them."""
        depth = max(1, min(depth, self.searcher.num_docs))
        hits = self._best(wanted, depth)
        found = hits if allowed is None else _among(hits, allowed)
        all_seen = len(hits) < depth or depth == self.searcher.num_docs
        sure = all_seen or (len(found) >= k and bool(found.scores[k - 1] > hits.scores[-1]))
        return Hits(found.keys[:k], found.scores[:k]), sure

    def _best(self, wanted: Query, limit: int) -> Hits:
        found = self.searcher.search(wanted, limit, count=False).hits
        keys = self.searcher.fast_field_values(KEY, [address for _, address in found])
        return _hits(cast("list[int]", keys), [score for score, _ in found])

    def _only(self, keys: ChunkKeys, wanted: Query) -> Query:
        """`wanted` in the chunks of `keys`, with the same scores."""
        if len(keys) > FEW_KEYS:
            chosen = Query.term_set_query(self.schema, KEY, keys.tolist())
        else:
            each = [Query.term_query(self.schema, KEY, key, "basic") for key in keys.tolist()]
            chosen = _any_of(each)
        silent = Query.const_score_query(chosen, 0.0)
        return Query.boolean_query([(Occur.Must, silent), (Occur.Must, wanted)])


def text_query(schema: Schema, query: TextQuery) -> Query:
    """Any of the words; their scores add up, each one's being that of its best alternative."""
    return _any_of([_word_query(schema, word) for word in query.words if word])


def _word_query(schema: Schema, alternatives: Sequence[Term]) -> Query:
    queries = [
        Query.boost_query(Query.term_query(schema, TERMS, storable(term.text), "freq"), term.weight)
        for term in alternatives
    ]
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)


def _any_of(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _has_terms(query: TextQuery) -> bool:
    return any(query.words)


def _worth(keys: int) -> int:
    """How many hits can be seen in the time that it takes to look for that many keys."""
    return min(8 * keys, keys + 8_000)


def _depths(first: int, last: int) -> Iterator[int]:
    """How many hits to look at, each time four times as many, up to `last`."""
    depth = first
    while depth < last:
        yield depth
        depth *= 4


def _hits(keys: Sequence[int], scores: Sequence[float]) -> Hits:
    """Sorted by score, then by key."""
    of_key = np.array(keys, dtype=np.int64)
    of_score = np.array(scores, dtype=np.float32)
    order = np.lexsort((of_key, -of_score))
    return Hits(of_key[order], of_score[order])


def _among(hits: Hits, allowed: ChunkKeys) -> Hits:
    places = np.searchsorted(allowed, hits.keys)
    places[places == len(allowed)] = 0
    kept = allowed[places] == hits.keys
    return Hits(hits.keys[kept], hits.scores[kept])
