"""Build a text together with the spans of its headings, tables, lists and code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagotto.documents import Block, BlockKind, Heading, Page, Span

GAP = "\n\n"
CELL = " | "
BULLET = "- "
DEEPEST = 9
"""Deeper list items are indented like those of this depth."""


@dataclass(frozen=True, slots=True)
class HeadingMark:
    """The start of a heading in the text."""

    start: int
    level: int
    title: str


def sections(marks: Iterable[HeadingMark], *, end: int) -> tuple[Heading, ...]:
    """Turn marks into headings that span their section, up to the next of the same or higher level.

    `marks` are in the order of their starts; `end` is the length of the text.
    """
    ordered = list(marks)
    ends = [end] * len(ordered)
    unfinished: list[int] = []
    for number, mark in enumerate(ordered):
        while unfinished and ordered[unfinished[-1]].level >= mark.level:
            ends[unfinished.pop()] = mark.start
        unfinished.append(number)
    return tuple(
        Heading(start=mark.start, end=last, level=mark.level, title=mark.title)
        for mark, last in zip(ordered, ends, strict=True)
    )


def one_line(text: str) -> str:
    """Replace every run of white space, line ends included, by one space."""
    return " ".join(text.split())


def add_item(items: list[str], text: str, *, depth: int) -> None:
    """Add a list item at a depth from 0; a nested one is a further line of the item above it."""
    if depth and items:
        items[-1] += "\n" + "  " * (min(depth, DEEPEST) - 1) + BULLET + one_line(text)
    else:
        items.append(text)


class TextBuilder:
    """Collects blocks in reading order, separated by blank lines.

    Headings and rows take one line each, cells are joined by ` | `, list items start with `- ` and
    their further lines are indented. Blocks without text are ignored.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._marks: list[HeadingMark] = []
        self._blocks: list[Block] = []
        self._breaks: list[tuple[int, str | None]] = []
        """The length of the text before each page, and the label of the page."""

    @property
    def text(self) -> str:
        """The text so far."""
        return GAP.join(self._pieces)

    @property
    def headings(self) -> tuple[Heading, ...]:
        """The headings so far, spanning their sections."""
        return sections(self._marks, end=self._length)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The tables, lists and code so far."""
        return tuple(self._blocks)

    @property
    def length(self) -> int:
        """The number of characters so far."""
        return self._length

    @property
    def pages(self) -> tuple[Page, ...]:
        """The pages so far, one for each call of `page`; one without text is empty."""
        ends = [*(before for before, _ in self._breaks[1:]), self._length]
        return tuple(
            Page(
                start=min(end, before + (len(GAP) if before else 0)), end=end, number=n, label=label
            )
            for n, ((before, label), end) in enumerate(
                zip(self._breaks, ends, strict=True), start=1
            )
        )

    def page(self, label: str | None = None) -> int:
        """Start a new page; returns the offset where its text will start."""
        self._breaks.append((self._length, label))
        return self._length + (len(GAP) if self._pieces else 0)

    def section(self, title: str, *, level: int, start: int) -> None:
        """Add a heading that is not in the text, at an offset behind all other headings."""
        self._marks.append(HeadingMark(start=start, level=level, title=title))

    def paragraph(self, text: str) -> None:
        """Add running text; its line ends are kept."""
        if stripped := text.strip():
            self._append(stripped)

    def heading(self, title: str, *, level: int) -> None:
        """Add a heading on a line of its own."""
        if line := one_line(title):
            self._marks.append(HeadingMark(start=self._append(line), level=level, title=line))

    def code(self, text: str) -> None:
        """Add text with significant white space."""
        if text.strip():
            self._parts("code", [text.strip("\n")])

    def items(self, items: Iterable[str]) -> None:
        """Add a list; nested items are further lines of their item."""
        lines = [item.strip().replace("\n", "\n  ") for item in items if item.strip()]
        self._parts("list", [BULLET + line for line in lines])

    def table(self, rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> None:
        """Add a table, its header row (if it has one) first.

        Rows without text are left out, unless all have `numbers`: those in the source.
        """
        cells = ([one_line(cell) for cell in row] for row in rows)
        lines = [CELL.join(row) for row in cells if numbers or any(row)]
        is_counted = list(numbers) == list(range(1, len(numbers) + 1))
        self._parts("table", lines, () if is_counted else tuple(numbers))

    def _parts(self, kind: BlockKind, lines: Sequence[str], numbers: tuple[int, ...] = ()) -> None:
        if not lines:
            return
        start = position = self._append("\n".join(lines))
        spans: list[Span] = []
        for line in lines:
            spans.append(Span(position, position + len(line)))
            position += len(line) + 1
        parts = () if kind == "code" else tuple(spans)
        self._blocks.append(
            Block(start=start, end=self._length, kind=kind, parts=parts, numbers=numbers)
        )

    def _append(self, piece: str) -> int:
        start = self._length + (len(GAP) if self._pieces else 0)
        self._pieces.append(piece)
        self._length = start + len(piece)
        return start
