"""Parts of a document by name: sections by number or title, pages, lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lagotto.documents import Document, Heading, Span
from lagotto.errors import ConfigError
from lagotto.suggestions import did_you_mean

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_LINE_END = re.compile("\n")


@dataclass(frozen=True, slots=True)
class Section:
    """A section with its number in the outline, such as 2.1."""

    number: str
    heading: Heading

    @property
    def span(self) -> Span:
        """Its text, with its subsections."""
        return Span(self.heading.start, self.heading.end)


def sections(document: Document) -> list[Section]:
    """The sections of a document in order, numbered by their nesting."""
    return list(_numbered(document.headings))


def _numbered(headings: Iterable[Heading]) -> Iterator[Section]:
    open_levels: list[int] = []
    counts = [0]
    for heading in headings:
        while open_levels and open_levels[-1] >= heading.level:
            open_levels.pop()
        open_levels.append(heading.level)
        depth = len(open_levels)
        counts = [*counts[:depth], *([0] * (depth - len(counts)))]
        counts[depth - 1] += 1
        yield Section(".".join(map(str, counts)), heading)


def section_span(document: Document, wanted: str) -> Span:
    """The section of this number or title; ConfigError if there is none, or several."""
    known = sections(document)
    asked = wanted.strip()
    by_number = [section for section in known if section.number == asked.rstrip(".")]
    if by_number:
        return by_number[0].span
    by_title = [
        section for section in known if section.heading.title.casefold() == asked.casefold()
    ]
    if len(by_title) == 1:
        return by_title[0].span
    if by_title:
        numbers = ", ".join(section.number for section in by_title[:20])
        raise ConfigError(f"{len(by_title)} sections have this title: {numbers}; pass a number")
    if not known:
        raise ConfigError("the document has no sections; pass page or lines, or nothing")
    near = did_you_mean(asked, [section.number for section in known])
    raise ConfigError(
        f"no section has the number or title {asked[:100]!r}{near}; `outline` lists "
        f"all {len(known)}"
    )


def page_span(document: Document, wanted: str) -> Span:
    """The text of a page or of pages, `3` or `3-5`; ConfigError if there are none."""
    first, last = _parsed(wanted, "page")
    found = [page for page in document.pages if first <= page.number <= last]
    if not document.pages:
        raise ConfigError("the document has no pages; pass section or lines, or nothing")
    if not found:
        numbers = f"{document.pages[0].number} to {document.pages[-1].number}"
        raise ConfigError(f"page is {wanted[:40]!r}; the document has the pages {numbers}")
    return Span(min(page.start for page in found), max(page.end for page in found))


def line_span(document: Document, wanted: str) -> Span:
    """The text of a line or of lines, counted from 1; ConfigError if there are none."""
    first, last = _parsed(wanted, "lines")
    starts = [0, *(match.end() for match in _LINE_END.finditer(document.text))]
    if not 1 <= first <= len(starts):
        raise ConfigError(f"lines is {wanted[:40]!r}; the document has {len(starts)} lines")
    end = starts[last] if last < len(starts) else len(document.text)
    return Span(starts[first - 1], end)


def line_count(text: str) -> int:
    """The number of lines of a text."""
    return text.count("\n") + 1 if text else 0


def _parsed(wanted: str, name: str) -> tuple[int, int]:
    match = _RANGE.fullmatch("".join(wanted.split()))
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise ConfigError(f'{name} is {wanted[:40]!r}; write a number or a range, such as "3-5"')
    return int(match[1]), int(match[2] or match[1])
