"""Stemming: one Snowball stemmer per language, its answers remembered."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock

from lagotto.terms.words import LONGEST_WORD, fold

REMEMBERED = 2**16
"""Words per language whose stems are kept."""

RULES = 1
"""Raised whenever the same text would give other terms."""

NORWEGIAN = {"nb": "no", "nn": "no"}


def analyzer_id() -> str:
    """Names everything that terms depend on: an index made under another id must be made again."""
    from Stemmer import version

    return f"terms-{RULES}/snowball-{version()}/unicode-{unicodedata.unidata_version}"


def language_of(tag: str | None) -> str | None:
    """The language of a tag such as `en`, `en-GB` or `de_AT`, in lower case."""
    code = (tag or "").replace("_", "-").partition("-")[0].strip().lower()
    return NORWEGIAN.get(code, code) or None


def term_maker(language: str | None) -> Callable[[str], str]:
    """What turns a word into an index term: stemmed where the language has a stemmer, folded."""
    return _term_maker(language_of(language))


@cache
def _term_maker(language: str | None) -> Callable[[str], str]:
    stem = _stemmer(language)

    @lru_cache(maxsize=REMEMBERED)
    def term(word: str) -> str:
        # Stemmers need the accents, so these go last.
        stemmed = word if any(map(str.isdigit, word)) else stem(word)
        return fold(stemmed or word)[:LONGEST_WORD]

    return term


def _stemmer(language: str | None) -> Callable[[str], str]:
    from Stemmer import Stemmer

    try:
        stemmer = Stemmer(language or "", 0)
    except KeyError:
        return str
    turn = Lock()  # a stemmer must not be called by two threads at once

    def stem(word: str) -> str:
        with turn:
            stemmed: str = stemmer.stemWord(word)
        return stemmed

    return stem
