"""Word documents: paragraphs, headings, lists and tables in document order."""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from lagotto.documents import Document
from lagotto.errors import (
    CorruptSourceError,
    EmptySourceError,
    EncryptedSourceError,
    ReadError,
    SourceTooLargeError,
    UnsupportedFormatError,
)
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.builder import BULLET, TextBuilder, one_line
from lagotto.readers.draft import Draft, parse_iso_date
from lagotto.readers.formats import OLE_MAGIC, SUFFIXES
from lagotto.readers.language import language_code

WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"})
WITHOUT_TEXT = frozenset({"pPr", "rPr", "del", "moveFrom", "Fallback"})
BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
MAX_RATIO = 200
SMALL = 10_000_000
"""Bytes; the compression ratio of smaller parts is not limited."""

DOCUMENT = re.compile(r"word/document\d*\.xml")
STYLES = re.compile(r"word/styles\d*\.xml")
PROPERTIES = re.compile(r"docProps/core\.xml")
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
)
HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
LIST = re.compile(r"list \w+ (\d)", re.IGNORECASE)
LEVELS = range(9)


class DocxReader:
    """Reads the body with all tracked changes accepted.

    Headings are paragraphs with a heading style or outline level, lists are runs of numbered or
    bulleted paragraphs. Headers, footers, footnotes and comments are left out. Only the needed
    parts of the file are unpacked, within `max_bytes`.
    """

    kind = "docx"
    suffixes = SUFFIXES["docx"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        package = open_package(source, limit=options.max_bytes)
        try:
            draft = _draft(package)
        except etree.XMLSyntaxError as exc:
            raise CorruptSourceError(
                source.label, f"damaged XML in this Word file ({exc})"
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
    """Fill `builder` and return the first paragraph in the Title style."""
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
    """Yield paragraphs and tables, including those in content controls and insertions."""
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


@dataclass(frozen=True, slots=True)
class Package:
    """The parts of a Word file that are needed; a missing part is empty."""

    document: bytes
    styles: bytes
    properties: bytes


def open_package(source: Source, *, limit: int) -> Package:
    """Unpack the needed parts of a Word file, at most `limit` bytes in total."""
    _refuse_ole(source, limit=limit)
    try:
        with source.open() as stream, zipfile.ZipFile(stream) as archive:
            parts = [_find(archive, name) for name in (DOCUMENT, STYLES, PROPERTIES)]
            _check(parts, source, limit=limit)
            document, styles, properties = (_unpack(archive, part) for part in parts)
    except DAMAGE as exc:
        raise CorruptSourceError(source.label, f"damaged or truncated Word file ({exc})") from exc
    return Package(document=document, styles=styles, properties=properties)


def _refuse_ole(source: Source, *, limit: int) -> None:
    head = source.head(len(OLE_MAGIC))
    if not head:
        raise EmptySourceError(source.label, "empty file; leave it out")
    if head != OLE_MAGIC:
        return
    if "EncryptedPackage".encode("utf-16-le") in source.read(limit=limit):
        raise EncryptedSourceError(
            source.label, "password-protected Word file; save it without a password"
        )
    raise UnsupportedFormatError(source.label, "old binary Office format; save it as .docx")


def _find(archive: zipfile.ZipFile, name: re.Pattern[str]) -> zipfile.ZipInfo | None:
    return next((part for part in archive.infolist() if name.fullmatch(part.filename)), None)


def _check(parts: list[zipfile.ZipInfo | None], source: Source, *, limit: int) -> None:
    """Check the zip directory before anything is unpacked."""
    found = [part for part in parts if part is not None]
    if parts[0] is None:
        raise CorruptSourceError(source.label, "zip file without a Word document")
    if any(part.flag_bits & 1 for part in found):
        raise EncryptedSourceError(
            source.label, "password-protected zip file; save it without a password"
        )
    total = sum(part.file_size for part in found)
    bomb = any(
        part.file_size > SMALL and part.file_size > MAX_RATIO * part.compress_size for part in found
    )
    if total > limit or bomb:
        raise SourceTooLargeError(
            source.label,
            f"unpacks to {total:,} bytes of XML; the limits are {limit:,} bytes (max_bytes) and "
            f"{MAX_RATIO} times the packed size",
        )


def _unpack(archive: zipfile.ZipFile, part: zipfile.ZipInfo | None) -> bytes:
    if part is None:
        return b""
    with archive.open(part) as stream:
        data = stream.read(part.file_size + 1)
    if len(data) > part.file_size:
        raise zipfile.BadZipFile(f"{part.filename} is larger than the zip directory says")
    return data


def parse_xml(data: bytes) -> etree._Element:
    """Parse XML; entities are not resolved and nothing is fetched."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True
    )
    return etree.fromstring(data, parser)


def local_name(element: etree._Element) -> str:
    """The tag without its namespace, which may be transitional or strict."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: etree._Element | None, *names: str) -> Iterator[etree._Element]:
    """The child elements with these local names."""
    return (
        (item for item in element if local_name(item) in names) if element is not None else iter(())
    )


def child(element: etree._Element | None, *path: str) -> etree._Element | None:
    """The first element along a path of local names."""
    for name in path:
        element = next(children(element, name), None)
    return element


def value(element: etree._Element | None, name: str = "val") -> str | None:
    """The value of an attribute, by its local name."""
    if element is None:
        return None
    found = (text for key, text in element.items() if str(key).rpartition("}")[2] == name)
    return next((str(text) for text in found), None)


@dataclass(frozen=True, slots=True)
class Shape:
    """The role of a paragraph: a heading of a level, a list item at a depth, or the title."""

    level: int | None = None
    depth: int | None = None
    is_title: bool = False


class Styles:
    """The paragraph styles of a document, with inheritance."""

    def __init__(self, root: etree._Element | None) -> None:
        self._styles = {value(style, "styleId"): style for style in children(root, "style")}

    def shape(self, paragraph: etree._Element) -> Shape:
        """The role of a paragraph, from its own settings, its style, and the parents of that."""
        own = child(paragraph, "pPr")
        styles = list(self._chain(value(child(own, "pStyle"))))
        settings = [own, *(child(style, "pPr") for style in styles)]
        names = [value(child(style, "name")) or "" for style in styles]
        return Shape(
            level=_level(settings, names),
            depth=_depth(settings, names),
            is_title="Title" in names[:1],
        )

    def _chain(self, style_id: str | None) -> Iterator[etree._Element]:
        seen: set[str | None] = set()
        while style_id in self._styles and style_id not in seen:
            seen.add(style_id)
            style = self._styles[style_id]
            yield style
            style_id = value(child(style, "basedOn"))


def _level(settings: list[etree._Element | None], names: list[str]) -> int | None:
    for item in settings:
        outline = _number(value(child(item, "outlineLvl")))
        if outline is not None:
            return outline + 1 if outline in LEVELS else None
    matches = (HEADING.fullmatch(name) for name in names)
    return next((int(match[1]) for match in matches if match and int(match[1])), None)


def _depth(settings: list[etree._Element | None], names: list[str]) -> int | None:
    for item in settings:
        numbering = child(item, "numPr")
        if numbering is not None:
            if value(child(numbering, "numId")) == "0":
                return None
            by_name = LIST.fullmatch(names[0]) if names else None
            by_level = _number(value(child(numbering, "ilvl"))) or 0
            return by_level or (int(by_name[1]) - 1 if by_name else 0)
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 5 else None
