"""From a question to what each leg is asked."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from lagotto.stores.base import Term, TextQuery, View
from lagotto.terms import QueryTerm, content_terms, query_terms
from lagotto.tokens import Tokenizer

SEEN = 1_000
"""Characters of a query that are looked at for its alphabet."""


def content_words(query: str, languages: Sequence[str | None]) -> list[QueryTerm]:
    """The words of `query` that say what it is about, with their stems in `languages`."""
    return content_terms(query_terms(query, languages))


def text_query(words: Sequence[QueryTerm]) -> TextQuery:
    """Any of the words."""
    return TextQuery(tuple(map(_terms, words)))


async def mend(
    view: View, words: Sequence[QueryTerm], tokenizer: Tokenizer
) -> tuple[TextQuery | None, float]:
    """The query with the terms that misspelt words may mean, and how much of it was misspelt.

    None if there is nothing to mend. A word that the embedder's tokenizer has whole is a word, even
    if no document holds it, and is left alone.
    """
    counts = tokenizer.count([word.word for word in words])
    doubtful = [word for word, count in zip(words, counts, strict=True) if count > 1]
    found = await view.corrections([word.variants[0] for word in doubtful])
    mended = {word: terms for word, terms in zip(doubtful, found, strict=True) if terms}
    if not mended:
        return None, 0.0
    query = TextQuery(tuple(mended.get(word) or _terms(word) for word in words))
    certainty = sum(max(term.weight for term in terms) for terms in mended.values())
    return query, certainty / len(words)


def _terms(word: QueryTerm) -> tuple[Term, ...]:
    return tuple(map(Term, word.variants))


def familiarity(query: str, alphabets: Sequence[str]) -> float:
    """The share of the query's letters that are of the given alphabets; 1 if none are given.

    An embedder that never learned an alphabet still gives a vector, but it says next to nothing.
    """
    names = [unicodedata.name(letter, "") for letter in query[:SEEN] if letter.isalpha()]
    if not alphabets or not names:
        return 1.0
    known = sum(name.startswith(tuple(alphabets)) for name in names)
    return known / len(names)
