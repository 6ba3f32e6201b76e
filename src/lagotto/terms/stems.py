"""Stemming with a cached Snowball stemmer per language."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock

from lagotto.terms.words import LONGEST_WORD, fold

CACHE_SIZE = 2**16
"""Cached words per language."""

RULES = 3
"""The version of the rules, to be raised when the same text gives other terms."""

NORWEGIAN = {"nb": "no", "nn": "no"}


def analyzer_id() -> str:
    """Identifies everything that terms depend on: with another id, indexes must be rebuilt."""
    from Stemmer import version

    return f"terms-{RULES}/snowball-{version()}/unicode-{unicodedata.unidata_version}"


@lru_cache(maxsize=256)
def language_of(tag: str | None) -> str | None:
    """The language of a tag such as `en`, `en-GB` or `de_AT`, in lower case."""
    code = (tag or "").replace("_", "-").partition("-")[0].strip().lower()
    return NORWEGIAN.get(code, code) or None


def term_maker(language: str | None) -> Callable[[str], str]:
    """A function from a word to its index term: stemmed if possible, and folded."""
    return _term_maker(language_of(language))


@cache
def _term_maker(language: str | None) -> Callable[[str], str]:
    stem = _stemmer(language)

    @lru_cache(maxsize=CACHE_SIZE)
    def term(word: str) -> str:
        # Stemmers need accents, so fold last.
        stemmed = word if any(map(str.isdigit, word)) else stem(word)
        return fold(stemmed or word)[:LONGEST_WORD]

    return term


def _stemmer(language: str | None) -> Callable[[str], str]:
    from Stemmer import Stemmer

    try:
        stemmer = Stemmer(language or "", 0)
    except KeyError:
        return str
    lock = Lock()  # stemmers are not thread-safe

    def stem(word: str) -> str:
        with lock:
            stemmed: str = stemmer.stemWord(word)
        return stemmed

    return stem
