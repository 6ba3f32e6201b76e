"""CSV and JSON Lines: each row is a set of named values and becomes a document."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import StringIO, TextIOWrapper
from itertools import islice
from typing import NoReturn, TextIO

from lagotto.documents import ROW, Document, digest, storable
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers.base import Columns, ColumnType, Draft, ReadOptions, Source
from lagotto.readers.decode import decode, detect_encoding
from lagotto.readers.formats import Results, reader

NUMBER = "row"
"""The metadata field with the number of a row, from 1; a column of that name takes precedence."""

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
FORMS: dict[ColumnType, re.Pattern[str]] = {
    "boolean": re.compile(r"true|false", re.IGNORECASE | re.ASCII),
    "integer": INTEGER,
    "number": re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?"),
}
"""The detected types, the narrowest first."""
MISSING = frozenset({"", "-", "--", "n/a", "#n/a", "na", "nan", "null", "none"})
"""How tables write that there is no value, in lower case."""

TEXT_NAMES = ("text", "body", "content", "abstract")
TITLE_NAMES = ("title", "headline", "name")
ID_NAMES = ("id", "_id", "doc_id", "uid")
DELIMITERS = ",;\t|"
SAMPLE_CHARS = 65_536
SAMPLE_ROWS = 50
FEWEST_RECORDS = 2


def typed(value: str, kind: ColumnType) -> str | int | float | bool | None:
    """A value as its type; None for a missing one that is not text, ValueError for another type."""
    if kind == "text":
        return value
    text = value.strip()
    if text.lower() in MISSING:
        return None
    if not FORMS[kind].fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not {'an' if kind == 'integer' else 'a'} {kind}")
    if kind == "boolean":
        return text.lower() == "true"
    return int(text) if INTEGER.fullmatch(text) else float(text)


def detect_types(
    rows: Iterable[Sequence[str]], names: Sequence[str], *, columns: Iterable[str]
) -> dict[str, ColumnType]:
    """The narrowest types that all values of `columns` have; a column of texts has none.

    `columns` are some of `names`, the columns of the rows. Missing values have any type.
    """
    positions = {name: index for index, name in enumerate(names)}
    possible = {positions[name]: list(FORMS) for name in columns}
    filled: set[int] = set()
    for row in rows:
        if not possible:
            break
        for index, kinds in list(possible.items()):
            value = row[index].strip() if index < len(row) else ""
            if value.lower() in MISSING:
                continue
            filled.add(index)
            possible[index] = [kind for kind in kinds if FORMS[kind].fullmatch(value)]
            if not possible[index]:
                del possible[index]
    return {names[index]: kinds[0] for index, kinds in possible.items() if index in filled}


@contextmanager
def _open_lines(source: Source, *, newline: str | None) -> Iterator[TextIO]:
    with source.open() as stream:
        encoding = detect_encoding(stream)
    with (
        source.open() as stream,
        TextIOWrapper(stream, encoding=encoding, errors="replace", newline=newline) as lines,
    ):
        yield lines


def _bounded_lines(lines: TextIO, source: Source, *, limit: int) -> Iterator[str]:
    """Yield lines with their line ends; SourceTooLargeError for one longer than `limit`."""
    for number, line in enumerate(iter(partial(lines.readline, limit + 1), ""), start=1):
        if len(line) > limit:
            remedy = "raise max_bytes or split it"
            reason = f"line {number} is longer than {limit:,} characters; {remedy}"
            raise SourceTooLargeError(source.label, reason)
        yield line


@dataclass(frozen=True, slots=True)
class _RowMapper:
    """Turns the rows of one source into documents, and rejects duplicate ids."""

    source: Source
    options: ReadOptions
    types: Mapping[str, ColumnType]
    unit: str = "line"
    seen: set[int] = field(default_factory=set)

    def document(
        self, values: Mapping[str, object], *, number: int, line: int
    ) -> Document | ReadError:
        """The document of a row, or an error with the number of the line or record.

        `source_ref` is the row's id, or its 1-based `number` if it has none; the number is also in
        the metadata, for citations. A second row with the same id is an error: it would silently
        replace the first.
        """
        try:
            return self._document(values, number=number)
        except ReadError as exc:
            return type(exc)(self.source.label, f"{self.unit} {line}: {exc.reason}")
        except (ValueError, RecursionError) as exc:  # of this row alone; the others are read
            return CorruptSourceError(self.source.label, f"{self.unit} {line}: {exc}")

    def _document(self, values: Mapping[str, object], *, number: int) -> Document:
        columns = _resolve_columns(self.options.columns, list(values), source=self.source)
        reference = storable(_as_text(values[columns.id]).strip()) if columns.id else ""
        if reference:
            key = int(digest(reference)[:16], 16)  # saves memory if many rows have long ids
            if key in self.seen:
                reason = f"duplicate id {reference!r}; an earlier row has it"
                raise CorruptSourceError(self.source.label, reason)
            self.seen.add(key)
        title = _as_text(values[columns.title]).strip() if columns.title else ""
        text = _row_text(values, columns)
        fields = {name: values[name] for name in columns.metadata or ()}
        metadata = {NUMBER: number, **self._typed_values(fields)}
        return Draft(text, title=title or None, metadata=metadata).assemble(
            self.source,
            kind=ROW,
            options=self.options,
            source_ref=reference or str(number),
            **({"id": reference} if reference and self.options.columns.id else {}),
        )

    def _typed_values(self, values: dict[str, object]) -> dict[str, object]:
        """The values of a row with the types of their columns; only texts are changed."""
        for name, kind in self.types.items():
            text = values.get(name)
            if isinstance(text, str):
                try:
                    values[name] = typed(text, kind)
                except ValueError as exc:
                    raise CorruptSourceError(self.source.label, f"{name}: {exc}") from exc
        return {
            name: value
            for name, value in values.items()
            if value is not None or name not in self.types
        }


def _as_text(value: object) -> str:
    """Format a value as text: lists line by line, dicts as JSON, None as an empty string."""
    if isinstance(value, list):
        return "\n".join(map(_as_text, value))
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _row_text(values: Mapping[str, object], columns: Columns) -> str:
    if columns.text:
        texts = (_as_text(values[name]).strip() for name in columns.text)
        return "\n\n".join(text for text in texts if text)
    lines = ((name, _short_text(value).strip()) for name, value in values.items())
    return "\n".join(
        f"{name}: {text}"
        for name, text in lines
        if text and name not in (columns.id, columns.title)
    )


def _short_text(value: object) -> str:
    """A value as a text for one line: nothing of what is nested or, as vectors are, all numbers."""
    if isinstance(value, list):
        return ", ".join(item for item in value if isinstance(item, str))
    return "" if isinstance(value, dict) else _as_text(value)


def _resolve_columns(columns: Columns, names: Sequence[str], *, source: Source) -> Columns:
    """Fill in the columns that are not given; ReadError if a given one does not exist."""
    required = (*columns.text, columns.title, columns.id, *(columns.metadata or ()), *columns.types)
    for name in required:
        if name is not None and name not in names:
            reason = f"no column {name!r}; available columns: {', '.join(names)}"
            raise ReadError(source.label, reason)
    folded = {name.strip().casefold(): name for name in reversed(names)}
    text_column, title_column, id_column = (
        next((folded[name] for name in usual if name in folded), None)
        for usual in (TEXT_NAMES, TITLE_NAMES, ID_NAMES)
    )
    text = columns.text or ((text_column,) if text_column else ())
    title, row_id = columns.title or title_column, columns.id or id_column
    rest = tuple(name for name in names if name not in {*text, title, row_id})
    data = rest if columns.metadata is None else columns.metadata
    return columns.model_copy(update={"text": text, "title": title, "id": row_id, "metadata": data})


@reader("csv", kind=ROW)
def read_csv(source: Source, *, options: ReadOptions) -> Results:
    """Read CSV and TSV files of any size, row by row; the first row has the column names.

    `ReadOptions.columns` maps columns to fields. The delimiter (comma, semicolon, tab or bar) is
    the one that splits the first rows into the same number of cells. Missing cells at the end of a
    row are empty. Numbers and booleans are typed by column, see `Columns`. A row with too many
    cells or invalid quoting is yielded as an error with its line number. Blank rows are skipped.
    """
    # The limit is global to the csv module, so it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), options.max_bytes))
    with _open_lines(source, newline="") as lines:
        delimiter = _delimiter(lines.read(SAMPLE_CHARS))
        names, cells = _table(lines, source, limit=options.max_bytes, delimiter=delimiter)
        # Here, so that a column that does not exist fails once, not for every row.
        columns = _resolve_columns(options.columns, names, source=source)
        untyped = [name for name in columns.metadata or () if name not in columns.types]
        types: dict[str, ColumnType] = {}
        if columns.detect_types and untyped:  # from all rows: any of them may hold a text
            rows = (row for _, row in cells if not isinstance(row, ReadError))
            types = detect_types(rows, names, columns=untyped)
            _, cells = _table(lines, source, limit=options.max_bytes, delimiter=delimiter)
        mapper = _RowMapper(source, options, {**types, **columns.types})
        number = 0
        for number, (line, row) in enumerate(cells, start=1):
            if isinstance(row, ReadError):
                yield row
            elif len(row) > len(names):
                reason = f"line {line} has {len(row)} cells for {len(names)} columns"
                yield CorruptSourceError(source.label, reason)
            else:
                values = dict.fromkeys(names, "") | dict(zip(names, row, strict=False))
                yield mapper.document(values, number=number, line=line)
    if not number:
        reason = "no rows below the header row; add rows or leave it out"
        raise EmptySourceError(source.label, reason)


Cells = Iterator[tuple[int, list[str] | ReadError]]
"""Each row that isn't blank, with the number of its first line."""


