"""Numbered clauses of contracts, statutes and minutes as sections, where a text has no headings.

A clause starts a line with its number (`1.`, `3.2`, `§ 3`, `Article 4`), and numbers follow each
other: an amount at the start of a line does not. A list of short items has numbers too, but no text
to be a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from lagotto.documents import Heading
from lagotto.readers.base import HeadingMark, sections

FEWEST_CLAUSES = 3
SHORTEST_CLAUSE = 100
"""Characters that the top clauses have at least, by their median; those of a list have fewer."""
LONGEST_TITLE = 80
MOST_TITLE_WORDS = 8
LONGEST_TEXT = 5_000_000
"""Characters; what is larger is data."""

_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_NO_DIGIT = re.compile(r"\D")
_CLAUSE = re.compile(
    r"^[ \t]{0,12}(?P<label>"
    r"(?P<word>§+|article|section|clause|chapter|annex|schedule|artikel|abschnitt|kapitel|artículo"
    r"|articolo|artigo|статья|глава|раздел)[ \t]*(?P<of_word>\d{1,4}[a-z]?|[IVXLC]{1,6})\b"
    r"|(?P<number>\d{1,3}(?:\.\d{1,3}){1,3}|\d{1,3}(?=\.)))"
    r"(?P<rest>[^\n]*)$",
    re.MULTILINE | re.IGNORECASE,
)
_TITLE_END = re.compile(r"[.:;](?=\s|$)|\s[–—-]\s")


def clause_headings(text: str) -> tuple[Heading, ...]:
    """The clauses of `text` as headings, subclauses inside of them; none if it has no such."""
    marks = list(_marks(text)) if len(text) <= LONGEST_TEXT else []
    top = min((mark.level for mark in marks), default=1)
    tops = [mark.start for mark in marks if mark.level == top]
    lengths = [end - start for start, end in pairwise([*tops, len(text)])]
    if len(tops) < FEWEST_CLAUSES or median(lengths) < SHORTEST_CLAUSE:
        return ()
    return sections(marks, end=len(text))


def _marks(text: str) -> Iterator[HeadingMark]:
    """The starts of clauses whose numbers follow each other."""
    last_word = 0  # the number of the article or section that it is in
    last: tuple[int, ...] = ()
    for match in _CLAUSE.finditer(text):
        rest = match["rest"].lstrip(" \t.:)–—-")
        if match["word"]:
            number = _number(match["of_word"])
            if (last_word and number != last_word + 1) or not _starts_a_title(rest):
                continue
            last_word, last = number, ()
            yield _mark(match, level=1, rest=rest)
            continue
        path = tuple(map(int, match["number"].split(".")))
        if _follows(path, last, last_word) and (len(path) > 1 or _starts_a_title(rest)):
            last = path
            yield _mark(match, level=len(path) + bool(last_word), rest=rest)


def _follows(path: tuple[int, ...], last: tuple[int, ...], last_word: int) -> bool:
    """Whether a number is the next sibling of one in `last`, its first child, or the first."""
    if not last:
        return path == (1,) or (len(path) == 2 and path in ((1, 1), (last_word, 1)))
    if path == (*last, 1):
        return True
    depth = len(path) - 1
    return depth < len(last) and path[:depth] == last[:depth] and path[depth] == last[depth] + 1


def _mark(match: re.Match[str], *, level: int, rest: str) -> HeadingMark:
    label = " ".join(match["label"].split())
    if label.isdecimal():
        label += "."
    return HeadingMark(match.start("label"), level, f"{label} {_title(match, rest)}".strip())


def _title(match: re.Match[str], rest: str) -> str:
    """The title behind a number, or on the line below it; none where a sentence is."""
    if not rest:
        below = match.string[match.end() :].lstrip().partition("\n")[0]
        rest = "" if _CLAUSE.match(below) else below
    end = _TITLE_END.search(rest, 0, LONGEST_TITLE + 1)
    title = (rest[: end.start()] if end else rest).strip()
    return title if len(title.split()) <= MOST_TITLE_WORDS else ""


def _starts_a_title(rest: str) -> bool:
    """Whether what is after a number may be a title, or a sentence, or on the next line."""
    return not rest or not (rest[0].islower() or rest[0].isdigit() or rest[0] in ",;")


def _number(written: str) -> int:
    if written[0].isdigit():
        return int(_NO_DIGIT.sub("", written))
    values = [_ROMAN[letter] for letter in written.upper()]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)
