"""The formats of files, and their readers: chosen by suffix, or by content if it tells more."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from lagotto._internal.registry import Registry
from lagotto.documents import Document
from lagotto.errors import ReadError, UnsupportedFormatError
from lagotto.readers.base import Draft, Reader, ReadOptions, Source
from lagotto.readers.decode import looks_binary

LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".java": "java",
    ".kt": "kotlin", ".scala": "scala", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp",
    ".hpp": "cpp", ".cs": "csharp", ".go": "go", ".rs": "rust", ".rb": "ruby", ".php": "php",
    ".swift": "swift", ".m": "objective-c", ".r": "r", ".jl": "julia", ".lua": "lua",
    ".pl": "perl", ".ex": "elixir", ".exs": "elixir", ".erl": "erlang", ".hs": "haskell",
    ".ml": "ocaml", ".clj": "clojure", ".dart": "dart", ".sh": "shell", ".bash": "shell",
    ".zsh": "shell", ".ps1": "powershell", ".sql": "sql", ".css": "css", ".scss": "scss",
    ".vue": "vue", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml",
    ".ini": "ini", ".cfg": "ini", ".xml": "xml", ".proto": "protobuf", ".tf": "terraform",
}  # fmt: skip
"""Programming languages by file suffix."""

_OFFICE = "application/vnd.openxmlformats-officedocument"
_FORMATS = {
    "text": ("plain", ".txt .text .log .adoc .org .tex", ""),
    "markdown": ("markdown", ".md .markdown .mdown .mkd .mdx", "text/markdown"),
    "rst": ("rst", ".rst .rest", "text/x-rst"),
    "notebook": ("notebook", ".ipynb", "application/x-ipynb+json"),
    "subtitles": ("subtitles", ".srt .vtt", "text/vtt application/x-subrip"),
    "html": ("html", ".html .htm .xhtml", "text/html application/xhtml+xml"),
    "pdf": ("pdf", ".pdf", "application/pdf"),
    "docx": ("office.docx", ".docx .docm", f"{_OFFICE}.wordprocessingml.document"),
    "pptx": ("office.pptx", ".pptx .pptm .ppsx .potx", f"{_OFFICE}.presentationml.presentation"),
    "xlsx": ("office.xlsx", ".xlsx .xlsm", f"{_OFFICE}.spreadsheetml.sheet"),
    "odt": ("office.odt", ".odt .ott", "application/vnd.oasis.opendocument.text"),
    "epub": ("office.epub", ".epub", "application/epub+zip"),
    "mail": ("mail", ".eml", "message/rfc822"),
    "mailbox": ("mail", ".mbox .mbx", "application/mbox"),
    "jsonl": ("rows", ".jsonl .ndjson", "application/jsonl application/x-ndjson"),
    "csv": ("rows", ".csv .tsv .tab", "text/csv text/tab-separated-values"),
    "json": ("rows", ".json", ""),
    "rtf": ("rtf", ".rtf", ""),
    "code": ("plain", " ".join(LANGUAGES.keys() - {".json"}), ""),
}
"""By format the module with its `read_FORMAT`, the suffixes of its files, and media types."""

ReaderFactory = Callable[[], Reader]
READERS: Registry[ReaderFactory] = Registry(
    "reader",
    group="lagotto.readers",
    builtin={name: f"lagotto.readers.{row[0]}:read_{name}" for name, row in _FORMATS.items()},
)
"""What creates readers, by name; `READERS.get("pdf")()` is a reader."""

SUFFIXES = {name: frozenset(suffixes.split()) for name, (_, suffixes, _) in _FORMATS.items()}
MEDIA_TYPES = {kind: name for name, (_, _, kinds) in _FORMATS.items() for kind in kinds.split()}
"""Readers by media type; other types are recognised by the suffix and the content."""

PDF_MAGIC = b"%PDF-"
ZIP_MAGIC = b"PK\x03\x04"
RTF_MAGIC = b"{\\rtf"
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
REMEDIES = {
    ".doc": "an old Word file; save it as .docx",
    ".dot": "an old Word template; save it as .docx",
    ".xls": "an old Excel file; save it as .xlsx",
    ".ppt": "an old PowerPoint file; save it as .pptx",
    ".msg": "a message of Outlook; save it as .eml",
    ".pst": "a mailbox of Outlook; export it as .mbox, or its messages as .eml",
    ".pages": "a file of Pages; export it as .docx or .pdf",
    ".numbers": "a file of Numbers; export it as .xlsx",
    ".key": "a file of Keynote; export it as .pptx",
    ".mobi": "a Kindle book; convert it to .epub",
    ".azw3": "a Kindle book; convert it to .epub",
}
"""What binary files without a reader are, and what to do, by their suffix."""
PARTS = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "META-INF/container.xml": "epub",
}
"""A part that only archives of this format have."""

BINARY = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "epub"})
HTML_START = re.compile(
    rb"\s*+(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s++html|html|head|body)\b", re.I | re.S
)


Results = Iterator[Document | ReadError]
Drafting = Callable[[Source, int], Draft]


class FormatReader(NamedTuple):
    """A Reader that is made of a function."""

    kind: str
    suffixes: frozenset[str]
    read: Callable[..., Results]


def reader(name: str, *, kind: str = "") -> Callable[[Callable[..., Results]], ReaderFactory]:
    """Make a reader of the function that yields the documents of a format."""
    return lambda read: partial(FormatReader, kind or name, SUFFIXES[name], read)


def draft_reader(kind: str) -> Callable[[Drafting], ReaderFactory]:
    """Make a reader of a function that gives the one draft of a source of at most so many bytes."""

    def read(draft: Drafting, source: Source, *, options: ReadOptions) -> Results:
        text = draft(source, options.max_bytes)
        yield text.document(source, kind=kind, options=options)

    return lambda draft: reader(kind)(partial(read, draft))


class Formats:
    """A snapshot of the registered readers, to be created once per batch."""

    def __init__(self) -> None:
        self._by_suffix = {suffix: name for name, group in SUFFIXES.items() for suffix in group}
        for name in READERS.names():
            if name not in SUFFIXES:
                self._by_suffix |= dict.fromkeys(READERS.get(name)().suffixes, name)

    def reader(self, source: Source) -> Reader:
        """The reader for `source`; UnsupportedFormatError for a binary file of unknown format."""
        return READERS.get(self.name(source))()

    def name(self, source: Source) -> str:
        by_suffix = source.format or self._by_suffix.get(source.suffix)
        if by_suffix is not None and by_suffix not in SUFFIXES:
            return by_suffix
        head = source.head()
        if by_content := _by_content(source, head, by_suffix):
            return by_content
        if by_suffix in BINARY:
            return by_suffix
        if looks_binary(head):
            available = ", ".join(sorted(READERS.names()))
            unknown = f"binary file of unknown format; available readers: {available}"
            raise UnsupportedFormatError(source.label, REMEDIES.get(source.suffix, unknown))
        return by_suffix or "text"


def _by_content(source: Source, head: bytes, by_suffix: str | None) -> str | None:
    """The format shown by the first bytes, where they override the suffix."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(PDF_MAGIC):
        return "pdf"
    if head.lstrip().startswith(RTF_MAGIC):
        return "rtf"
    if head.startswith(ZIP_MAGIC):
        try:
            with source.open() as stream, zipfile.ZipFile(stream) as archive:
                packed = [name for part, name in PARTS.items() if part in archive.NameToInfo]
        except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, EOFError):
            packed = []
        if packed:
            return packed[0]
    undecided = by_suffix is None or by_suffix in BINARY
    is_html = undecided and HTML_START.match(head.removeprefix(b"\xef\xbb\xbf"))
    return "html" if is_html else None
