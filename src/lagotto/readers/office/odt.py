"""OpenDocument texts: paragraphs, headings, lists and tables in document order."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from lagotto.readers.base import Draft, TextBuilder, add_item, collapsed
from lagotto.readers.office import xml
from lagotto.readers.office.package import Package, Properties, locked, package_reader

CONTENT, META, MANIFEST = "content.xml", "meta.xml", "META-INF/manifest.xml"
WRAPPERS = frozenset({"section", "text-box", "frame"})
WITHOUT_TEXT = frozenset({"note", "annotation", "tracked-changes", "ruby-text", "bookmark"})
ROWS = frozenset({"table-row", "table-header-rows", "table-rows", "table-row-group"})
BREAKS = {"tab": "\t", "line-break": "\n", "s": " "}
MOST_COLUMNS = 256
"""A cell is repeated at most so often: a table may claim a million empty columns."""


@package_reader("odt", noun="OpenDocument text")
def read_odt(package: Package) -> Draft:
    """Read the body as it stands after tracked changes; footnotes and comments are left out."""
    if b"encryption-data" in package.read(MANIFEST):
        raise locked(package.source, package.noun)
    content = package.xml(package.require(CONTENT))
    builder = TextBuilder()
    _render(xml.child(content, "body", "text"), builder)
    properties = Properties(xml.child(package.xml(META), "meta"))
    fields = properties.fields(
        created="creation-date",
        updated="date",
        author=properties.first("initial-creator") or properties.first("creator"),
        keywords=properties.all("keyword"),
    )
    return builder.draft(**fields)


def _render(body: etree._Element | None, builder: TextBuilder) -> None:
    for element in () if body is None else body:
        name = xml.name_of(element)
        if name == "h":
            level = xml.number(xml.value(element, "outline-level")) or 1
            builder.heading(_text(element), level=max(1, level))
        elif name == "p":
            builder.paragraph(_text(element))
            _render_frames(element, builder)
        elif name == "list":
            items: list[str] = []
            _add_items(items, element, depth=0)
            builder.items(items)
        elif name == "table":
            builder.table(_rows(element))
        elif name in WRAPPERS:
            _render(element, builder)


def _render_frames(paragraph: etree._Element, builder: TextBuilder) -> None:
    """Text boxes that are anchored in a paragraph follow it."""
    for item in paragraph:
        if xml.name_of(item) == "text-box":
            _render(item, builder)
        else:
            _render_frames(item, builder)


def _add_items(items: list[str], element: etree._Element, *, depth: int) -> None:
    for item in xml.children(element, "list-item", "list-header"):
        if text := " ".join(_text(part) for part in xml.children(item, "p", "h")).strip():
            add_item(items, text, depth=depth)
        for inner in xml.children(item, "list"):
            _add_items(items, inner, depth=depth + 1)


def _text(element: etree._Element) -> str:
    """White space in the file is layout: runs of it are one space."""
    text = collapsed(element.text)
    for item in element:
        name = xml.name_of(item)
        if name in BREAKS:
            text += BREAKS[name]
        elif name and name not in WITHOUT_TEXT and name != "frame":
            text += _text(item)
        text += collapsed(item.tail)
    return text


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for group in xml.children(table, *ROWS):
        if xml.name_of(group) == "table-row":
            yield list(_cells(group))
        else:
            yield from _rows(group)


def _cells(row: etree._Element) -> Iterator[str]:
    for cell in xml.children(row, "table-cell", "covered-table-cell"):
        text = "\n".join(_text(part) for part in cell.iter("{*}p", "{*}h"))
        repeated = xml.number(xml.value(cell, "number-columns-repeated")) or 1
        yield from [text] * min(repeated, MOST_COLUMNS if text else 1)
