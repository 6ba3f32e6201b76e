"""Split text into words, pairs of characters where nothing is spaced, and compound terms."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator
from functools import cache
from operator import add
from sys import byteorder

LONGEST_WORD = 64
"""Longer runs (base64, minified code) are cut into pieces of this many characters."""

UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ebd\u0ec0-\u0ecf\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\uaa60-\uaa76\uaa7a-\uaa7f"  # Myanmar
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    "\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7fb"  # Hangul
)
"""Letters and marks of scripts without spaces. Hangul has them, but attaches particles to words."""

RARE = "\U00010000-\U0001cfff\U0001df00-\U0001efff"
"""Rare scripts, including signs: many small ranges would slow down the regular expression."""

FIRST_UNSPACED = UNSPACED[0]
APOSTROPHES = "\u02bb\u02bc"
"""Letters in Unicode, but often typed as ', which is a separator."""

SIGNS = {"++": "plusplus", "#": "sharp"}
"""Signs that distinguish C++ and C# from C."""

LETTERS = {
    "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i",
    "ё": "е",
}  # fmt: skip
"""Letters often typed without their stroke or dots, which Unicode does not decompose."""

DOTLESS = frozenset({"tr", "az"})

_ASCII_RUN = re.compile(rf"[a-z0-9]{{1,{LONGEST_WORD}}}")
_SIGN_RUNS = r"\+\+(?<=\b[a-zı]\+\+)(?!\w)|#(?<=\b[a-zı]#)(?!\w)"

# In these ranges no mark is part of a word, and no script is without spaces. So a short expression
# finds the runs: that of all alphabets takes as long to compile as a search takes.
_is_beyond = re.compile("[^\x00-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u205e]").search
_EUROPEAN_RUN = re.compile(rf"[^\W_{APOSTROPHES}]{{1,{LONGEST_WORD}}}|{_SIGN_RUNS}")

# Vowel signs that most Hebrew and Arabic text leaves out, accents that can't be composed, and
# invisible characters. The marks of Indic scripts belong to their words and are kept.
_OPTIONAL = re.compile(
    "[\u00ad\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u1ab0-\u1aff\u1dc0-\u1dff\u200d-\u200f\u2060\u20d0-\u20ff"
    "\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\U000e0100-\U000e01ef]"
)

# Unicode normalisation takes quadratic time on a run of marks; no letter has more than 16.
_PILE = re.compile(r"([^\w\s\x00-\x7f]{16})[^\w\s\x00-\x7f]+")


def words(text: str, language: str | None = None) -> list[str]:
    """The words of `text` in order: lower case, in composed Unicode, accents kept.

    A word is a run of letters, marks and digits; all other characters are separators. A run in a
    script without spaces becomes overlapping pairs of characters. The number of words does not
    depend on the language. Takes linear time and accepts any string.
    """
    text = normalise(text, language)
    if text.isascii() and not any(sign in text for sign in SIGNS):
        return _ASCII_RUN.findall(text)  # the same in half of the time
    tokens: list[str] = []
    for run in _raw_runs(text):
        if run < FIRST_UNSPACED:
            tokens.append(SIGNS.get(run, run))
        elif len(run) > 1 and is_unspaced(run):
            tokens.extend(map(add, run, run[1:]))
        else:
            tokens.append(run)
    return tokens


def runs(text: str) -> list[str]:
    """The words of `text` in order; a run in a script without spaces stays whole."""
    return _raw_runs(normalise(text))


def is_unspaced(text: str) -> bool:
    """Whether `text` begins with a character of a script without spaces."""
    return text >= FIRST_UNSPACED and _unspaced_pattern().match(text) is not None


def is_european(text: str) -> bool:
    """Whether `text` has nothing but Latin, Greek, Cyrillic and their punctuation."""
    return text.isascii() or not _is_beyond(text)


def normalise(text: str, language: str | None = None) -> str:
    """`text` in lower case and composed (NFKC), without optional and invisible marks."""
    if language in DOTLESS:
        text = text.replace("I\u0307", "i").replace("İ", "i").replace("I", "ı")
    if text.isascii():
        return text.lower()
    text = _PILE.sub(r"\1", text)
    return _OPTIONAL.sub("", unicodedata.normalize("NFKC", text).casefold())


def fold(word: str) -> str:
    """`word` without accents on Latin and Greek letters, ё as е, all digits as 0 to 9."""
    return word if word.isascii() else "".join(map(_fold_character, word))


def _fold_character(char: str) -> str:
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    if char < "\u0400" or "\u1e00" <= char < "\u2000":
        char = unicodedata.normalize("NFD", char)[0]
    return LETTERS.get(char, char)


def _raw_runs(text: str) -> list[str]:
    return (_EUROPEAN_RUN if is_european(text) else _run_pattern()).findall(text)


