"""CSV and JSON Lines: each row is a set of named values and becomes a document."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO, TextIOWrapper
from itertools import islice
from typing import NoReturn, TextIO

from lagotto.documents import Document, digest
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers.base import Columns, ReadOptions, Source
from lagotto.readers.decode import detect_encoding
from lagotto.readers.draft import Draft
from lagotto.readers.formats import SUFFIXES

KIND = "row"
TEXT_NAMES = ("text", "body", "content", "abstract")
TITLE_NAMES = ("title", "headline", "name")
ID_NAMES = ("id", "_id", "doc_id", "uid")
DELIMITERS = ",;\t|"
SAMPLE_CHARS = 65_536
SAMPLE_ROWS = 50


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


class CsvReader:
    """Reads row by row, files of any size; `ReadOptions.columns` says which column is what.

    The delimiter (comma, semicolon, tab or bar) is the one that cuts the first rows into the same
    number of cells. Missing cells at the end of a row are empty; a row with too many cells, or
    with broken quotes, is yielded as an error that names its line. Blank rows don't count.
    """

    kind = KIND
    suffixes = SUFFIXES["csv"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        with open_lines(source, newline="") as lines:
            delimiter = _delimiter(lines.read(SAMPLE_CHARS))
            lines.seek(0)
            yield from _documents(lines, source, options=options, delimiter=delimiter)


def _documents(
    lines: TextIO, source: Source, *, options: ReadOptions, delimiter: str
) -> Iterator[Document | ReadError]:
    # The limit is global to the csv module, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), options.max_bytes))
    bounded = bounded_lines(lines, source, limit=options.max_bytes)
    cells = _cells(bounded, source, delimiter=delimiter)
    _, header = next(cells, (0, None))
    if isinstance(header, ReadError):
        raise header
    if header is None:
        raise EmptySourceError(source.label, "there are no rows in it")
    names = _names(header)
    resolve_columns(options.columns, names, source=source)  # once here, not in every row
    rows = RowMapper(source, options=options)
    number = 0
    for number, (line, row) in enumerate(cells, start=1):
        if isinstance(row, ReadError):
            yield row
        elif len(row) > len(names):
            reason = f"line {line} has {len(row)} cells, but there are {len(names)} columns"
            yield CorruptSourceError(source.label, reason)
        else:
            padded = [*row, *[""] * (len(names) - len(row))]
            yield rows.document(dict(zip(names, padded, strict=True)), number=number, line=line)
    if not number:
        raise EmptySourceError(
            source.label, "there are no rows below the first, which names columns"
        )


def _cells(
    lines: Iterable[str], source: Source, *, delimiter: str
) -> Iterator[tuple[int, list[str] | ReadError]]:
    """Each row that isn't blank with the number of its first line."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as exc:
            yield line, CorruptSourceError(source.label, f"line {line} is no valid CSV ({exc})")
            continue
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield line, row


def _names(header: Sequence[str]) -> list[str]:
    """The column names; a blank one is called by its number, a repeated one gets its number."""
    names: dict[str, None] = {}
    for number, cell in enumerate(header, start=1):
        name = cell.strip() or f"column {number}"
        names[f"{name} ({number})" if name in names else name] = None
    return list(names)


def _delimiter(sample: str) -> str:
    def agreement(delimiter: str) -> tuple[int, int]:
        rows = csv.reader(StringIO(sample, newline=""), delimiter=delimiter)
        try:
            widths = [len(row) for row in islice(rows, SAMPLE_ROWS) if row]
        except csv.Error:
            return 0, 0
        first = widths[0] if widths else 1
        return (sum(width == first for width in widths), first) if first > 1 else (0, 0)

    return max(DELIMITERS, key=agreement)


class JsonlReader:
    """Reads line by line, files of any size; `ReadOptions.columns` says which key is what.

    Blank lines don't count. A line that isn't a JSON object is yielded as an error that names it.
    """

    kind = KIND
    suffixes = SUFFIXES["jsonl"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        rows = RowMapper(source, options=options)
        number = 0
        with open_lines(source, newline=None) as lines:
            bounded = bounded_lines(lines, source, limit=options.max_bytes)
            for line, written in enumerate(bounded, start=1):
                if not written.strip():
                    continue
                number += 1
                values = _values(written, source, line=line)
                if isinstance(values, ReadError):
                    yield values
                else:
                    yield rows.document(values, number=number, line=line)
        if not number:
            raise EmptySourceError(source.label, "there are no rows in it")


def _values(written: str, source: Source, *, line: int) -> dict[str, object] | ReadError:
    try:
        values = json.loads(written, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        return CorruptSourceError(source.label, f"line {line} is not valid JSON ({exc})")
    if not isinstance(values, dict):
        kind = type(values).__name__
        return CorruptSourceError(source.label, f"line {line} holds a {kind}, not an object")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
