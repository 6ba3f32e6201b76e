"""Compound terms: versions, decimals, dates, part numbers, addresses and paths as one term each.

The words of `3.7` are 3 and 7, which `3.8.7` has as well. Its compound term, `3_7`, tells the two
apart. Compounds come beside the words, never in place of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from lagotto.terms.words import LONGEST_WORD, UNSPACED, fold, is_european, normalise

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
    if not pieces:
        return []
    runs = _european_runs() if is_european(text) else _all_runs()
    return [term for piece in pieces for run in runs.findall(piece) for term in _terms(run)]


@cache
def _european_runs() -> re.Pattern[str]:
    """Matches words that punctuation joins, in texts of alphabets with spaces."""
    return re.compile(_run_pattern(""))


@cache
def _all_runs() -> re.Pattern[str]:
    """The same in any text; the scripts that have no spaces are left out."""
    return re.compile(_run_pattern(UNSPACED))


def _run_pattern(unspaced: str) -> str:
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
            yield from _beginnings(numbers)


def _beginnings(numbers: str) -> Iterator[str]:
    """A version or date without its last parts, down to two."""
    parts = _PARTS.split(numbers)
    for count in range(2, min(len(parts), 2 + MOST_PREFIXES)):
        yield _joined(JOINER.join(parts[:count]))


def _joined(run: str) -> str:
    """The term of a run; of a long one its end, which says more of a path."""
    parts = _PARTS.split(_VERSION_MARK.sub("", run, count=1) if run[0] == "v" else run)
    return fold(JOINER.join(parts))[-LONGEST_WORD:]