@cache
def _unspaced_pattern() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}]")


@cache
def _run_pattern() -> re.Pattern[str]:
    """Matches runs of a script with spaces, runs of one without, and the signs of C++ and C#."""
    # found by an expression: a test of each character would take longer than a search
    plane = array("I", range(0x10000)).tobytes().decode(f"utf-32-{byteorder[0]}e", "surrogatepass")
    letters = re.finditer(rf"[^\W_{UNSPACED}{APOSTROPHES}]+", plane)
    ranges = [f"{chr(run.start())}-{chr(run.end() - 1)}" for run in letters]
    others = re.findall(r"\W", plane)
    marks = [char for char in others if unicodedata.category(char)[0] == "M"]
    spaced = "".join(ranges) + "".join(mark for mark in marks if not is_unspaced(mark)) + RARE
    return re.compile(f"[{spaced}]{{1,{LONGEST_WORD}}}|[{UNSPACED}]+|{_SIGN_RUNS}")


JOINER = "_"
"""Between the parts of a compound term, whatever the text has there; no word contains it."""

MOST_PREFIXES = 3

_JOINTS = re.compile(r"[-./\\@_\u2010\u2011,:](?=[^\W_])").finditer
_LEVELS = re.compile(r"[/\\@]+")
_PARTS = re.compile(r"[\W_]+")
_IS_NAMED = re.compile(r"[\d.@_\\]|/.*/").search
_NUMBERS = re.compile(r"(?<![^\W_])(?<![,:])\d++(?:[-.\u2010\u2011]\d++)++").findall
_VERSION_MARK = re.compile(r"v(?=\d)")


def compounds(text: str) -> list[str]:
    """The compound terms of `text` in order: words joined by punctuation that make up one name.

    `COVID-19`, `1,000.5`, `2024-01-31`, `joe@example.com`, `src/base.py`, `SQLITE_BUSY`, but not
    `well-known` or `and/or`. Those of a path or an address include its levels (`base.py`,
    `example.com`), those of a version or a date its beginnings (`3.7` of `3.7.1`), and those of a
    longer name the version or date in it (`3.7` of `python-3.7`). They don't depend on the
    language.
    """
    text = normalise(text)
    pieces = list(_joined_pieces(text))
    if not pieces:  # before an expression is compiled
        return []
    runs = _european_runs() if is_european(text) else _all_runs()
    return [term for piece in pieces for run in runs.findall(piece) for term in _terms(run)]


@cache
def _european_runs() -> re.Pattern[str]:
    """Matches words that punctuation joins, in texts of alphabets with spaces."""
    return re.compile(_compound_pattern(""))


@cache
def _all_runs() -> re.Pattern[str]:
    """The same in any text; the scripts that have no spaces are left out."""
    return re.compile(_compound_pattern(UNSPACED))


def _compound_pattern(unspaced: str) -> str:
    word = rf"[^\W_{unspaced}]"
    joint = r"(?:[-./\\@_\u2010\u2011]{1,3}+|(?<=\d)[,:](?=\d))"
    return rf"(?<!{word}){word}++(?:{joint}{word}++)++"


def _joined_pieces(text: str) -> Iterator[str]:
    """The pieces between blanks that hold a joint; most have none, which is cheap to see."""
    end = 0
    for joint in _JOINTS(text):
        if joint.start() >= end:
            start = text.rfind(" ", end, joint.start()) + 1 or end
            end = text.find(" ", joint.end())
            end = len(text) if end < 0 else end
            yield text[start:end]


def _terms(run: str) -> Iterator[str]:
    if not _IS_NAMED(run):
        return
    yield _joined(run)
    levels = _LEVELS.split(run)
    for level in levels:
        if len(levels) > 1 and _IS_NAMED(level) and _PARTS.search(level):
            yield _joined(level)
        unmarked = _VERSION_MARK.sub("", level, count=1)
        for numbers in _NUMBERS(unmarked):
            if numbers != unmarked:
                yield _joined(numbers)
            parts = _PARTS.split(numbers)  # a version or date without its last parts, down to two
            for count in range(2, min(len(parts), 2 + MOST_PREFIXES)):
                yield _joined(JOINER.join(parts[:count]))


def _joined(run: str) -> str:
    """The term of a run; of a long one its end, which says more of a path."""
    parts = _PARTS.split(_VERSION_MARK.sub("", run, count=1) if run[0] == "v" else run)
    return fold(JOINER.join(parts))[-LONGEST_WORD:]


NUMBER_WORTH = 3
"""The weight of a number or a code beside that of a word: readers search for these."""


def term_worth(term: str) -> int:
    """How much a term counts beside others: numbers and codes count for more."""
    return NUMBER_WORTH if any(map(str.isdigit, term)) else 1
