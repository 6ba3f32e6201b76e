"""Jupyter notebooks: Markdown and code cells in order; outputs are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lagotto.documents import Block, Document, Span, storable
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError
from lagotto.readers.base import GAP, Draft, HeadingMark, ReadOptions, Source, sections
from lagotto.readers.decode import decode
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.markdown import structure


class NotebookReader:
    """Reads the cells of a notebook as one text.

    Markdown cells give the sections, tables and lists, code cells are blocks of code. Outputs are
    left out: they are derived from the code, and often large.
    """

    kind = "notebook"
    suffixes = SUFFIXES["notebook"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        text = decode(source.read(limit=options.max_bytes))
        if not text.strip():
            raise EmptySourceError(source.label, "empty file; leave it out")
        notebook = _parsed(text, source)
        cells = _Cells()
        for cell in _cells(notebook):
            cells.add(cell)
        language = _language(notebook)
        yield Draft(
            kind=self.kind,
            text=cells.text,
            headings=sections(cells.marks, end=len(cells.text)),
            blocks=tuple(cells.blocks),
            metadata={"programming_language": language} if language else {},
        ).document(source, options=options)


def _parsed(text: str, source: Source) -> dict[str, Any]:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CorruptSourceError(source.label, f"not a notebook: invalid JSON ({exc})") from exc
    if not isinstance(notebook, dict):
        raise CorruptSourceError(source.label, "not a notebook: no JSON object")
    return notebook


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells; notebooks of version 3 have them in worksheets."""
    sheets = notebook.get("worksheets")
    owners = [notebook, *(sheets if isinstance(sheets, list) else ())]
    for owner in owners:
        cells = owner.get("cells") if isinstance(owner, dict) else None
        listed = cells if isinstance(cells, list) else []
        yield from (cell for cell in listed if isinstance(cell, dict))


def _language(notebook: dict[str, Any]) -> str | None:
    metadata = notebook.get("metadata")
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        held = metadata.get(part) if isinstance(metadata, dict) else None
        language = held.get(name) if isinstance(held, dict) else None
        if isinstance(language, str) and language:
            return language
    return None


class _Cells:
    """The text of the cells so far, with its structure."""

    def __init__(self) -> None:
        self.text = ""
        self.marks: list[HeadingMark] = []
        self.blocks: list[Block] = []

    def add(self, cell: dict[str, Any]) -> None:
        """Add the source of a cell; one without text is ignored."""
        text = storable(_source(cell)).replace("\r\n", "\n").replace("\r", "\n").strip("\n")
        if not text.strip():
            return
        start = len(self.text) + (len(GAP) if self.text else 0)
        self.text += (GAP if self.text else "") + text
        kind = cell.get("cell_type")
        if kind == "code":
            self.blocks.append(Block(start=start, end=len(self.text), kind="code"))
        elif kind == "heading":
            level = cell.get("level")
            level = level if isinstance(level, int) and 1 <= level <= 6 else 1
            self.marks.append(HeadingMark(start, level, " ".join(text.split())))
        elif kind == "markdown":
            marks, blocks = structure(text)
            self.marks += [
                HeadingMark(start + mark.start, mark.level, mark.title) for mark in marks
            ]
            self.blocks += [_moved(block, start) for block in blocks]


def _source(cell: dict[str, Any]) -> str:
    """The text of a cell: a string or a list of them; `input` in version 3."""
    held = cell.get("source", cell.get("input", ""))
    lines = held if isinstance(held, list) else [held]
    return "".join(line for line in lines if isinstance(line, str))


def _moved(block: Block, by: int) -> Block:
    parts = tuple(Span(part.start + by, part.end + by) for part in block.parts)
    return Block(start=block.start + by, end=block.end + by, kind=block.kind, parts=parts)
