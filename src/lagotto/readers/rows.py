"""What JSONL and CSV have in common: a row is a set of named values, and becomes a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from lagotto.documents import Document, digest
from lagotto.errors import CorruptSourceError, ReadError, SourceTooLargeError
from lagotto.readers.base import Columns, ReadOptions, Source
from lagotto.readers.decode import detect_encoding
from lagotto.readers.draft import Draft

KIND = "row"
TEXT_NAMES = ("text", "body", "content", "abstract")
TITLE_NAMES = ("title", "headline", "name")
ID_NAMES = ("id", "_id", "doc_id", "uid")


@contextmanager
def open_lines(source: Source, *, newline: str | None) -> Iterator[TextIO]:
    """The source as a stream of text in its own encoding; nothing is read ahead."""
    with source.open() as stream:
        encoding = detect_encoding(stream)
    with (
        source.open() as stream,
        TextIOWrapper(stream, encoding=encoding, errors="replace", newline=newline) as lines,
    ):
        yield lines


def bounded_lines(lines: TextIO, source: Source, *, limit: int) -> Iterator[str]:
    """Line by line, line ends included; SourceTooLargeError for a line longer than `limit`."""
    number = 0
    while line := lines.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise SourceTooLargeError(
                source.label,
                f"line {number} has more than {limit:,} characters; raise max_bytes or split it",
            )
        yield line


class RowMapper:
    """Turns the rows of one source into documents, and remembers the ids it has seen."""

    def __init__(self, source: Source, *, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._seen: set[int] = set()

    def document(
        self, values: Mapping[str, object], *, number: int, line: int
    ) -> Document | ReadError:
        """The row's document, or an error that names the line.

        `source_ref` is the row's id, or its `number` (from 1) if it has none. A second row with
        the same id is an error: it would silently replace the first.
        """
        try:
            return self._document(values, number=number)
        except ReadError as exc:
            return type(exc)(self._source.label, f"line {line}: {exc.reason}")

    def _document(self, values: Mapping[str, object], *, number: int) -> Document:
        columns = resolve_columns(self._options.columns, list(values), source=self._source)
        reference = as_text(values[columns.id]).strip() if columns.id else ""
        self._refuse_second(reference)
        title = as_text(values[columns.title]).strip() if columns.title else ""
        text = _row_text(values, columns) or title
        draft = Draft(
            kind=KIND,
            text=text,
            title=title or None,
            metadata={name: values[name] for name in columns.metadata or ()},
        )
        return draft.row(
            self._source,
            options=self._options,
            source_ref=reference or str(number),
            id=reference if self._options.columns.id else None,
        )

    def _refuse_second(self, reference: str) -> None:
        if not reference:
            return
        key = int(digest(reference)[:16], 16)  # a number, because rows may be many and ids long
        if key in self._seen:
            raise CorruptSourceError(
                self._source.label, f"the id {reference!r} was used by an earlier row"
            )
        self._seen.add(key)


def as_text(value: object) -> str:
    """A value as a reader would write it: lists line by line, dicts as JSON, None as nothing."""
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return "\n".join(as_text(item) for item in value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _row_text(values: Mapping[str, object], columns: Columns) -> str:
    if columns.text:
        texts = (as_text(values[name]).strip() for name in columns.text)
        return "\n\n".join(text for text in texts if text)
    used = {columns.id, columns.title}
    named = ((name, value) for name, value in values.items() if name not in used)
    return "\n".join(
        f"{name}: {value.strip()}"
        for name, value in named
        if isinstance(value, str) and value.strip()
    )


def resolve_columns(columns: Columns, names: Sequence[str], *, source: Source) -> Columns:
    """`columns` with what was left open filled in; ReadError if one asked for is missing."""
    asked = (*columns.text, columns.title, columns.id, *(columns.metadata or ()))
    for name in asked:
        if name is not None and name not in names:
            raise ReadError(
                source.label, f"there is no column {name!r}; there are: {', '.join(names)}"
            )
    found = _first(TEXT_NAMES, names)
    text = columns.text or ((found,) if found else ())
    title = columns.title or _first(TITLE_NAMES, names)
    row_id = columns.id or _first(ID_NAMES, names)
    rest = tuple(name for name in names if name not in {*text, title, row_id})
    kept = rest if columns.metadata is None else columns.metadata
    return Columns(text=text, title=title, id=row_id, metadata=kept)


def _first(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    folded = {name.strip().casefold(): name for name in reversed(names)}
    return next((folded[name] for name in wanted if name in folded), None)
