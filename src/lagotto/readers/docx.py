"""Word documents: paragraphs, headings, lists and tables in document order."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, ReadError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.builder import BULLET, TextBuilder, one_line
from lagotto.readers.dates import parse_iso_date
from lagotto.readers.docx_package import Package, open_package
from lagotto.readers.docx_styles import Styles, child, children, local_name, parse_xml
from lagotto.readers.draft import Draft
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.language import language_code

WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"})
WITHOUT_TEXT = frozenset({"pPr", "rPr", "del", "moveFrom", "Fallback"})
BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class DocxReader:
    """Reads the body as it stands with all changes accepted.

    Headings are paragraphs of a heading style or outline level, lists are runs of numbered or
    bulleted paragraphs. Headers, footers, footnotes and comments are left out. Only the parts of
    the file that hold this text are unpacked, within `max_bytes`.
    """

    kind = "docx"
    suffixes = SUFFIXES["docx"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        package = open_package(source, limit=options.max_bytes)
        try:
            draft = _draft(package)
        except etree.XMLSyntaxError as exc:
            raise CorruptSourceError(
                source.label, f"the XML in this Word file is damaged ({exc})"
            ) from exc
        yield draft.document(source, options=options)


def _draft(package: Package) -> Draft:
    styles = Styles(parse_xml(package.styles) if package.styles else None)
    properties = _properties(package.properties)
    builder = TextBuilder()
    title = _render(child(parse_xml(package.document), "body"), styles, builder)
    known = {"author": properties.get("creator"), "keywords": properties.get("keywords")}
    return Draft(
        kind=DocxReader.kind,
        text=builder.text,
        headings=builder.headings,
        blocks=builder.blocks,
        title=properties.get("title") or title,
        summary=properties.get("description"),
        language=language_code(properties.get("language")),
        metadata={name: text for name, text in known.items() if text},
        created_at=parse_iso_date(properties.get("created")),
        updated_at=parse_iso_date(properties.get("modified")),
    )


def _properties(data: bytes) -> dict[str, str]:
    root = parse_xml(data) if data else ()
    texts = {local_name(item): one_line(item.text or "") for item in root}
    return {name: text for name, text in texts.items() if text}


def _render(body: etree._Element | None, styles: Styles, builder: TextBuilder) -> str | None:
    """Fill `builder`; returns the first paragraph in the Title style."""
    title: str | None = None
    items: list[str] = []
    for element in _flattened(body):
        text = _text(element) if local_name(element) == "p" else ""
        shape = styles.shape(element)
        if text.strip() and shape.level is None and shape.depth is not None:
            _add_item(items, text, depth=shape.depth)
            continue
        if text.strip() or local_name(element) == "tbl":
            builder.items(items)
            items.clear()
        if local_name(element) == "tbl":
            builder.table(_rows(element))
        elif shape.level is not None:
            builder.heading(text, level=shape.level)
        else:
            title = title or (one_line(text) if shape.is_title else None)
            builder.paragraph(text)
    builder.items(items)
    return title


def _flattened(element: etree._Element | None) -> Iterator[etree._Element]:
    """Paragraphs and tables, also those inside content controls and insertions."""
    for item in children(element, "p", "tbl", *WRAPPERS):
        if local_name(item) in WRAPPERS:
            yield from _flattened(item)
        else:
            yield item


def _add_item(items: list[str], text: str, *, depth: int) -> None:
    if depth and items:
        items[-1] += "\n" + "  " * (depth - 1) + BULLET + one_line(text)
    else:
        items.append(text)


def _text(element: etree._Element) -> str:
    return "".join(_pieces(element))


def _pieces(element: etree._Element) -> Iterator[str]:
    for item in element:
        name = local_name(item)
        if name == "t":
            yield item.text or ""
        elif name in BREAKS:
            yield BREAKS[name]
        elif name not in WITHOUT_TEXT:
            yield from _pieces(item)
            if name == "p":
                yield "\n"


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for row in _inside(table, "tr"):
        yield [_text(cell) for cell in _inside(row, "tc")]


def _inside(element: etree._Element, name: str) -> Iterator[etree._Element]:
    for item in children(element, name, *WRAPPERS):
        if local_name(item) == name:
            yield item
        else:
            yield from _inside(item, name)
