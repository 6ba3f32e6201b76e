"""The reader contract: Source and ReadOptions in, documents out."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, Protocol, Self
from urllib.parse import unquote

from pydantic import Field

from lagotto.documents import DEFAULT_COLLECTION, Document, Metadata, Record
from lagotto.errors import ReadError, SourceTooLargeError

MAX_BYTES = 200_000_000


def is_address(name: object) -> bool:
    """Whether a name is an address on the web."""
    return isinstance(name, str) and name[:8].lower().startswith(("http://", "https://"))


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


class ReadOptions(Record):
    """Settings for reading; they take precedence over what the sources contain.

    `metadata` is merged over a document's own. `max_bytes` limits a source that is read as a whole,
    the unpacked size of an office file, each row of a JSONL or CSV file, and each message of a
    mailbox; as a whole, these may have any size.
    """

    collection: str = Field(default=DEFAULT_COLLECTION, min_length=1)
    language: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    max_bytes: int = Field(default=MAX_BYTES, gt=0)
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
        if not is_address(self.name):
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
            raise SourceTooLargeError(
                self.label, f"larger than {limit:,} bytes; raise max_bytes or split the file"
            )
        return data

    def head(self, size: int = 4096) -> bytes:
        """Read the first `size` bytes."""
        with self.open() as stream:
            return stream.read(size)

    def modified_at(self) -> datetime | None:
        """When the file was last modified; None for data in memory."""
        try:
            modified = self.path.stat().st_mtime if self.path else None
            return datetime.fromtimestamp(modified, tz=UTC) if modified is not None else None
        except (OSError, OverflowError, ValueError):
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
