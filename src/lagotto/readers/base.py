"""The reader contract, and how readers build documents: texts with spans of their structure."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, Self
from urllib.parse import unquote

from pydantic import Field, ValidationError

from lagotto import documents
from lagotto._internal.locations import is_web_address
from lagotto.documents import CODE, Block, BlockKind, Document, Heading, Page, Record, Span
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError

_SPACE = re.compile(r"\s+")


ColumnType = Literal["text", "integer", "number", "boolean"]
"""The type of the values of a column."""


class Columns(Record):
    """Maps the columns of a row to the fields of its document.

    Columns that are not given are found by name, ignoring case: text in `text`, `body`, `content`
    or `abstract`, the title in `title`, `headline` or `name`, the id in `id`, `_id`, `doc_id` or
    `uid`. Several text columns are joined by a blank line. `metadata` names the columns to keep as
    metadata; None keeps all that are not used otherwise.

    `types` are the types of metadata columns. Those of CSV that are not given are detected, if
    `detect_types` is set: a column has a type if all its values have it. A value that has not the
    type given for it is an error of its row.

    The values of an `id` column given here become document ids, unchanged. The values of one found
    by name become `source_ref` only, because two files may both number their rows from 1.
    """

    text: tuple[str, ...] = ()
    title: str | None = None
    id: str | None = None
    metadata: tuple[str, ...] | None = None
    types: dict[str, ColumnType] = Field(default_factory=dict)
    detect_types: bool = True


ID_FROM = re.compile(r"path|front-matter:(.+)")


class ReadOptions(Record):
    """Settings for reading; they take precedence over what the sources contain.

    `metadata` is merged over a document's own. `id_from` decides on the ids of documents in files:
    `path` for the path relative to the folder that is read, `front-matter:KEY` for a value of their
    own metadata; ids in a column given for them stay. `max_bytes` limits a source that is read as a
    whole, the unpacked size of an office file, each row of a JSONL or CSV file, and each message of
    a mailbox; as a whole, these may have any size.
    """

    collection: str = Field(default=documents.DEFAULT_COLLECTION, min_length=1)
    language: documents.Language = None
    metadata: documents.Metadata = Field(default_factory=dict)
    id_from: str | None = Field(default=None, pattern=f"^(?:{ID_FROM.pattern})$")
    max_bytes: int = Field(default=200_000_000, gt=0)
    columns: Columns = Columns()


@dataclass(frozen=True, slots=True)
class Source:
    """Something to read: a file (`path`), or `data` in memory.

    `name` becomes `Document.source`; `title` takes precedence over a title in the content. `format`
    is the name of the reader, where the suffix is known to be no guide.
    """

    name: str
    path: Path | None = None
    data: bytes = b""
    title: str | None = None
    format: str | None = None

    @classmethod
    def of_path(cls, path: str | Path) -> Self:
        """The file at `path`, named by its absolute path with symbolic links resolved.

        ReadError if there is no such file, or if it is not a regular file.
        """
        try:
            resolved = Path(path).resolve(strict=True)
            if not resolved.is_file():
                raise ReadError(str(path), "not a regular file; give a file or a folder")
        except FileNotFoundError as exc:
            raise ReadError(str(path), "no such file or folder") from exc
        except (OSError, RuntimeError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc  # without the path, which may be a text
            raise ReadError(str(path), f"can't resolve the path ({reason})") from exc
        return cls(name=resolved.as_posix(), path=resolved)

    @property
    def label(self) -> str:
        """The name for error messages."""
        return self.name or "<unnamed>"

    @property
    def suffix(self) -> str:
        """The suffix of the name in lower case, such as `.pdf`."""
        return PurePosixPath(self._address_parts[1]).suffix.lower()

    @property
    def stem(self) -> str | None:
        """The last part of the name, without the suffix; the host of an address without a path."""
        host, path = self._address_parts
        return PurePosixPath(path).stem or host or None

    @property
    def _address_parts(self) -> tuple[str, str]:
        """The host and the path of an address; no host and the name of anything else."""
        if not is_web_address(self.name):
            return "", self.name
        host, _, path = self.name.partition("://")[2].partition("?")[0].partition("/")
        return host, unquote(path)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the bytes as a stream; an OSError while it is open becomes a ReadError."""
        try:
            with self.path.open("rb") if self.path else io.BytesIO(self.data) as stream:
                yield stream
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise ReadError(self.label, f"can't read the file: {reason.lower()}") from exc

    def read(self, *, limit: int) -> bytes:
        """Read all bytes; SourceTooLargeError if there are more than `limit`."""
        with self.open() as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            reason = f"larger than {limit:,} bytes; raise max_bytes or split the file"
            raise SourceTooLargeError(self.label, reason)
        return data

    def head(self, size: int = 4096) -> bytes:
        """Read the first `size` bytes."""
        with self.open() as stream:
            return stream.read(size)

    def modified_at(self) -> datetime | None:
        """When the file was last modified; None for data in memory."""
        with suppress(OSError, OverflowError, ValueError):
            if self.path is not None:
                return datetime.fromtimestamp(self.path.stat().st_mtime, tz=UTC)
        return None


