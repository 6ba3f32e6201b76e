"""JSON Lines: one object per line, one document per object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NoReturn

from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.rows import KIND, RowMapper, bounded_lines, open_lines


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
