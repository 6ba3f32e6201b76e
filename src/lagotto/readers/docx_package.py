"""The zip file around a Word document, opened with care: it may be a bomb, cut off or locked."""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass

from lagotto.errors import (
    CorruptSourceError,
    EmptySourceError,
    EncryptedSourceError,
    SourceTooLargeError,
    UnsupportedFormatError,
)
from lagotto.readers.base import Source
from lagotto.readers.formats import OLE_MAGIC

MAX_RATIO = 200
SMALL = 10_000_000
"""Parts below this size may be packed as tightly as they like."""

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


@dataclass(frozen=True, slots=True)
class Package:
    """The parts of a Word file that hold text; a missing part is empty."""

    document: bytes
    styles: bytes
    properties: bytes


def open_package(source: Source, *, limit: int) -> Package:
    """Unpack the parts that are needed, at most `limit` bytes of them, and nothing else."""
    _refuse_ole(source, limit=limit)
    try:
        with source.open() as stream, zipfile.ZipFile(stream) as archive:
            parts = [_find(archive, name) for name in (DOCUMENT, STYLES, PROPERTIES)]
            _check(parts, source, limit=limit)
            document, styles, properties = (_unpack(archive, part) for part in parts)
    except DAMAGE as exc:
        raise CorruptSourceError(
            source.label, f"this Word file is damaged or cut off ({exc})"
        ) from exc
    return Package(document=document, styles=styles, properties=properties)


def _refuse_ole(source: Source, *, limit: int) -> None:
    head = source.head(len(OLE_MAGIC))
    if not head:
        raise EmptySourceError(source.label, "the file is empty")
    if head != OLE_MAGIC:
        return
    if "EncryptedPackage".encode("utf-16-le") in source.read(limit=limit):
        raise EncryptedSourceError(
            source.label, "this Word file needs a password; save it without one"
        )
    raise UnsupportedFormatError(
        source.label, "this is a file of Word 97 or an older Office; save it as .docx"
    )


def _find(archive: zipfile.ZipFile, name: re.Pattern[str]) -> zipfile.ZipInfo | None:
    return next((part for part in archive.infolist() if name.fullmatch(part.filename)), None)


def _check(parts: list[zipfile.ZipInfo | None], source: Source, *, limit: int) -> None:
    """Refuse by what the zip directory says, before anything is unpacked."""
    found = [part for part in parts if part is not None]
    if parts[0] is None:
        raise CorruptSourceError(source.label, "this zip file holds no Word document")
    if any(part.flag_bits & 1 for part in found):
        raise EncryptedSourceError(source.label, "this zip file needs a password")
    total = sum(part.file_size for part in found)
    bomb = any(
        part.file_size > SMALL and part.file_size > MAX_RATIO * part.compress_size for part in found
    )
    if total > limit or bomb:
        raise SourceTooLargeError(
            source.label,
            f"it unpacks to {total:,} bytes of XML; the limit is {limit:,} bytes and "
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
