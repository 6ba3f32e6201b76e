"""Zip archives of XML parts, opened within limits: what all office formats share."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from posixpath import dirname, join, normpath
from re import Pattern
from typing import Any, NamedTuple

from lxml import etree

from lagotto import errors
from lagotto.errors import CorruptSourceError, EncryptedSourceError, SourceTooLargeError
from lagotto.readers.base import Draft, Source, one_line, parse_date
from lagotto.readers.formats import OLE_MAGIC, ReaderFactory, draft_reader
from lagotto.readers.language import language_code
from lagotto.readers.office import xml

MAX_RATIO = 200
SMALL = 10_000_000
"""Bytes; the compression ratio of smaller parts is not limited."""

DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError),
    *(OverflowError, ValueError),
)


def package_reader(
    kind: str, *, noun: str
) -> Callable[[Callable[[Package], Draft]], ReaderFactory]:
    """Make a reader of a function that gives the draft of an open package.

    `noun` names the format in messages, such as `Word file`. Only the needed parts of a file are
    unpacked; damage found in them is a CorruptSourceError.
    """
    return lambda draft: draft_reader(kind)(partial(_draft, draft, noun))


def _draft(draft: Callable[[Package], Draft], noun: str, source: Source, limit: int) -> Draft:
    head = source.head(len(OLE_MAGIC))
    if not head:
        raise errors.EmptySourceError(source.label, "empty file; leave it out")
    if head == OLE_MAGIC:
        if "EncryptedPackage".encode("utf-16-le") in source.read(limit=limit):
            raise locked(source, noun)
        reason = "old binary Office format; save it as .docx, .pptx or .xlsx"
        raise errors.UnsupportedFormatError(source.label, reason)
    try:
        with source.open() as stream, zipfile.ZipFile(stream) as archive:
            return draft(Package(archive, source, limit=limit, noun=noun))
    except etree.XMLSyntaxError as exc:
        raise CorruptSourceError(source.label, f"damaged XML in this {noun} ({exc})") from exc
    except DAMAGE as exc:
        raise CorruptSourceError(source.label, f"damaged or truncated {noun} ({exc})") from exc


def locked(source: Source, noun: str) -> EncryptedSourceError:
    reason = f"password-protected {noun}; save it without a password"
    return EncryptedSourceError(source.label, reason)


class Relation(NamedTuple):
    """A part that another refers to, and the kind of the reference, such as `slide`."""

    part: str
    kind: str


class Package:
    """The parts of an archive, unpacked on demand; all of them together within the limit."""

    def __init__(self, archive: zipfile.ZipFile, source: Source, *, limit: int, noun: str) -> None:
        self.source = source
        self.limit = limit
        self._archive = archive
        self.noun = noun
        self._unpacked = 0

    def find(self, name: Pattern[str]) -> str | None:
        return next((part for part in self._archive.namelist() if name.fullmatch(part)), None)

    def require(self, name: str | Pattern[str]) -> str:
        """The name of a part without which this is not a file of its format."""
        path = self.find(name) if isinstance(name, Pattern) else name
        if path is None or path not in self._archive.NameToInfo:
            raise CorruptSourceError(self.source.label, f"zip file with no {self.noun} in it")
        return path

    def read(self, name: str | None) -> bytes:
        """The bytes of a part, checked by the zip directory; empty if there is no such part."""
        part = self._archive.NameToInfo.get(name or "")
        if part is None:
            return b""
        if part.flag_bits & 1:
            raise locked(self.source, "zip file")
        self._unpacked += part.file_size
        bomb = part.file_size > SMALL and part.file_size > MAX_RATIO * part.compress_size
        self.check_size(self._unpacked, bomb=bomb)
        with self._archive.open(part) as stream:
            data = stream.read(part.file_size + 1)
        if len(data) > part.file_size:
            raise zipfile.BadZipFile(f"{part.filename} is larger than the zip directory says")
        return data

    def check_size(self, size: int, *, bomb: bool = False) -> None:
        """SourceTooLargeError if what is unpacked, or the text made of it, takes too much."""
        if bomb or size > self.limit:
            limits = f"{self.limit:,} bytes (max_bytes) and {MAX_RATIO} times the packed size"
            reason = f"unpacks to {size:,} bytes; the limits are {limits}"
            raise SourceTooLargeError(self.source.label, reason)

    def xml(self, name: str | None) -> etree._Element | None:
        data = self.read(name)
        return etree.fromstring(data, etree.XMLParser(**xml.PARSING)) if data else None

    def relations(self, part: str) -> dict[str, Relation]:
        """The parts that an Office Open XML part refers to, by id."""
        folder, _, name = part.rpartition("/")
        root = self.xml(join(folder, "_rels", f"{name}.rels"))
        relations = {}
        for item in xml.children(root, "Relationship"):
            target, kind = xml.value(item, "Target"), xml.value(item, "Type")
            if target and xml.value(item, "TargetMode") != "External":
                path = normpath(join("/", dirname(part), target)).lstrip("/")
                kind = (kind or "").rpartition("/")[2]
                relations[xml.value(item, "Id") or ""] = Relation(path, kind)
        return relations


def related(
    relations: Mapping[str, Relation], elements: Iterable[etree._Element]
) -> Iterator[tuple[etree._Element, Relation]]:
    """The elements that refer to parts by id, with these parts, each of them once."""
    seen = set()
    for element in elements:
        ids = (str(text) for key, text in element.items() if str(key).endswith("}id"))
        relation = relations.get(next(ids, ""))
        if relation is not None and relation.part not in seen:
            seen.add(relation.part)
            yield element, relation


CORE = "docProps/core.xml"
PLACEHOLDERS = frozenset({"PowerPoint Presentation", "Presentation", "Untitled"})
"""Titles that programs fill in."""


def core_properties(package: Package, *, title: str | None = None) -> dict[str, Any]:
    """The fields of a Draft that the properties give; `title` is used if they have none."""
    core = Properties(package.xml(CORE))
    author, keywords = core.first("creator"), core.first("keywords")
    fields = core.fields(created="created", updated="modified", author=author, keywords=keywords)
    if fields["title"] is None or fields["title"] in PLACEHOLDERS:
        fields["title"] = title
    return fields


class Properties:
    """The texts of the elements that describe a document, by their local names."""

    def __init__(self, root: etree._Element | None) -> None:
        self._texts: dict[str, list[str]] = {}
        for item in () if root is None else root:
            if text := one_line(item.text or ""):
                self._texts.setdefault(xml.name_of(item), []).append(text)

    def first(self, name: str) -> str | None:
        return self._texts.get(name, [None])[0]

    def all(self, name: str) -> str:
        return ", ".join(self._texts.get(name, ()))

    def fields(self, *, created: str, updated: str = "", **metadata: str | None) -> dict[str, Any]:
        """The fields of a Draft; the dates have these names, metadata are what is not empty."""
        return {
            "title": self.first("title"),
            "summary": self.first("description"),
            "language": language_code(self.first("language")),
            "created_at": parse_date(self.first(created)),
            "updated_at": parse_date(self.first(updated)),
            "metadata": {name: text for name, text in metadata.items() if text},
        }
