"""The registry of readers; they are chosen by suffix, or by content if that is more reliable."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable

from lagotto._internal.registry import Registry
from lagotto.errors import UnsupportedFormatError
from lagotto.readers.base import Reader, Source
from lagotto.readers.decode import looks_binary

READERS: Registry[Callable[[], Reader]] = Registry(
    "reader",
    group="lagotto.readers",
    builtin={
        "text": "lagotto.readers.plain:TextReader",
        "markdown": "lagotto.readers.markdown:MarkdownReader",
        "rst": "lagotto.readers.rst:RstReader",
        "notebook": "lagotto.readers.notebook:NotebookReader",
        "subtitles": "lagotto.readers.subtitles:SubtitleReader",
        "html": "lagotto.readers.html:HtmlReader",
        "pdf": "lagotto.readers.pdf:PdfReader",
        "docx": "lagotto.readers.office.docx:DocxReader",
        "pptx": "lagotto.readers.office.pptx:PptxReader",
        "xlsx": "lagotto.readers.office.xlsx:XlsxReader",
        "odt": "lagotto.readers.office.odt:OdtReader",
        "epub": "lagotto.readers.office.epub:EpubReader",
        "mail": "lagotto.readers.mail:MailReader",
        "mailbox": "lagotto.readers.mail:MailboxReader",
        "jsonl": "lagotto.readers.rows:JsonlReader",
        "csv": "lagotto.readers.rows:CsvReader",
        "json": "lagotto.readers.rows:JsonReader",
        "rtf": "lagotto.readers.rtf:RtfReader",
        "code": "lagotto.readers.plain:CodeReader",
    },
)
"""Reader classes by name; `READERS.get("pdf")()` is a reader."""

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

SUFFIXES = {
    "text": frozenset({".txt", ".text", ".log", ".adoc", ".org", ".tex"}),
    "markdown": frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx"}),
    "rst": frozenset({".rst", ".rest"}),
    "notebook": frozenset({".ipynb"}),
    "subtitles": frozenset({".srt", ".vtt"}),
    "html": frozenset({".html", ".htm", ".xhtml"}),
    "pdf": frozenset({".pdf"}),
    "docx": frozenset({".docx", ".docm"}),
    "pptx": frozenset({".pptx", ".pptm", ".ppsx", ".potx"}),
    "xlsx": frozenset({".xlsx", ".xlsm"}),
    "odt": frozenset({".odt", ".ott"}),
    "epub": frozenset({".epub"}),
    "mail": frozenset({".eml"}),
    "mailbox": frozenset({".mbox", ".mbx"}),
    "jsonl": frozenset({".jsonl", ".ndjson"}),
    "csv": frozenset({".csv", ".tsv", ".tab"}),
    "json": frozenset({".json"}),
    "rtf": frozenset({".rtf"}),
    "code": frozenset(LANGUAGES) - {".json"},
}

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


class Formats:
    """A snapshot of the registered readers, to be created once per batch."""

    def __init__(self) -> None:
        self._by_suffix = {suffix: name for name, known in SUFFIXES.items() for suffix in known}
        for name in READERS.names():
            if name not in SUFFIXES:
                self._by_suffix |= dict.fromkeys(READERS.get(name)().suffixes, name)

    def reader(self, source: Source) -> Reader:
        """The reader for `source`; UnsupportedFormatError for a binary file of unknown format."""
        return READERS.get(self.name(source))()

    def name(self, source: Source) -> str:
        """The name of the reader for `source`."""
        by_suffix = source.format or self._by_suffix.get(source.suffix)
        if by_suffix is not None and by_suffix not in SUFFIXES:
            return by_suffix
        head = source.head()
        if by_content := _by_content(source, head, by_suffix):
            return by_content
        if by_suffix in BINARY:
            return by_suffix
        if looks_binary(head):
            known = ", ".join(sorted(READERS.names()))
            unknown = f"binary file of unknown format; available readers: {known}"
            raise UnsupportedFormatError(source.label, REMEDIES.get(source.suffix, unknown))
        return by_suffix or "text"


def _by_content(source: Source, head: bytes, by_suffix: str | None) -> str | None:
    """The format shown by the first bytes, where they override the suffix."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(PDF_MAGIC):
        return "pdf"
    if head.lstrip().startswith(RTF_MAGIC):
        return "rtf"
    if head.startswith(ZIP_MAGIC) and (packed := _packed_format(source)):
        return packed
    undecided = by_suffix is None or by_suffix in BINARY
    if undecided and HTML_START.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "html"
    return None


def _packed_format(source: Source) -> str | None:
    """The format of a zip archive, by the names of its parts."""
    try:
        with source.open() as stream, zipfile.ZipFile(stream) as archive:
            return next((name for part, name in PARTS.items() if part in archive.NameToInfo), None)
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, EOFError):
        return None
