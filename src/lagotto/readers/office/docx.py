"""Word documents: paragraphs, headings, lists and tables in document order."""

from __future__ import annotations

import re

from lxml import etree

from lagotto.readers.base import Draft, TextBuilder, add_item, one_line
from lagotto.readers.office import xml
from lagotto.readers.office.package import Package, core_properties, package_reader

DOCUMENT = re.compile(r"word/document\d*\.xml")
STYLES = re.compile(r"word/styles\d*\.xml")
HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
LIST = re.compile(r"list \w+ (\d)", re.IGNORECASE)
LEVELS = range(9)


@package_reader("docx", noun="Word file")
def read_docx(package: Package) -> Draft:
    """Read the body with all tracked changes accepted.

    Headings are paragraphs with a heading style or outline level, lists are runs of numbered or
    bulleted paragraphs. Headers, footers, footnotes and comments are left out.
    """
    document = package.xml(package.require(DOCUMENT))
    styles = Styles(package.xml(package.find(STYLES)))
    builder = TextBuilder()
    title = _render(xml.child(document, "body"), styles, builder)
    return builder.draft(**core_properties(package, title=title))


def _render(body: etree._Element | None, styles: Styles, builder: TextBuilder) -> str | None:
    """Fill `builder` and return the first paragraph in the Title style."""
    title: str | None = None
    items: list[str] = []
    for element in xml.inside(body, "p", "tbl"):
        is_table = xml.name_of(element) == "tbl"
        text = "" if is_table else xml.run_text(element)
        settings, names = styles.of(element)
        level = _level(settings, names)
        depth = _depth(settings, names) if level is None else None
        if text.strip() and depth is not None:
            add_item(items, text, depth=depth)
            continue
        if text.strip() or is_table:
            builder.items(items)
            items.clear()
        if is_table:
            rows = (xml.inside(row, "tc") for row in xml.inside(element, "tr"))
            builder.table([xml.run_text(cell) for cell in row] for row in rows)
        elif level is not None:
            builder.heading(text, level=level)
        else:
            title = title or (one_line(text) if "Title" in names[:1] else None)
            builder.paragraph(text)
    builder.items(items)
    return title


class Styles:
    """The paragraph styles of a document, with inheritance."""

    def __init__(self, root: etree._Element | None) -> None:
        self._styles = {xml.value(style, "styleId"): style for style in xml.children(root, "style")}

    def of(self, paragraph: etree._Element) -> tuple[list[etree._Element | None], list[str]]:
        """The settings of a paragraph, its style and the parents of that; the names of styles."""
        own = xml.child(paragraph, "pPr")
        styles: dict[str | None, etree._Element] = {}
        style_id = xml.value(xml.child(own, "pStyle"))
        while style_id in self._styles and style_id not in styles:
            styles[style_id] = self._styles[style_id]
            style_id = xml.value(xml.child(styles[style_id], "basedOn"))
        names = [xml.value(xml.child(style, "name")) or "" for style in styles.values()]
        return [own, *(xml.child(style, "pPr") for style in styles.values())], names


def _level(settings: list[etree._Element | None], names: list[str]) -> int | None:
    for item in settings:
        outline = xml.number(xml.value(xml.child(item, "outlineLvl")))
        if outline is not None:
            return outline + 1 if outline in LEVELS else None
    matches = (HEADING.fullmatch(name) for name in names)
    return next((int(match[1]) for match in matches if match and int(match[1])), None)


def _depth(settings: list[etree._Element | None], names: list[str]) -> int | None:
    for item in settings:
        if (numbering := xml.child(item, "numPr")) is not None:
            if xml.value(xml.child(numbering, "numId")) == "0":
                return None
            by_name = LIST.fullmatch(names[0]) if names else None
            by_level = xml.number(xml.value(xml.child(numbering, "ilvl"))) or 0
            return by_level or (int(by_name[1]) - 1 if by_name else 0)
    return None
