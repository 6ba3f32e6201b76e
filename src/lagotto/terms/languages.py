"""Languages: their names, alphabets, stemmers and stop words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock

from lagotto.documents import LANGUAGE_TAG
from lagotto.terms.words import LONGEST_WORD, fold, words

SAMPLE = 1_000
"""Characters at the start of a text that decide."""


def alphabet_share(text: str, alphabets: Sequence[str]) -> float:
    """The share of letters that belong to `alphabets`, such as LATIN; 1.0 without any of these."""
    if text.isascii() and "LATIN" in alphabets:
        return 1.0
    names = [unicodedata.name(letter, "") for letter in text[:SAMPLE] if letter.isalpha()]
    if not alphabets or not names:
        return 1.0
    known = sum(name.startswith(tuple(alphabets)) for name in names)
    return known / len(names)


ALPHABETS = {
    "CYRILLIC": ("be", "bg", "kk", "ky", "mk", "mn", "ru", "sr", "tg", "uk"),
    "ARABIC": ("ar", "fa", "ku", "ps", "ur"),
    "CJK": ("ja", "zh"), "HIRAGANA": ("ja",), "KATAKANA": ("ja",), "HANGUL": ("ko",),
    "GREEK": ("el",), "HEBREW": ("he", "yi"), "DEVANAGARI": ("hi", "mr", "ne"), "THAI": ("th",),
    "ARMENIAN": ("hy",), "GEORGIAN": ("ka",), "TAMIL": ("ta",), "BENGALI": ("bn",),
}  # fmt: skip
"""Languages by the alphabet that they are written in, if it is not LATIN only."""

SURE = 3
"""So many different stop words tell the language of a query, if there are twice as many as of any
language that is known; two are in many names."""


def foreign_language(query: str, languages: Collection[str]) -> str | None:
    """The alphabet or the language of a query, if that is clear and none of `languages`."""
    known = {code for code in map(language_of, languages) if code}
    letters = filter(str.isalpha, "" if query.isascii() else query[:SAMPLE])
    names = Counter(unicodedata.name(letter, "").split(" ")[0] for letter in letters)
    alphabet = max(names, key=lambda name: names[name], default="LATIN")
    if alphabet in ALPHABETS:
        return None if known.intersection(ALPHABETS[alphabet]) else alphabet.capitalize()
    query_words = {fold(word) for word in words(query[:SAMPLE])}
    counts = {code: len(query_words & stop_words(code)) for code in (*stop_word_lists(), *known)}
    expected = max((counts.pop(code) for code in known), default=0)
    best = max(counts, key=lambda code: counts[code], default="")
    sure = counts.get(best, 0) >= max(SURE, 2 * expected)
    return NAMES.get(best, best).capitalize() if sure else None


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
    """The language of a tag such as `en`, `en-GB` or `de_AT`, in lower case.

    None for what is not a word of ASCII letters: PyStemmer raises for names that are not ASCII.
    """
    code = (tag or "").replace("_", "-").partition("-")[0].strip().lower()
    return NORWEGIAN.get(code, code) if code.isascii() and code.isalpha() else None


@cache
def term_maker(language: str | None) -> Callable[[str], str]:
    """A function from a word to its index term: stemmed if `language` has a stemmer, and folded."""
    from Stemmer import Stemmer

    stem: Callable[[str], str]
    try:
        stem = Stemmer(language or "", 0).stemWord
    except KeyError:
        stem = str
    lock = Lock()  # stemmers are not thread-safe

    @lru_cache(maxsize=CACHE_SIZE)
    def term(word: str) -> str:
        # Stemmers need accents, so fold last.
        stemmed = word
        if not any(map(str.isdigit, word)):
            with lock:
                stemmed = stem(word)
        return fold(stemmed or word)[:LONGEST_WORD]

    return term


UNSTEMMED = "simple"
"""The name of the configuration that does not stem."""

NAMES = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""Languages with a stemmer, by their codes."""

_CODES = {name: code for code, name in NAMES.items()}
_CONFIGURATION = re.compile(r"(?:[A-Za-z_][\w$]*\.)?[A-Za-z_][\w$]*")


def is_language(name: str) -> bool:
    """Whether a name stands for a language; if not, it may be a configuration of a database.

    ValueError for a text that is no name.
    """
    try:
        language_named(name)
    except ValueError:
        if not _CONFIGURATION.fullmatch(name.strip()):
            raise
        return False
    return True


def language_named(name: str) -> str | None:
    """The code of the language `english`, `en` or `en-GB`; None for `simple`, else ValueError."""
    known = name.strip().lower().removeprefix("pg_catalog.")
    if known == UNSTEMMED:
        return None
    if known in _CODES:
        return _CODES[known]
    if LANGUAGE_TAG.fullmatch(known):
        return language_of(known)
    raise ValueError(f"{name!r} is no language; name one as english or en, or {UNSTEMMED} for none")


@cache
def stop_words(language: str | None) -> frozenset[str]:
    """The stop words of a language without accents; empty if there is no list for it."""
    listed = stop_word_lists().get(language_of(language) or "", "")
    return frozenset(map(fold, words(listed)))


@cache
def stop_word_lists() -> dict[str, str]:
    """Words by the codes of their languages, with accents; `@` and a code begin a list."""
    text = Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8")
    return {entry[:2]: entry[2:] for entry in text.split("@")[1:]}
