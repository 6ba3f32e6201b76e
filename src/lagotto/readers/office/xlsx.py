"""Excel workbooks: each sheet is a section with one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import BytesIO

from lxml import etree

from lagotto.readers.base import CELL, Draft, TextBuilder, one_line
from lagotto.readers.office.package import (
    Package,
    PackageReader,
    child,
    children,
    core_properties,
    related,
    small_number,
    value,
)

WORKBOOK = re.compile(r"xl/workbook\d*\.xml")
COLUMN = re.compile(r"[A-Z]{1,3}")
LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]\[]*+\]|_.|\*.')
"""Parts of a number format that show as they are, colours and conditions."""
DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
"""Ids of the built-in number formats that show dates and times."""
LAST_DAY = 2_958_466
"""The first serial number after 9999-12-31."""


class XlsxReader(PackageReader):
    """Reads all sheets, hidden ones included, as shown: results of formulas, dates as ISO 8601.

    A sheet is a section with a table; columns and rows without any value are left out. Charts,
    comments and number formats other than dates are ignored.
    """

    kind = "xlsx"
    noun = "Excel file"

    def draft(self, package: Package) -> Draft:
        stem = package.source.stem  # rather than the name of the first sheet
        main = package.require(WORKBOOK)
        relations = package.relations(main)
        parts = {relation.kind: relation.part for relation in relations.values()}
        workbook = package.xml(main)
        cells = Cells(
            texts=_shared_texts(package.xml(parts.get("sharedStrings"))),
            dates=_date_styles(package.xml(parts.get("styles"))),
            since_1904=value(child(workbook, "workbookPr"), "date1904") in ("1", "true"),
        )
        builder = TextBuilder()
        sheets = children(child(workbook, "sheets"), "sheet")
        for sheet, relation in related(relations, sheets):
            if relation.kind == "worksheet":
                table = Table(package, used=builder.length)
                for row in _rows(package.read(relation.part)):
                    table.add(cells.of_row(row), number=small_number(value(row, "r")))
                if table.rows:
                    builder.heading(value(sheet, "name") or "", level=1)
                    builder.table(table.cells(), numbers=table.numbers)
        return builder.draft(self.kind, **core_properties(package, title=stem))


def _rows(data: bytes) -> Iterator[etree._Element]:
    """The rows of a sheet, one at a time: the tree of a large sheet would take a gigabyte."""
    if not data:
        return
    rows = etree.iterparse(
        BytesIO(data),
        tag="{*}row",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    for _, row in rows:
        yield row
        row.clear()
        while row.getprevious() is not None:
            del row.getparent()[0]


class Table:
    """The cells of a sheet that have a value, and the text they take, within the limit."""

    def __init__(self, package: Package, *, used: int) -> None:
        self.rows: list[dict[int, str]] = []
        self.numbers: list[int] = []
        self._number = 0
        self._columns: set[int] = set()
        self._package = package
        self._size = used

    def add(self, row: dict[int, str], *, number: int | None) -> None:
        """Add a row, texts by column; one without a `number` follows the one before."""
        self._number = max(number or 0, self._number + 1)
        if not row:
            return
        self.rows.append(row)
        self.numbers.append(self._number)
        self._columns |= row.keys()
        self._size += sum(map(len, row.values()))
        total = self._size + len(CELL) * len(self._columns) * len(self.rows)
        if total > self._package.limit:
            self._package.refuse_size(total)

    def cells(self) -> Iterator[list[str]]:
        """All rows, with the same columns each."""
        columns = sorted(self._columns)
        return ([row.get(column, "") for column in columns] for row in self.rows)


class Cells:
    """Turns the cells of rows into texts."""

    def __init__(self, *, texts: list[str], dates: set[int], since_1904: bool) -> None:
        self._texts = texts
        self._dates = dates
        self._epoch = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)

    def of_row(self, row: etree._Element) -> dict[int, str]:
        """The cells that are not blank, by column from 0."""
        found = {}
        column = -1
        for cell in children(row, "c"):
            column = _column(value(cell, "r"), default=column + 1)
            text = one_line(self._text(cell))
            if text:
                found[column] = text
        return found

    def _text(self, cell: etree._Element) -> str:
        kind = value(cell, "t")
        if kind == "inlineStr":
            return _rich_text(child(cell, "is"))
        held = child(cell, "v")
        text = (held.text or "").strip() if held is not None else ""
        if kind == "s":
            index = small_number(text)
            return self._texts[index] if index is not None and index < len(self._texts) else ""
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(text, text)
        if kind in (None, "n") and small_number(value(cell, "s")) in self._dates:
            return self._date(text) or text
        return _plain_number(text) if kind in (None, "n") else text

    def _date(self, written: str) -> str | None:
        try:
            days = float(written)
        except ValueError:
            return None
        if not 0 <= days < LAST_DAY:
            return None
        seconds = round(days * 86_400)
        if days < 1:
            return str(timedelta(seconds=seconds))
        moment = self._epoch + timedelta(seconds=seconds)
        return moment.date().isoformat() if seconds % 86_400 == 0 else moment.isoformat(sep=" ")


def _plain_number(text: str) -> str:
    """A number without the binary noise that files hold, such as 0.30000000000000004."""
    if "." not in text and "E" not in text:
        return text
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text


def _column(reference: str | None, *, default: int) -> int:
    """The column of a reference such as `AB7`, from 0."""
    match = COLUMN.match(reference or "")
    if match is None:
        return default
    index = 0
    for letter in match[0]:
        index = index * 26 + ord(letter) - ord("A") + 1
    return index - 1


def _shared_texts(root: etree._Element | None) -> list[str]:
    return [one_line(_rich_text(item)) for item in children(root, "si")]


def _rich_text(item: etree._Element | None) -> str:
    """The text of all runs, without the readings of Japanese words."""
    pieces = []
    for part in children(item, "t", "r"):
        text = part if part.tag == "t" or part.tag.endswith("}t") else child(part, "t")
        pieces.append((text.text or "") if text is not None else "")
    return "".join(pieces)


def _date_styles(root: etree._Element | None) -> set[int]:
    """The cell styles that show a date or a time."""
    own = {
        small_number(value(item, "numFmtId")): _shows_date(value(item, "formatCode") or "")
        for item in children(child(root, "numFmts"), "numFmt")
    }
    found = set()
    for index, style in enumerate(children(child(root, "cellXfs"), "xf")):
        code = small_number(value(style, "numFmtId"))
        if own.get(code, code in DATE_FORMATS):
            found.add(index)
    return found


def _shows_date(code: str) -> bool:
    shown = LITERAL.sub("", code.split(";")[0]).lower()
    return any(letter in shown for letter in "ymdhs") and "general" not in shown
