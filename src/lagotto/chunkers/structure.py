"""Locate spans in the structure of a document: pages, headings, tables, lists."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from lagotto.chunkers.boundaries import outermost
from lagotto.documents import Block, Document, Heading, Span


class Structure:
    """Looks spans up in a document's structure, each in logarithmic time."""

    def __init__(self, document: Document) -> None:
        self._text = document.text
        self._pages = [page for page in document.pages if page.start < page.end]
        self._page_starts = [page.start for page in self._pages]
        self._page_ends = [page.end for page in self._pages]
        self._headings = document.headings
        self._heading_starts = [heading.start for heading in document.headings]
        self._parents = _parents(document.headings)
        self._blocks = outermost(document.blocks)
        self._block_ends = [block.end for block in self._blocks]

    def describe(self, span: Span) -> dict[str, Any]:
        """The fields of a Chunk that come from the document's structure.

        White space at the ends of a chunk doesn't count: it may lie on another page.
        """
        visible = self._visible(span)
        return {
            "pages": self.pages(visible),
            "heading_path": self.heading_path(visible.start),
            **self._element(visible),
        }

    def _visible(self, span: Span) -> Span:
        text = self._text[span.start : span.end]
        stripped = text.strip()
        start = span.start + text.index(stripped)
        return Span(start, start + len(stripped))

    def pages(self, span: Span) -> tuple[int, int] | None:
        """The first and the last page that the span overlaps."""
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

    def _element(self, span: Span) -> dict[str, Any]:
        """The kind of block that makes up most of the span, and its range of rows or items."""
        shared = [(_shared(block, span), block) for block in self._touching(span)]
        found: dict[str, Any] = {}
        for length, block in sorted(shared, key=lambda pair: -pair[0]):
            if 2 * length > span.end - span.start:
                found["element"] = block.kind
            if block.kind != "code":
                name = "row_range" if block.kind == "table" else "item_range"
                found.setdefault(name, _part_range(block, span))
        return found

    def _touching(self, span: Span) -> list[Block]:
        first = bisect_right(self._block_ends, span.start)
        last = first
        while last < len(self._blocks) and self._blocks[last].start < span.end:
            last += 1
        return self._blocks[first:last]


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


def _shared(block: Block, span: Span) -> int:
    return min(block.end, span.end) - max(block.start, span.start)


def _part_range(block: Block, span: Span) -> tuple[int, int] | None:
    """1-based numbers of the first and the last part that the span overlaps."""
    first = bisect_right(block.parts, span.start, key=lambda part: part.end)
    last = bisect_left(block.parts, span.end, key=lambda part: part.start)
    return (first + 1, last) if first < last else None
