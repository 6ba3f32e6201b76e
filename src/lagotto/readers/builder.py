"""Building a text and, at the same time, the spans of its headings, tables, lists and code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagotto.documents import Block, BlockKind, Heading, Span

GAP = "\n\n"
CELL = " | "
BULLET = "- "


@dataclass(frozen=True, slots=True)
class HeadingMark:
    """Where a heading starts."""

    start: int
    level: int
    title: str


def sections(marks: Iterable[HeadingMark], *, end: int) -> tuple[Heading, ...]:
    """Each heading with its whole section: up to the next of the same or a higher level.

    `marks` come in the order of their starts; `end` is where the text ends.
    """
    unfinished: list[HeadingMark] = []
    done: list[Heading] = []

    def close(level: int, at: int) -> None:
        while unfinished and unfinished[-1].level >= level:
            mark = unfinished.pop()
            done.append(Heading(start=mark.start, end=at, level=mark.level, title=mark.title))

    for mark in marks:
        close(mark.level, mark.start)
        unfinished.append(mark)
    close(0, end)
    return tuple(sorted(done, key=lambda heading: (heading.start, -heading.end, heading.level)))


def one_line(text: str) -> str:
    """`text` with every run of white space, line ends included, as one space."""
    return " ".join(text.split())


class TextBuilder:
    """Collects blocks in reading order, a blank line between them.

    Headings and rows take one line each, cells are joined by ` | `, list items start with `- ` and
    their further lines are indented under it. Blocks without text leave no trace.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._marks: list[HeadingMark] = []
        self._blocks: list[Block] = []

    @property
    def text(self) -> str:
        """Everything so far."""
        return GAP.join(self._pieces)

    @property
    def headings(self) -> tuple[Heading, ...]:
        """The headings so far, each with its section."""
        return sections(self._marks, end=self._length)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The tables, lists and code so far."""
        return tuple(self._blocks)

    def paragraph(self, text: str) -> None:
        """Running text; line ends inside it stay."""
        if stripped := text.strip():
            self._append(stripped)

    def heading(self, title: str, *, level: int) -> None:
        """A heading on a line of its own."""
        if line := one_line(title):
            self._marks.append(HeadingMark(start=self._append(line), level=level, title=line))

    def code(self, text: str) -> None:
        """Text whose white space means something."""
        if text.strip():
            self._parts("code", [text.strip("\n")])

    def items(self, items: Iterable[str]) -> None:
        """A list; an item's nested items are further lines of it."""
        lines = [item.strip().replace("\n", "\n  ") for item in items if item.strip()]
        self._parts("list", [BULLET + line for line in lines])

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """A table, its heading row (if it has one) first."""
        cells = ([one_line(cell) for cell in row] for row in rows)
        self._parts("table", [CELL.join(row) for row in cells if any(row)])

    def _parts(self, kind: BlockKind, lines: Sequence[str]) -> None:
        if not lines:
            return
        start = position = self._append("\n".join(lines))
        spans: list[Span] = []
        for line in lines:
            spans.append(Span(position, position + len(line)))
            position += len(line) + 1
        parts = () if kind == "code" else tuple(spans)
        self._blocks.append(Block(start=start, end=self._length, kind=kind, parts=parts))

    def _append(self, piece: str) -> int:
        start = self._length + (len(GAP) if self._pieces else 0)
        self._pieces.append(piece)
        self._length = start + len(piece)
        return start