def _table(lines: TextIO, source: Source, *, limit: int, delimiter: str) -> tuple[list[str], Cells]:
    """The names of the columns, and the rows below them, from the beginning of the file.

    A column without a name is `column N`, and a repeated name gets its number.
    """
    lines.seek(0)
    cells = _cells(_bounded_lines(lines, source, limit=limit), source, delimiter=delimiter)
    empty = EmptySourceError(source.label, "no rows in it; leave it out")
    _, header = next(cells, (0, empty))
    if isinstance(header, ReadError):
        raise header
    names: dict[str, None] = {}
    for number, cell in enumerate(header, start=1):
        name = cell.strip() or f"column {number}"
        names[f"{name} ({number})" if name in names else name] = None
    return list(names), cells


def _cells(lines: Iterable[str], source: Source, *, delimiter: str) -> Cells:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as exc:
            yield line, CorruptSourceError(source.label, f"line {line} is not valid CSV ({exc})")
            continue
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield line, row


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


@reader("jsonl", kind=ROW)
def read_jsonl(source: Source, *, options: ReadOptions) -> Results:
    """Read JSON Lines files of any size, line by line; each object is a document.

    `ReadOptions.columns` maps keys to fields. Blank lines are skipped. A line that isn't a JSON
    object is yielded as an error with its line number.
    """
    rows = _RowMapper(source, options, options.columns.types)
    number = 0
    with _open_lines(source, newline=None) as lines:
        bounded = _bounded_lines(lines, source, limit=options.max_bytes)
        for line, text in enumerate(bounded, start=1):
            if not text.strip():
                continue
            number += 1
            problem = ""
            try:
                values = json.loads(text, parse_constant=_refuse_constant)
                if not isinstance(values, dict):
                    problem = f"holds a {type(values).__name__}, not an object"
            except (ValueError, RecursionError) as exc:
                problem = f"is not valid JSON ({exc})"
            if problem:
                yield CorruptSourceError(source.label, f"line {line} {problem}")
            else:
                yield rows.document(values, number=number, line=line)
    if not number:
        raise EmptySourceError(source.label, "no rows in it; leave it out")


@reader("json", kind=ROW)
def read_json(source: Source, *, options: ReadOptions) -> Results:
    """Read exports: an array of objects, alone or beside a few values, is a document per object.

    Any other JSON is read as code.
    """
    if not (records := _records(source.read(limit=options.max_bytes))):
        from lagotto.readers.plain import read_code

        yield from read_code().read(source, options=options)
        return
    rows = _RowMapper(source, options, options.columns.types, unit="record")
    for number, values in enumerate(records, start=1):
        yield rows.document(values, number=number, line=number)


def _records(data: bytes) -> list[dict[str, object]]:
    try:
        value = json.loads(decode(data), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        inner = [item for item in value.values() if isinstance(item, list | dict)]
        value = inner[0] if len(inner) == 1 else None
    is_export = (
        isinstance(value, list)
        and len(value) >= FEWEST_RECORDS
        and all(isinstance(item, dict) and item for item in value)
    )
    return value if is_export else []


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
