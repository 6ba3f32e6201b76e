"""What the full-text leg is asked, as tantivy's queries."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tantivy import Occur, Query, Schema, SchemaBuilder

from lagotto.documents import storable
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
)

KEY = "key"
DOCUMENT = "document"
TERMS = "terms"

_special = re.compile(r"[\\.+*?()|\[\]{}^$]")


def index_schema() -> Schema:
    """A chunk's key, its document's key, and its terms with their positions."""
    builder = SchemaBuilder()
    builder.add_integer_field(KEY, indexed=True, fast=True)
    builder.add_integer_field(DOCUMENT, indexed=True)
    builder.add_text_field(TERMS, tokenizer_name="whitespace", index_option="position")
    return builder.build()


def scoring_query(schema: Schema, query: TextQuery) -> Query:
    """Any of the words; their scores add up, each one's being that of its best alternative.

    Where there is a condition, it alone says what is found, and adds nothing to the score.
    """
    words = any_of([_word_query(schema, word) for word in query.words if word])
    if query.where is None:
        return words
    silent = Query.const_score_query(match_query(schema, query.where), 0.0)
    return Query.boolean_query([(Occur.Must, silent), (Occur.Should, words)])


def match_query(schema: Schema, match: Match) -> Query:
    """The chunks for which `match` holds; what they score means nothing."""
    if isinstance(match, Word):
        return any_of([_holding(schema, term) for term in match.terms])
    if isinstance(match, Prefix):
        start = _special.sub(r"\\\g<0>", storable(match.start))
        return Query.regex_query(schema, TERMS, f"{start}.*")
    if isinstance(match, Phrase):
        return any_of([_phrase_query(schema, variant) for variant in match.variants if variant])
    if isinstance(match, Every):
        return _all_of(schema, match.parts)
    if isinstance(match, Either):
        return any_of([match_query(schema, part) for part in match.parts])
    return _all_of(schema, (match,))


def only_where(condition: Query, wanted: Query) -> Query:
    """`wanted` where `condition` holds, with the same scores."""
    silent = Query.const_score_query(condition, 0.0)
    return Query.boolean_query([(Occur.Must, silent), (Occur.Must, wanted)])


def any_of(queries: Sequence[Query]) -> Query:
    """One of the queries, or several; nothing if there are none."""
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _all_of(schema: Schema, parts: Sequence[Match]) -> Query:
    """All parts hold; tantivy needs something to take the negative ones away from."""
    clauses = [(Occur.Must, Query.all_query())]
    for part in parts:
        if isinstance(part, Without):
            clauses.append((Occur.MustNot, match_query(schema, part.part)))
        else:
            clauses.append((Occur.Must, match_query(schema, part)))
    return Query.boolean_query(clauses)


def _word_query(schema: Schema, alternatives: Sequence[Term]) -> Query:
    queries = [
        Query.boost_query(Query.term_query(schema, TERMS, storable(term.text), "freq"), term.weight)
        for term in alternatives
    ]
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)


def _phrase_query(schema: Schema, terms: Sequence[str]) -> Query:
    if len(terms) == 1:
        return _holding(schema, terms[0])
    return Query.phrase_query(schema, TERMS, [storable(term) for term in terms])


def _holding(schema: Schema, term: str) -> Query:
    return Query.term_query(schema, TERMS, storable(term), "basic")
