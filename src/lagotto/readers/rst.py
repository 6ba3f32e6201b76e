"""reStructuredText: the text stays as written, sections and blocks become spans of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from lagotto.documents import Block, BlockKind, storable
from lagotto.readers.base import Draft, HeadingMark, Source, one_line, parse_date, sections
from lagotto.readers.decode import decode
from lagotto.readers.formats import draft_reader
from lagotto.readers.markdown import Lines

ADORNMENT = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
SHORT = 4
"""An underline shorter than its title counts from this length."""

BULLET = re.compile(r"(?:[-*+•]|(?:\d{1,9}|#|[A-Za-z])[.)])\s")
CODE = re.compile(r"\.\. (?:code-block|code|sourcecode|parsed-literal|literalinclude)::")
FIELD = re.compile(r":([A-Za-z][A-Za-z -]{0,40}):[ \t]+(\S.*)")
ROLE = re.compile(r":[A-Za-z][\w.+-]*+:(?=`)")
REFERENCE = re.compile(r"`([^`<]*)<[^`>]*>`_{1,2}")
RULES = re.compile(r"(?<!=)=++(?: ++=++)++ *+")


@draft_reader("rst")
def read_rst(source: Source, limit: int) -> Draft:
    """Read sections, tables, lists and literal blocks; nothing is included or expanded.

    The level of a section is that of its adornment, in the order in which adornments appear.
    Fields below the title (author, date) are metadata.
    """
    text = storable(decode(source.read(limit=limit)))
    lines = text.split("\n")
    spans = Lines(text)
    fields = _fields(lines)
    return Draft(
        text=text,
        headings=sections(list(_marks(lines, spans)), end=len(text)),
        blocks=tuple(_blocks(lines, spans)),
        title=fields.pop("title", None),
        metadata={name: text for name, text in fields.items() if name in ("author", "version")},
        created_at=parse_date(fields.get("date")),
    )


def _marks(lines: list[str], spans: Lines) -> Iterator[HeadingMark]:
    styles: list[tuple[str, bool]] = []
    for number in range(1, len(lines)):
        title = lines[number - 1]
        sign = _adornment(lines[number])
        if sign is None or not title.strip() or _adornment(title):
            continue
        above = lines[number - 2] if number > 1 else ""
        overlined = bool(above) and above.rstrip() == lines[number].rstrip()
        long_enough = len(lines[number].rstrip()) >= min(SHORT, len(title.strip()))
        if not long_enough or (not overlined and (above.strip() or title[0].isspace())):
            continue
        if (sign, overlined) not in styles:
            styles.append((sign, overlined))
        level = styles.index((sign, overlined)) + 1
        first = number - (2 if overlined else 1)
        yield HeadingMark(spans.span(first, number + 1).start, level, _plain(title))


def _adornment(line: str) -> str | None:
    """The sign that a line repeats, if it is an underline."""
    line = line.rstrip()
    return line[0] if len(line) > 1 and line[0] in ADORNMENT and not line.strip(line[0]) else None


def _plain(title: str) -> str:
    text = REFERENCE.sub(r"\1", ROLE.sub("", title))
    return one_line(text.replace("`", "").replace("*", "").replace("|", ""))


def _fields(lines: list[str]) -> dict[str, str]:
    groups = groupby(lines[:60], lambda line: bool(line.strip()))
    for group in [list(group) for filled, group in groups if filled][:2]:
        matches = [FIELD.match(line) for line in group]
        if matches and matches[0]:
            return {match[1].strip().lower(): match[2].strip() for match in matches if match}
    return {}


def _blocks(lines: list[str], spans: Lines) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        line = lines[number]
        kind: BlockKind | None = None
        first, end, parts = number, number + 1, list[tuple[int, int]]()
        if CODE.match(line) or (line.rstrip().endswith("::") and not line.startswith("..")):
            first, end = _indented(lines, number + 1)
            kind = "code" if end > first else None
            end = max(end, number + 1)
        elif line.startswith("+-") or RULES.fullmatch(line):
            end, parts = _table(lines, number)
            kind = "table"
        elif BULLET.match(line):
            end, parts = _items(lines, number)
            kind = "list"
        if kind is not None and (span := spans.span(first, end)).end > span.start:
            inner = (spans.span(*part) for part in parts)
            items = tuple(part for part in inner if part.end > part.start)
            yield Block(start=span.start, end=span.end, kind=kind, parts=items)
        number = end


def _indented(lines: list[str], number: int) -> tuple[int, int]:
    """The indented block at or below a line, without directive options and blank lines around."""
    while number < len(lines):
        line = lines[number]
        if line.strip() and not (line[0].isspace() and line.lstrip().startswith(":")):
            break
        number += 1
    end = last = number
    while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
        if lines[end - 1].strip():
            last = end
    return number, last


def _table(lines: list[str], first: int) -> tuple[int, list[tuple[int, int]]]:
    """The end of a table, and the lines of each row, between rules; of simple tables, each line.

    Grid tables end at a blank line, simple ones at a rule before one.
    """
    simple = lines[first].startswith("=")
    end = first + 1
    while end < len(lines):
        below_rule = lines[end - 1].startswith("=") and end - 1 > first
        if not lines[end].strip() and (below_rule or not simple):
            break
        end += 1
    rows: list[tuple[int, int]] = []
    start: int | None = None
    for number, line in enumerate([*lines[first:end], ""], start=first):
        rule = line[:2] in ("+-", "+=", "==") or not line.strip()
        if start is not None and (rule or simple):
            rows.append((start, number))
            start = None
        if not rule and start is None:
            start = number
    return end, rows


def _items(lines: list[str], number: int) -> tuple[int, list[tuple[int, int]]]:
    """The end of a list, and the lines of each of its outermost items."""
    starts, end = [], number
    while number < len(lines):
        line = lines[number]
        if BULLET.match(line):
            starts.append(number)
        elif line.strip() and not line[0].isspace():
            break
        number += 1
        if line.strip():
            end = number
    return end, list(zip(starts, [*starts[1:], end], strict=True))
