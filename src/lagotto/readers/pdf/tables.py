"""Tables in the text of PDF pages: lines that end in columns of numbers.

A PDF has no tables, only characters at positions. A row of numbers is a line of text, so lines
tell where a table is, and its rows stay together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lagotto.documents import Block, Span

FEWEST_ROWS = 3
FEWEST_CELLS = 2
LONGEST_LABEL = 80
"""Characters of a line inside a table without numbers: a wrapped label or a subheading."""

MOST_LABELS = 3
"""Such lines in a row; more of them are text between two tables."""

_CELL = re.compile(
    r"(?<![($€£¥+\-–—−])[($€£¥+\-–—−]*+\d[\d,.' ]*+[)%*]*+|[-–—−*]|n/?[am]", re.IGNORECASE
)
_SIGN = frozenset("$€£¥%()")


def tables(text: str) -> Iterator[Block]:
    """The tables of a page; each part is a row, with the lines of its label before it."""
    rows: list[Span] = []
    labels: list[Span] = []
    for span in _lines(text):
        line = text[span.start : span.end]
        if _is_row(line):
            start = labels[0].start if labels else span.start
            rows.append(Span(start, span.end))
            labels = []
        elif _is_label(line) and len(labels) < MOST_LABELS:
            labels.append(span)
        else:
            yield from _table(rows)
            rows, labels = [], []
    yield from _table(rows)


def _table(rows: list[Span]) -> Iterator[Block]:
    if len(rows) >= FEWEST_ROWS:
        yield Block(start=rows[0].start, end=rows[-1].end, kind="table", parts=tuple(rows))


def _lines(text: str) -> Iterator[Span]:
    start = 0
    for line in text.split("\n"):
        if line.strip():
            blank = len(line) - len(line.lstrip())
            yield Span(start + blank, start + len(line.rstrip()))
        start += len(line) + 1


def _is_row(line: str) -> bool:
    """Whether a line ends in at least two cells, of which one has a digit."""
    cells = 0
    has_digit = False
    for word in reversed(line.split()):
        if _CELL.fullmatch(word):
            cells += 1
            has_digit = has_digit or any(map(str.isdigit, word))
        elif not set(word) <= _SIGN:
            break
    return cells >= FEWEST_CELLS and has_digit


def _is_label(line: str) -> bool:
    return len(line) <= LONGEST_LABEL and not line.endswith((".", "!", "?", ";"))
