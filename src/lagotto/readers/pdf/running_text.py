"""Running headers and footers: lines in the margins that repeat from page to page.

In the text they would stand in the middle of sentences that go on over the page, and in every
chunk and vector.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

MARGIN = 0.075
"""The part of a page's height, at the top and at the bottom, where its running text is."""

FEWEST_PAGES = 3
SHARE = 1 / 3
"""A line runs if it is on this share of the pages: those of left and right pages often differ."""

MOST_LINES = 5
"""Lines of a margin that come into question."""

EDGE_LINES = 2
"""Lines at either end of a page that come into question where the margins have no running text."""

NEAR = (-2, -1, 1, 2)
"""Distances in pages at which a page number continues."""

_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"(?=.)(?:c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})", re.IGNORECASE)
_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, and the lines in its upper and its lower margin."""

    text: str
    top: tuple[str, ...] = ()
    bottom: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with its numbers apart: `form` is what repeats."""

    form: str
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> _Line:
        line = " ".join(text.split())
        if _ROMAN.fullmatch(line):
            return cls("#", (_roman(line.lower()),))
        numbers = tuple(int(number[:9]) for number in _NUMBER.findall(line))
        return cls(_NUMBER.sub("#", line), numbers)

    def counting(self, other: _Line, distance: int) -> list[int]:
        """Which numbers of this line go on in the same line of a page at that distance."""
        if self.form != other.form:
            return []
        pairs = enumerate(zip(self.numbers, other.numbers, strict=True))
        return [at for at, (before, after) in pairs if after - before == distance]


class _Margins:
    """The lines in the margins of all pages; tells which of them run."""

    def __init__(self, pages: Sequence[PageText]) -> None:
        self._lines = [[_Line.of(text) for text in (*page.top, *page.bottom)] for page in pages]
        counts = Counter(form for lines in self._lines for form in {line.form for line in lines})
        most = max(FEWEST_PAGES, SHARE * len(pages))
        self._frequent = {form for form, count in counts.items() if count >= most}
        self._first_numbers = self._numberings()

    def running(self, index: int, texts: Sequence[str]) -> list[str]:
        """Those of `texts`, lines of the page with that index, that run."""
        return [text for text in texts if self._runs(index, _Line.of(text))]

    def _runs(self, index: int, line: _Line) -> bool:
        if line.form in self._frequent or self._continued(index, line):
            return True
        return line.form == "#" and line.numbers[0] in self.numbers(index)

    def numbers(self, index: int) -> set[int]:
        """What the page with that index may be numbered."""
        return {first + index for first in self._first_numbers}

    def _continued(self, index: int, line: _Line) -> set[int]:
        """What the first page would be numbered by the numbers of the line that count pages."""
        return {
            line.numbers[at] - index
            for distance in NEAR
            if 0 <= index + distance < len(self._lines)
            for other in self._lines[index + distance]
            for at in line.counting(other, distance)
        }

    def _numberings(self) -> set[int]:
        """What the first page would be numbered, by many of the pages: chapters number anew."""
        counts = Counter(
            first
            for index, lines in enumerate(self._lines)
            for first in set().union(*(self._continued(index, line) for line in lines))
        )
        return {first for first, count in counts.items() if count >= FEWEST_PAGES}


def without_running_text(pages: Sequence[PageText]) -> tuple[list[str], list[str]]:
    """The texts of the pages without running lines, and the distinct wordings of these.

    A line in a margin runs if it is on many of the pages, whatever its numbers, or if it is also on
    a page nearby and has a number that counts the pages, or if it is nothing but such a number.
    Where no line runs in the upper or in the lower margins, see `_without_edges`.
    """
    margins = _Margins(pages)
    wordings: dict[str, None] = {}
    texts = []
    ran: set[int] = set()
    for index, page in enumerate(pages):
        top, bottom = (margins.running(index, lines) for lines in (page.top, page.bottom))
        texts.append(_without(page.text, top, bottom))
        ran |= {side for side, lines in ((1, top), (-1, bottom)) if lines}
        numbers = margins.numbers(index)
        said = (_wording(line, numbers) for line in (*top, *bottom))
        wordings.update(dict.fromkeys(filter(None, said)))
    for side in {1, -1} - ran:
        texts, repeated = _without_edges(texts, side)
        wordings.update(dict.fromkeys(repeated))
    return texts, list(wordings)


def _without_edges(texts: Sequence[str], side: int) -> tuple[list[str], list[str]]:
    """The texts without running lines at their beginnings (side 1) or ends (-1), and these lines.

    LaTeX sets headers and page numbers too far inside for a margin. A line at the edge runs if it
    is a number that counts the pages, on half of them, or if half of them have it word for word:
    that one stays on the first page, since it may be the head of a table.
    """
    edges = [[line for line in _lines(text)[::side] if line][:EDGE_LINES] for text in texts]
    most = max(FEWEST_PAGES, len(texts) / 2)
    lines = Counter(line for edge in edges for line in set(edge))
    repeated = {line for line, count in lines.items() if count >= most}
    firsts = Counter(first for index, edge in enumerate(edges) for first in _firsts(edge, index))
    numberings = {first for first, count in firsts.items() if count >= most}
    met: dict[str, None] = {}
    found = []
    for index, (text, edge) in enumerate(zip(texts, edges, strict=True)):
        running = [
            line
            for line in edge
            if line in met or not numberings.isdisjoint(_firsts([line], index))
        ]
        met.update(dict.fromkeys(line for line in edge if line in repeated))
        bare = _without(text, *((running, ()) if side > 0 else ((), running)))
        found.append(bare if bare.strip() else text)
    return found, list(met)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")]


def _firsts(edge: Iterable[str], index: int) -> set[int]:
    """What the first page would be numbered, by the lines that are only a number."""
    lines = (_Line.of(line.strip(" -–—|")) for line in edge)
    return {line.numbers[0] - index for line in lines if line.form == "#"}


def _without(text: str, top: Sequence[str], bottom: Sequence[str]) -> str:
    """The text without a line for each of `top`, the first such, and of `bottom`, the last such."""
    lines = text.split("\n")
    for running, order in ((top, 1), (bottom, -1)):
        for line in running:
            found = [at for at, one in enumerate(lines) if one.strip() == line][::order]
            if found:
                del lines[found[0]]
    return "\n".join(lines).strip("\n")


def _wording(line: str, numbers: Collection[int]) -> str:
    """What a running line says besides the number of its page, one of `numbers`."""
    if _ROMAN.fullmatch(line):
        return ""
    counting = [match for match in _NUMBER.finditer(line) if int(match.group()[:9]) in numbers]
    if counting:
        line = line[: counting[-1].start()] + line[counting[-1].end() :]
    return " ".join(line.split()).strip(" |-–—/:,")


def _roman(text: str) -> int:
    values = [_VALUES[char] for char in text]
    after = [*values[1:], 0]
    return sum(-one if one < next_ else one for one, next_ in zip(values, after, strict=True))
