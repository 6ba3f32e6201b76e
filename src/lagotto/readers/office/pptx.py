"""PowerPoint presentations: each slide is a page, its title a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from lagotto.readers.base import Draft, HeadingMark, TextBuilder, add_item, one_line
from lagotto.readers.office import xml
from lagotto.readers.office.package import Package, core_properties, package_reader, related

PRESENTATION = re.compile(r"ppt/presentation\d*\.xml")
TITLES = frozenset({"title", "ctrTitle"})
FURNITURE = frozenset({"sldNum", "ftr", "hdr", "dt", "sldImg"})
"""Placeholders that every slide repeats."""
OUTLINE = frozenset({"body", "obj", None})
"""Placeholders of bullet points."""


@package_reader("pptx", noun="PowerPoint file")
def read_pptx(package: Package) -> Draft:
    """Read slides in their order: title, bullet points, text boxes, tables, speaker notes.

    A slide is a page and a section. Slide numbers, footers and dates are left out; pictures and
    charts have no text.
    """
    builder = TextBuilder()
    main = package.require(PRESENTATION)
    listed = xml.children(xml.child(package.xml(main), "sldIdLst"), "sldId")
    slides = (relation.part for _, relation in related(package.relations(main), listed))
    for number, slide in enumerate(slides, start=1):
        start = builder.page()
        titled = _add_slide(builder, package.xml(slide))
        for relation in package.relations(slide).values():
            if relation.kind == "notesSlide":
                for shape in _shapes(package.xml(relation.part)):
                    text = "\n".join(text for _, text in _paragraphs(shape))
                    if text and _placeholder(shape) == "body":
                        builder.paragraph(f"Notes: {text}")
        if not titled and builder.length > start:
            builder.marks.append(HeadingMark(start, 1, f"Slide {number}"))
    return builder.draft(**core_properties(package))


def _add_slide(builder: TextBuilder, slide: etree._Element | None) -> bool:
    """Add the text of a slide; whether it has a title."""
    shapes = _shapes(slide)
    title = next((shape for shape in shapes if _placeholder(shape) in TITLES), None)
    words = " ".join(text for _, text in _paragraphs(title)) if title is not None else ""
    builder.heading(words, level=1)
    for shape in shapes:
        if xml.name_of(shape) == "graphicFrame":
            for table in shape.iter("{*}tbl"):
                rows = (xml.children(row, "tc") for row in xml.children(table, "tr"))
                builder.table([xml.run_text(cell) for cell in row] for row in rows)
        elif shape is not title and _placeholder(shape) not in FURNITURE:
            _add_text(builder, shape)
    return bool(words)


def _shapes(slide: etree._Element | None) -> list[etree._Element]:
    return list(xml.inside(xml.child(slide, "cSld", "spTree"), "sp", "graphicFrame"))


def _placeholder(shape: etree._Element) -> str | None:
    """The kind of placeholder: `text` for a free text box, None for one without a type."""
    placeholder = xml.child(shape, "nvSpPr", "nvPr", "ph")
    return "text" if placeholder is None else xml.value(placeholder, "type")


def _add_text(builder: TextBuilder, shape: etree._Element) -> None:
    paragraphs = list(_paragraphs(shape))
    if _placeholder(shape) not in OUTLINE or len(paragraphs) == 1:
        builder.paragraph("\n".join(text for _, text in paragraphs))
        return
    items: list[str] = []
    for depth, text in paragraphs:
        add_item(items, one_line(text), depth=depth)
    builder.items(items)


def _paragraphs(shape: etree._Element) -> Iterator[tuple[int, str]]:
    for paragraph in xml.children(xml.child(shape, "txBody"), "p"):
        if text := xml.run_text(paragraph).strip():
            yield xml.number(xml.value(xml.child(paragraph, "pPr"), "lvl")) or 0, text
