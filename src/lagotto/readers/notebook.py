"""Jupyter notebooks: Markdown and code cells in order; outputs are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lagotto.documents import storable
from lagotto.errors import CorruptSourceError, EmptySourceError
from lagotto.readers.base import Draft, HeadingMark, Source, TextBuilder, one_line
from lagotto.readers.decode import decode
from lagotto.readers.formats import draft_reader
from lagotto.readers.markdown import structure


@draft_reader("notebook")
def read_notebook(source: Source, limit: int) -> Draft:
    """Read the cells of a notebook as one text.

    Markdown cells give the sections, tables and lists, code cells are blocks of code. Outputs are
    left out: they are derived from the code, and often large.
    """
    text = decode(source.read(limit=limit))
    if not text.strip():
        raise EmptySourceError(source.label, "empty file; leave it out")
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CorruptSourceError(source.label, f"not a notebook: invalid JSON ({exc})") from exc
    if not isinstance(notebook, dict):
        raise CorruptSourceError(source.label, "not a notebook: no JSON object")
    builder = TextBuilder()
    for cell in _cells(notebook):
        _add(builder, cell)
    language = _language(notebook)
    metadata = {"programming_language": language} if language else {}
    return builder.draft(metadata=metadata)


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells; notebooks of version 3 have them in worksheets."""
    sheets = notebook.get("worksheets")
    for owner in (notebook, *(sheets if isinstance(sheets, list) else ())):
        cells = owner.get("cells") if isinstance(owner, dict) else None
        listed = cells if isinstance(cells, list) else []
        yield from (cell for cell in listed if isinstance(cell, dict))


def _language(notebook: dict[str, Any]) -> str | None:
    metadata = notebook.get("metadata")
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        value = metadata.get(part) if isinstance(metadata, dict) else None
        language = value.get(name) if isinstance(value, dict) else None
        if isinstance(language, str) and language:
            return language
    return None


def _add(builder: TextBuilder, cell: dict[str, Any]) -> None:
    """Add a cell: a string or a list of them, `input` in version 3; one without text is ignored."""
    source = cell.get("source", cell.get("input", ""))
    lines = source if isinstance(source, list) else [source]
    joined = storable("".join(line for line in lines if isinstance(line, str)))
    text = joined.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not text.strip():
        return
    match cell.get("cell_type"):
        case "code":
            builder.code(text)
        case "heading":
            level = cell.get("level")
            level = level if isinstance(level, int) and 1 <= level <= 6 else 1
            builder.marks.append(HeadingMark(builder.add(text), level, one_line(text)))
        case "markdown":
            marks, blocks = structure(text, offset=builder.add(text))
            builder.marks += marks
            builder.blocks += blocks
        case _:
            builder.add(text)
