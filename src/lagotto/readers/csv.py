"""CSV and TSV: the first row names the columns, each further row is a document."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from typing import TextIO

from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.rows import KIND, RowMapper, bounded_lines, open_lines, resolve_columns

DELIMITERS = ",;\t|"
SAMPLE_CHARS = 65_536
SAMPLE_ROWS = 50


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
    names: list[str] = []
    for number, cell in enumerate(header, start=1):
        name = cell.strip() or f"column {number}"
        names.append(f"{name} ({number})" if name in names else name)
    return names


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
