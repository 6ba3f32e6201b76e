"""Locate spans in the structure of a document: pages, headings, tables, lists."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any

from lagotto.chunkers.boundaries import outermost
from lagotto.documents import CODE, Block, ChunkSection, Document, Heading, Span, common_path

LONGEST_HEADER = 200
"""Characters of a header row, and of the line before a table, that later chunks are read under."""
MOST_SCANNED = 1_000

_LINE_END = re.compile("\n")
_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"(?!(?:19|20)\d\d\b)(?<!\d)\d")


class Structure:
    """Looks spans up in a document's structure, each in logarithmic time."""

    def __init__(self, document: Document, *, common_headings: bool = False) -> None:
        self._text = document.text
        self._common_headings = common_headings
        self._pages = [page for page in document.pages if page.start < page.end]
        self._page_starts = [page.start for page in self._pages]
        self._page_ends = [page.end for page in self._pages]
        self._headings = document.headings
        self._heading_starts = [heading.start for heading in document.headings]
        self._parents = _parents(document.headings)
        self._blocks = outermost(document.blocks)
        self._block_ends = [block.end for block in self._blocks]
        self._line_ends: list[int] | None = None
        if document.kind == CODE:
            self._line_ends = [match.start() for match in _LINE_END.finditer(document.text)]

    def describe(self, span: Span) -> dict[str, Any]:
        """The fields of a Chunk that come from the document's structure.

        White space at the ends of a chunk doesn't count: it may lie on another page.
        """
        text = self._text[span.start : span.end]
        start = span.start + text.index(text.strip())
        visible = Span(start, start + len(text.strip()))
        sections = self.sections(visible) if self._headings else ()
        paths = [section.heading_path for section in sections] or [()]
        lines = None
        if (ends := self._line_ends) is not None:
            lines = bisect_left(ends, visible.start) + 1, bisect_left(ends, visible.end - 1) + 1
        common = common_path(paths) if self._common_headings else self.heading_path(visible.start)
        return {
            "pages": self.pages(visible),
            "heading_path": common,
            "sections": sections if paths != [common] else (),
            "lines": lines,
            **self._element(visible),
            "context": self.table_context(visible.start),
        }

    def table_context(self, offset: int) -> str:
        """What a chunk lacks that begins at `offset`, below the header row of a table.

        That is the line before the table, unless it is a heading, and the header row. A first row
        that looks as the next one does is no header: repeated, its values would be found anywhere.
        """
        index = bisect_right(self._block_ends, offset)
        block = self._blocks[index] if index < len(self._blocks) else None
        if block is None or block.kind != "table" or len(block.parts) < 2:
            return ""
        if block.parts[0].end > offset:
            return ""
        header, below = (self._text[start:end] for start, end in block.parts[:2])
        first = next((line.strip() for line in header.splitlines() if _LETTER.search(line)), "")
        if _numbers(first) > _numbers(below) / 2:
            first = ""
        lines = self._line_before(block.start), first[:LONGEST_HEADER]
        return "\n".join(filter(None, lines))

    def _line_before(self, offset: int) -> str:
        """The end of the last line before `offset`, if that is text and no heading."""
        earliest = max(0, offset - MOST_SCANNED)
        before = self._text[earliest:offset].rstrip()
        line = before.rpartition("\n")[2]
        start = earliest + len(before) - len(line)
        index = bisect_left(self._heading_starts, start)
        if not _LETTER.search(line) or start in self._heading_starts[index : index + 1]:
            return ""
        line = line.strip()
        return line if len(line) <= LONGEST_HEADER else line[-LONGEST_HEADER:].partition(" ")[2]

    def pages(self, span: Span) -> tuple[int, int] | None:
        first = bisect_right(self._page_ends, span.start)
        last = bisect_left(self._page_starts, span.end) - 1
        return (self._pages[first].number, self._pages[last].number) if first <= last else None

    def heading_path(self, offset: int) -> tuple[str, ...]:
        """The titles of the sections around `offset`, outermost first."""
        index = bisect_right(self._heading_starts, offset) - 1
        path = []
        while index >= 0:
            if offset < self._headings[index].end:
                path.append(self._headings[index].title)
            index = self._parents[index]
        return tuple(reversed(path))

    def sections(self, span: Span) -> tuple[ChunkSection, ...]:
        """The sections that the span reaches into, in order.

        A heading right above that of a subsection is no section of its own.
        """
        first = bisect_right(self._heading_starts, span.start)
        last = bisect_left(self._heading_starts, span.end)
        inner = {*self._heading_starts[first:last], *self._ends_within(span)}
        headings: list[tuple[int, tuple[str, ...]]] = []
        for start, end in pairwise([span.start, *sorted(inner), span.end]):
            path = self.heading_path(start)
            is_new = not headings or headings[-1][1] != path
            if is_new and not self._is_blank(start, end, bare=end < span.end):
                headings.append((start, path))
        described = []
        for (start, path), (end, _) in pairwise([*headings, (span.end, ())]):
            element = self._element(Span(start, end))
            ranges = element.get("row_range"), element.get("item_range")
            described.append(ChunkSection(start, path, *ranges))
        return tuple(described)

    def _is_blank(self, start: int, end: int, *, bare: bool) -> bool:
        """Whether there is no text, or, if `bare` headings count for none, only a heading."""
        text = self._text[start:end]
        if not bare or not text.strip():
            return not text.strip()
        index = bisect_left(self._heading_starts, start)
        is_heading = index < len(self._headings) and self._heading_starts[index] == start
        below = index + 1 < len(self._headings) and self._parents[index + 1] == index
        return is_heading and below and is_bare(text)

    def _ends_within(self, span: Span) -> set[int]:
        """Where sections end inside the span: a function may end before the next one starts."""
        first, last = (bisect_left(self._heading_starts, offset) for offset in span)
        ends = {heading.end for heading in self._headings[first:last]}
        around = first - 1  # the last heading before the span, and its parents
        while around >= 0:
            ends.add(self._headings[around].end)
            around = self._parents[around]
        return {end for end in ends if span.start < end < span.end}

    def _element(self, span: Span) -> dict[str, Any]:
        """The kind of block that makes up most of the span, and its range of rows or items."""
        shared: list[tuple[int, Block]] = []
        for index in range(bisect_right(self._block_ends, span.start), len(self._blocks)):
            block = self._blocks[index]
            if block.start >= span.end:
                break
            shared.append((min(block.end, span.end) - max(block.start, span.start), block))
        fields: dict[str, Any] = {}
        for length, block in sorted(shared, key=lambda pair: -pair[0]):
            if 2 * length > span.end - span.start:
                fields["element"] = block.kind
            if block.kind != "code":
                name = "row_range" if block.kind == "table" else "item_range"
                fields.setdefault(name, _part_range(block, span))
        return fields


def _numbers(row: str) -> float:
    """The share of the words of a row that hold a number, which a year in a header is not."""
    words = row.split()
    return sum(bool(_NUMBER.search(word)) for word in words) / max(1, len(words))


def is_bare(section: str) -> bool:
    """Whether a section is only a heading, which Markdown may underline."""
    _, *below = section.strip().splitlines() or [""]
    return not any(line.strip("=- ") for line in below)


def _parents(headings: tuple[Heading, ...]) -> list[int]:
    """For each heading the index of the heading of its parent section, or -1."""
    parents: list[int] = []
    open_sections: list[int] = []
    for index, heading in enumerate(headings):
        while open_sections and headings[open_sections[-1]].end <= heading.start:
            open_sections.pop()
        parents.append(open_sections[-1] if open_sections else -1)
        open_sections.append(index)
    return parents


def _part_range(block: Block, span: Span) -> tuple[int, int] | None:
    """The numbers of the first and the last part that the span overlaps."""
    first = bisect_right(block.parts, span.start, key=lambda part: part.end)
    last = bisect_left(block.parts, span.end, key=lambda part: part.start)
    if first >= last:
        return None
    return (block.numbers[first], block.numbers[last - 1]) if block.numbers else (first + 1, last)
