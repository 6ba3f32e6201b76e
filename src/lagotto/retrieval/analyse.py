"""From a question to what each leg is asked."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from lagotto.stores.base import Term, TextQuery
from lagotto.terms import QueryTerm, content_terms, query_terms

SEEN = 1_000
"""Characters of a query that are looked at for its alphabet."""


def content_words(query: str, languages: Sequence[str | None]) -> list[QueryTerm]:
    """The words of `query` that say what it is about, with their stems in `languages`."""
    return content_terms(query_terms(query, languages))


def text_query(words: Sequence[QueryTerm]) -> TextQuery:
    """Any of the words."""
    return TextQuery(tuple(tuple(map(Term, word.variants)) for word in words))


def corrected_query(query: TextQuery, corrections: Sequence[Sequence[Term]]) -> TextQuery | None:
    """`query` with the terms that misspelt words may mean; None if there is nothing to mend."""
    if not any(corrections):
        return None
    return TextQuery(
        tuple(tuple(found) or word for word, found in zip(query.words, corrections, strict=True))
    )


def familiarity(query: str, alphabets: Sequence[str]) -> float:
    """The share of the query's letters that are of the given alphabets; 1 if none are given.

    An embedder that never learned an alphabet still gives a vector, but it says next to nothing.
    """
    names = [unicodedata.name(letter, "") for letter in query[:SEEN] if letter.isalpha()]
    if not alphabets or not names:
        return 1.0
    known = sum(name.startswith(tuple(alphabets)) for name in names)
    return known / len(names)
