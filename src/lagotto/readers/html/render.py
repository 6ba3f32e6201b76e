"""Render elements as text: paragraphs, headings, tables, lists and code in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from lagotto.readers.builder import BULLET, TextBuilder, one_line
from lagotto.readers.html.main_content import Skip, walk

INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del"),
        *("dfn", "em", "font", "i", "img", "ins", "kbd", "label", "mark", "q", "rb", "rp", "rt"),
        *("ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt"),
        *("u", "var", "wbr"),
    )
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset({"ul", "ol", "menu"})
CODE = frozenset({"pre", "listing", "xmp"})
WHOLE = frozenset({*HEADINGS, *LISTS, *CODE, "table"})
SPACE = re.compile(r"\s+")


def render(root: etree._Element, *, skip: Skip, builder: TextBuilder | None = None) -> TextBuilder:
    """Add the text and structure of `root`, without what `skip` selects, to a `builder`."""
    builder = TextBuilder() if builder is None else builder
    line: list[str] = []
    layout = _layout(root)

    def flush() -> None:
        lines = "".join(line).split("\n")
        builder.paragraph("\n".join(part.strip(" ") for part in lines))
        line.clear()

    def is_whole(element: etree._Element) -> bool:
        return element.tag in WHOLE and element not in layout

    for event, element in walk(root, lambda item: skip(item) or is_whole(item)):
        if element.tag not in INLINE:
            flush()
        if event == "start":
            line.append("\n" if element.tag == "br" else _collapsed(element.text))
        elif event == "skip" and is_whole(element) and not skip(element):
            _add_whole(builder, element, skip)
        if event != "start" and element is not root:
            line.append(_collapsed(element.tail))
    flush()
    return builder


def _layout(root: etree._Element) -> set[etree._Element]:
    """Lists and tables that contain a heading or table, and so only lay out the page."""
    around: set[etree._Element] = set()
    for inner in root.iter(*HEADINGS, "table"):
        for outer in inner.iterancestors():
            if outer in around:
                break
            around.add(outer)
    return {element for element in around if element.tag in WHOLE}


def _add_whole(builder: TextBuilder, element: etree._Element, skip: Skip) -> None:
    if element.tag in HEADINGS:
        builder.heading(_text(element, skip), level=HEADINGS[element.tag])
    elif element.tag in LISTS:
        builder.items(_items(element, skip))
    elif element.tag in CODE:
        builder.code("".join(_pieces(element, skip)))
    else:
        builder.table(_rows(element, skip))


def _pieces(element: etree._Element, skip: Skip) -> Iterator[str]:
    """Yield all text in `element` unchanged, with a line end for each `<br>`."""
    for event, item in walk(element, skip):
        if event == "start":
            yield "\n" if item.tag == "br" else item.text or ""
        elif item is not element:
            yield item.tail or ""


def _text(element: etree._Element, skip: Skip) -> str:
    return one_line("".join(_pieces(element, skip)))


def _rows(table: etree._Element, skip: Skip) -> Iterator[list[str]]:
    for row in table.iter("tr"):
        if not skip(row):
            yield [_text(cell, skip) for cell in row if cell.tag in ("td", "th")]


def _items(root: etree._Element, skip: Skip) -> Iterator[str]:
    """Yield the outermost items; nested items are further lines, indented by depth."""
    lines: list[str] = []
    for depth, text in _item_lines(root, skip):
        if depth <= 1 and lines:
            yield "\n".join(lines)
            lines.clear()
        lines.append("  " * (depth - 2) + BULLET + text if depth > 1 and lines else text)
    yield "\n".join(lines)


def _item_lines(root: etree._Element, skip: Skip) -> Iterator[tuple[int, str]]:
    """Yield depth and own text of each item, nested ones included, in reading order."""
    depth = 0
    item = _Item()
    for event, element in walk(root, lambda inner: skip(inner) or inner.tag in CODE):
        if event != "skip" and element.tag in (*LISTS, "li"):
            if text := item.text():
                yield item.depth, text
            if element.tag in LISTS:
                depth += 1 if event == "start" else -1
            item = _Item(depth)
        if event == "start":
            item.add(element, element.text)
        elif event == "skip" and element.tag in CODE and not skip(element):
            item.add_code("".join(_pieces(element, skip)))
        if event != "start" and element is not root:
            item.add(element, element.tail)


class _Item:
    """Collects the text of a list item: words on one line, code on its own lines."""

    def __init__(self, depth: int = 1) -> None:
        self.depth = depth
        self._lines: list[str] = []
        self._words: list[str] = []

    def add(self, element: etree._Element, text: str | None) -> None:
        """Add text at the start or end of an element; a block is separated by a space."""
        inline = element.tag in INLINE and element.tag != "br"
        self._words.append((text or "") if inline else f" {text or ''}")

    def add_code(self, code: str) -> None:
        """Add a block of code."""
        self._lines += [one_line("".join(self._words)), code.strip("\n")]
        self._words.clear()

    def text(self) -> str:
        """The collected text."""
        lines = (*self._lines, one_line("".join(self._words)))
        return "\n".join(line for line in lines if line)


def _collapsed(text: str | None) -> str:
    return SPACE.sub(" ", text) if text else ""
