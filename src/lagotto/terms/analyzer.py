"""The analyzer: turns text into index terms, the same way on every store.

A store indexes `index_terms(text, language)`, and searches for the variants of `query_terms` and
for `compounds`. Terms contain no white space and, of ASCII, only lower-case letters, digits and, in
compounds, `_`. So they can be joined by spaces and split again by any tokenizer that keeps these
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lagotto.terms.languages import language_of, stop_words, term_maker
from lagotto.terms.words import DOTLESS, compounds, fold, words

MAX_QUERY_TERMS = 256
"""Distinct terms of a query that are used; the rest of a longer query is ignored."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A word of a query and its index terms.

    `word` is the word as typed, in lower case; `variants` are its distinct terms in the given
    languages, in order; `stop` marks a stop word of the language that the query seems to be in;
    `count` is how often the query says it.
    """

    word: str
    variants: tuple[str, ...]
    stop: bool
    count: int = 1


def index_terms(text: str, language: str | None = None) -> list[str]:
    """The terms by which `text` is found: its words in order, then its compounds.

    Behind the words, compounds are in nobody's way: a phrase is found as it stands in the text.
    """
    return [*analyze(text, language), *compounds(text)]


def analyze(text: str, language: str | None = None) -> list[str]:
    """The terms of all words of `text` in order, stop words included.

    A term has 1 to 64 characters. The number of terms does not depend on the language; without a
    language or a stemmer for it, words are not stemmed. Identifiers are split into their parts, in
    order: a phrase search for the parts finds the identifier.
    """
    code = language_of(language)
    return list(map(term_maker(code), words(text, code)))


def query_terms(text: str, languages: Sequence[str | None] = (None,)) -> list[QueryTerm]:
    """The distinct terms of a query over documents in `languages`, in order of appearance.

    At most `MAX_QUERY_TERMS`. To search for a phrase use `analyze`, which keeps repeated words.
    """
    return list(_query_terms(text, tuple(languages) or (None,)))


@lru_cache(maxsize=64)  # a search analyses its query several times
def _query_terms(text: str, tags: tuple[str | None, ...]) -> tuple[QueryTerm, ...]:
    surface = words(text)
    stops = stop_words(query_language(text, tags))
    rows = zip(
        surface,
        *(
            analyze(text, code) if code in DOTLESS else map(term_maker(code), surface)
            for code in map(language_of, tags)
        ),
        strict=True,
    )
    by_terms: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for word, *terms in rows:
        key = (tuple(dict.fromkeys(terms)), fold(word) in stops)
        if key in by_terms or len(by_terms) < MAX_QUERY_TERMS:
            by_terms.setdefault(key, []).append(word)
    return tuple(
        QueryTerm(runs[0], variants, stop, len(runs)) for (variants, stop), runs in by_terms.items()
    )


def query_language(text: str, languages: Sequence[str | None]) -> str | None:
    """The language of those given with the most stop words in the query; on a tie the first."""
    # a question is too short for language detection
    folded = {fold(word) for word in words(text)[:MAX_QUERY_TERMS]}
    return max(languages, key=lambda tag: len(stop_words(tag) & folded), default=None)


def content_terms(terms: Sequence[QueryTerm]) -> list[QueryTerm]:
    """The terms without stop words, or all terms if there are no others ("the who")."""
    return [term for term in terms if not term.stop] or list(terms)


def keywords(text: str, languages: Sequence[str | None] = (None,)) -> list[str]:
    """The distinct words of a query in lower case, without stop words if there are other words."""
    return [term.word for term in content_terms(query_terms(text, languages))]