class Reader(Protocol):
    """Turns a source of one format into documents.

    Contract:

    - `text` is the source's readable text with LF line ends; pages, headings, tables, lists and
      code are spans of it. A table's parts are its rows, a list's parts its outermost items.
    - The same bytes and options always give the same documents, in the same order.
    - `options` take precedence: collection and language as given, metadata merged over the
      source's own.
    - A source that can't be read raises a ReadError or one of its subclasses, and nothing else. An
      error that loses only a part of the source (an invalid row, a damaged page) is yielded between
      the documents, and reading continues.
    - No network access, no code from the source is run, memory is bounded by `max_bytes`.
    """

    @property
    def kind(self) -> str:
        """The `kind` of its documents; files inside them, such as attachments, have their own."""
        ...

    @property
    def suffixes(self) -> frozenset[str]:
        """The file suffixes it reads, in lower case with their dots."""
        ...

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        """Yield the documents of `source`, and an error for each part that was lost."""
        ...


class ReadFailure(Record):
    """A source, or a part of one, that could not be read; `error` is the error's class name."""

    source: str
    reason: str
    error: str

    @classmethod
    def of(cls, error: ReadError) -> ReadFailure:
        """Create a failure from an error."""
        return cls(source=error.source, reason=error.reason, error=type(error).__name__)

    def __str__(self) -> str:
        return f"{self.source}: {self.reason} ({self.error})"


GAP = "\n\n"
CELL = " | "
BULLET = "- "
DEEPEST = 9
"""Deeper list items are indented like those of this depth."""
WITH_CLAUSES = frozenset({"text", "pdf", "docx", "odt", "rtf"})
"""Kinds whose numbered clauses are sections, if they have no headings: markup has its own."""


class HeadingMark(NamedTuple):
    """The start of a heading in the text."""

    start: int
    level: int
    title: str


def sections(marks: Sequence[HeadingMark], *, end: int) -> tuple[Heading, ...]:
    """Turn marks into headings that span their section, up to the next of the same or higher level.

    `marks` are in the order of their starts; `end` is the length of the text.
    """
    ends = [end] * len(marks)
    unfinished: list[int] = []
    for number, mark in enumerate(marks):
        while unfinished and marks[unfinished[-1]].level >= mark.level:
            ends[unfinished.pop()] = mark.start
        unfinished.append(number)
    return tuple(
        Heading(start=start, end=last, level=level, title=title)
        for (start, level, title), last in zip(marks, ends, strict=True)
    )


ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


def roman_number(numeral: str) -> int:
    """The value of a Roman number of these letters, in any case."""
    values = [ROMAN[letter] for letter in numeral.upper()]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)


def one_line(text: str) -> str:
    """Replace every run of white space, line ends included, by one space."""
    return " ".join(text.split())


def collapsed(text: str | None) -> str:
    """Replace every run of white space by one space, also at the ends."""
    return _SPACE.sub(" ", text) if text else ""


def add_item(items: list[str], text: str, *, depth: int) -> None:
    """Add a list item at a depth from 0; a nested one is a further line of the item above it."""
    if depth and items:
        items[-1] += "\n" + "  " * (min(depth, DEEPEST) - 1) + BULLET + one_line(text)
    else:
        items.append(text)


