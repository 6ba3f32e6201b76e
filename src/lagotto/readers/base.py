"""What every reader is given (a Source and ReadOptions) and what it must do (Reader)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, Self

from pydantic import Field

from lagotto.documents import DEFAULT_COLLECTION, Document, Metadata, Record
from lagotto.errors import ReadError, SourceTooLargeError

MAX_BYTES = 200_000_000


class Columns(Record):
    """Which columns of a row become which field of its document.

    What is left out is found by name: text in `text`, `body`, `content` or `abstract`, the title
    in `title`, `headline` or `name`, the id in `id`, `_id`, `doc_id` or `uid` (case doesn't
    matter). Several text columns are joined by a blank line. `metadata` names the columns to keep
    there; None keeps all that have no other use.

    An `id` column that you name here becomes the document's id as it stands. One that was found
    only becomes its `source_ref`, because two files may both count their rows from 1.
    """

    text: tuple[str, ...] = ()
    title: str | None = None
    id: str | None = None
    metadata: tuple[str, ...] | None = None


class ReadOptions(Record):
    """What the caller says about the documents; it wins over what the sources say.

    `metadata` is merged over a document's own. `max_bytes` limits a source that is read as a
    whole, what a DOCX unpacks to, and a single row of a JSONL or CSV file, which as a whole may be
    of any size.
    """

    collection: str = Field(default=DEFAULT_COLLECTION, min_length=1)
    language: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    max_bytes: int = Field(default=MAX_BYTES, gt=0)
    columns: Columns = Columns()


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes with a name: a file (`path`), or `data` that is already in memory.

    `name` becomes `Document.source`, `title` wins over any title found in the content.
    """

    name: str
    path: Path | None = None
    data: bytes = b""
    title: str | None = None

    @classmethod
    def of_path(cls, path: str | Path) -> Self:
        """The file at `path`, under its absolute path with symbolic links resolved.

        ReadError if there is no such file, or if it is something other than a file.
        """
        try:
            resolved = Path(path).resolve(strict=True)
            if not resolved.is_file():
                raise ReadError(str(path), "it is not a regular file; give a file or a folder")
        except FileNotFoundError as exc:
            raise ReadError(str(path), "there is no such file or folder") from exc
        except (OSError, RuntimeError, ValueError) as exc:
            raise ReadError(str(path), f"the path can't be followed ({exc})") from exc
        return cls(name=resolved.as_posix(), path=resolved)

    @property
    def label(self) -> str:
        """What error messages call it."""
        return self.name or "<unnamed>"

    @property
    def suffix(self) -> str:
        """The lower-case suffix of its name, such as `.pdf`."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def stem(self) -> str | None:
        """The last part of its name without the suffix."""
        return PurePosixPath(self.name).stem or None

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes as a stream; an OSError while it is open becomes a ReadError."""
        try:
            with self.path.open("rb") if self.path else io.BytesIO(self.data) as stream:
                yield stream
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise ReadError(self.label, f"it can't be read: {reason.lower()}") from exc

    def read(self, *, limit: int) -> bytes:
        """All bytes; SourceTooLargeError if there are more than `limit`."""
        with self.open() as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise SourceTooLargeError(
                self.label, f"it has more than {limit:,} bytes; raise max_bytes or split it"
            )
        return data

    def head(self, size: int = 4096) -> bytes:
        """The first `size` bytes."""
        with self.open() as stream:
            return stream.read(size)

    def modified_at(self) -> datetime | None:
        """When the file was last changed; None for data in memory."""
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
    - `options` win: collection and language as given, metadata merged over the source's own.
    - What makes the source useless is raised, as a ReadError or one of its subclasses, and nothing
      else is. What loses only a part of it (a bad row, a broken page) is yielded as an error
      between the documents, and reading goes on.
    - No network, no code from the source is run, no more memory than `max_bytes` calls for.
    """

    @property
    def kind(self) -> str:
        """The `kind` of its documents."""
        ...

    @property
    def suffixes(self) -> frozenset[str]:
        """The lower-case file suffixes it stands for, with their dots."""
        ...

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        """The documents of `source`, and an error for each part that was lost."""
        ...