class TextBuilder:
    """Collects blocks in reading order, separated by blank lines.

    Headings and rows take one line each, cells are joined by ` | `, list items start with `- ` and
    their further lines are indented. Blocks without text are ignored.
    """

    def __init__(self) -> None:
        self.length = 0
        self.marks: list[HeadingMark] = []
        self.blocks: list[Block] = []
        self._pieces: list[str] = []
        self._breaks: list[int] = []
        """The length of the text before each page."""

    @property
    def text(self) -> str:
        return GAP.join(self._pieces)

    def draft(self, **fields: Any) -> Draft:
        """What was collected, as a draft with further fields; a page without text is empty."""
        pages = tuple(
            Page(start=min(end, before + (len(GAP) if before else 0)), end=end, number=number)
            for number, (before, end) in enumerate(pairwise([*self._breaks, self.length]), start=1)
        )
        headings = sections(self.marks, end=self.length)
        blocks = tuple(self.blocks)
        return Draft(self.text, pages, headings, blocks, **fields)

    def page(self) -> int:
        """Start a new page; returns the offset where its text will start."""
        self._breaks.append(self.length)
        return self.length + (len(GAP) if self._pieces else 0)

    def paragraph(self, text: str) -> None:
        """Add running text; its line ends are kept."""
        if stripped := text.strip():
            self.add(stripped)

    def heading(self, title: str, *, level: int) -> None:
        """Add a heading on a line of its own."""
        if line := one_line(title):
            self.marks.append(HeadingMark(self.add(line), level, line))

    def code(self, text: str) -> None:
        """Add text with significant white space."""
        if text.strip():
            start = self.add(text.strip("\n"))
            self.blocks.append(Block(start=start, end=self.length, kind="code"))

    def items(self, items: Iterable[str]) -> None:
        """Add a list; nested items are further lines of their item."""
        lines = [item.strip().replace("\n", "\n  ") for item in items if item.strip()]
        self._parts("list", [BULLET + line for line in lines])

    def table(self, rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> None:
        """Add a table, its header row (if it has one) first.

        Rows without text are left out, unless all have `numbers`: those in the source.
        """
        cells = ([one_line(cell) for cell in row] for row in rows)
        lines = [CELL.join(row) for row in cells if numbers or any(row)]
        is_counted = list(numbers) == list(range(1, len(numbers) + 1))
        self._parts("table", lines, () if is_counted else tuple(numbers))

    def _parts(self, kind: BlockKind, lines: Sequence[str], numbers: tuple[int, ...] = ()) -> None:
        if not lines:
            return
        start = self.add("\n".join(lines))
        starts = accumulate((len(line) + 1 for line in lines), initial=start)
        parts = tuple(Span(at, at + len(line)) for at, line in zip(starts, lines, strict=False))
        block = Block(start=start, end=self.length, kind=kind, parts=parts, numbers=numbers)
        self.blocks.append(block)

    def add(self, piece: str) -> int:
        """Add text as it is; returns the offset where it starts."""
        start = self.length + (len(GAP) if self._pieces else 0)
        self._pieces.append(piece)
        self.length = start + len(piece)
        return start


@dataclass(frozen=True)
class Draft:
    """What a reader found in a source: fields of a Document; those without a value stay empty."""

    text: str
    pages: tuple[Page, ...] = ()
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    title: str | None = None
    summary: str | None = None
    language: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def document(self, source: Source, *, kind: str, options: ReadOptions) -> Document:
        """The whole source as one document.

        The title is the caller's, the content's, the first top-level heading or the file's stem;
        `updated_at` is the content's or the modification time of the file.
        """
        first = next((heading.title for heading in self.headings if heading.level == 1), None)
        headings = self.headings
        if not headings and kind in WITH_CLAUSES:
            from lagotto.readers.plain import clause_headings

            headings = clause_headings(self.text)
        return self.assemble(
            source,
            kind=kind,
            options=options,
            headings=headings,
            title=source.title or self.title or first or source.stem,
            updated_at=self.updated_at or source.modified_at(),
        )

    def assemble(
        self, source: Source, *, kind: str, options: ReadOptions, **fields: object
    ) -> Document:
        """The document with the given fields; EmptySourceError if there is no text in it.

        A part of a source, which has a `source_ref`, may be only a title.
        """
        is_title = "source_ref" in fields and bool(self.title)
        if not self.text.strip() and not is_title:
            raise EmptySourceError(source.label, "no text in it; leave it out")
        language = options.language or self.language
        if language is None and kind != CODE:
            from lagotto.readers.language import document_language  # not needed by a search

            language = document_language(source.title or self.title, self.text)
        values = {
            **vars(self),
            "kind": kind,
            "collection": options.collection,
            "source": source.name,
            "language": language,
            "metadata": {**self.metadata, **options.metadata},
            **fields,
        }
        try:
            return Document.model_validate(values)
        except ValidationError as exc:
            problem = exc.errors(include_url=False)[0]
            path = ".".join(map(str, problem["loc"]))
            raise CorruptSourceError(source.label, f"{path}: {problem['msg']}") from exc
        except RecursionError as exc:
            reason = "the metadata is nested too deeply; flatten it"
            raise CorruptSourceError(source.label, reason) from exc


def parse_date(text: str | None) -> datetime | None:
    """Parse an ISO 8601 date or time; None if it is not one."""
    with suppress(ValueError):
        return datetime.fromisoformat((text or "").strip())
    return None
