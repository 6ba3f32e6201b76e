"""Excel workbooks: each sheet is a section with one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import reduce
from io import BytesIO
from typing import NamedTuple

from lxml import etree

from lagotto.readers.base import CELL, Draft, TextBuilder, one_line
from lagotto.readers.office import xml
from lagotto.readers.office.package import Package, core_properties, package_reader, related

WORKBOOK = re.compile(r"xl/workbook\d*\.xml")
COLUMN = re.compile(r"[A-Z]{1,3}")
LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]\[]*+\]|_.|\*.')
"""Parts of a number format that show as they are, colours and conditions."""
DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
"""Ids of the built-in number formats that show dates and times."""
LAST_DAY = 2_958_466
"""The first serial number after 9999-12-31."""


@package_reader("xlsx", noun="Excel file")
def read_xlsx(package: Package) -> Draft:
    """Read all sheets, hidden ones included, as shown: results of formulas, dates as ISO 8601.

    A sheet is a section with a table; columns and rows without any value are left out. Charts,
    comments and number formats other than dates are ignored.
    """
    main = package.require(WORKBOOK)
    relations = package.relations(main)
    parts = {relation.kind: relation.part for relation in relations.values()}
    workbook, texts = package.xml(main), package.xml(parts.get("sharedStrings"))
    cells = Cells(
        texts=[one_line(xml.run_text(item)) for item in xml.children(texts, "si")],
        dates=_date_styles(package.xml(parts.get("styles"))),
        since_1904=xml.value(xml.child(workbook, "workbookPr"), "date1904") in ("1", "true"),
    )
    builder = TextBuilder()
    sheets = xml.children(xml.child(workbook, "sheets"), "sheet")
    for sheet, relation in related(relations, sheets):
        if relation.kind == "worksheet":
            rows, numbers = _table(package, relation.part, cells, used=builder.length)
            if numbers:
                builder.heading(xml.value(sheet, "name") or "", level=1)
                builder.table(rows, numbers=numbers)
    # not the name of the first sheet
    fields = core_properties(package, title=package.source.stem)
    return builder.draft(**fields)


def _table(
    package: Package, part: str, cells: Cells, *, used: int
) -> tuple[Iterator[list[str]], list[int]]:
    """The rows of a sheet that have a value, with the same columns each, and their numbers.

    The text that they take is within the limit, as is what was `used` before. Rows are read one at
    a time: the tree of a large sheet would take a gigabyte.
    """
    data = package.read(part)
    rows: list[dict[int, str]] = []
    numbers: list[int] = []
    columns: set[int] = set()
    number, size = 0, used
    for _, row in etree.iterparse(BytesIO(data), tag="{*}row", **xml.PARSING) if data else ():
        number = max(xml.number(xml.value(row, "r")) or 0, number + 1)
        if texts := cells.of_row(row):
            rows.append(texts)
            numbers.append(number)
            columns |= texts.keys()
            size += sum(map(len, texts.values()))
            package.check_size(size + len(CELL) * len(columns) * len(rows))
        row.clear()
        while row.getprevious() is not None:
            del row.getparent()[0]
    ordered = sorted(columns)
    return ([row.get(column, "") for column in ordered] for row in rows), numbers


class Cells(NamedTuple):
    """Turns the cells of rows into texts."""

    texts: list[str]
    dates: set[int]
    since_1904: bool

    def of_row(self, row: etree._Element) -> dict[int, str]:
        """The cells that are not blank, by column from 0."""
        texts = {}
        column = -1
        for cell in xml.children(row, "c"):
            column = _column(xml.value(cell, "r"), default=column + 1)
            if text := one_line(self._text(cell)):
                texts[column] = text
        return texts

    def _text(self, cell: etree._Element) -> str:
        kind = xml.value(cell, "t") or "n"
        if kind == "inlineStr":
            return xml.run_text(xml.child(cell, "is"))
        stored = xml.child(cell, "v")
        text = (stored.text or "").strip() if stored is not None else ""
        if kind == "s":
            index = xml.number(text)
            return self.texts[index] if index is not None and index < len(self.texts) else ""
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(text, text)
        if kind == "n":
            with suppress(ValueError):
                if xml.number(xml.value(cell, "s")) in self.dates:
                    return self._date(float(text)) or text
                if "." in text or "E" in text:  # without the noise of 0.30000000000000004
                    return f"{float(text):.15g}"
        return text

    def _date(self, days: float) -> str | None:
        if not 0 <= days < LAST_DAY:
            return None
        seconds = round(days * 86_400)
        if days < 1:
            return str(timedelta(seconds=seconds))
        epoch = datetime(1904, 1, 1) if self.since_1904 else datetime(1899, 12, 30)
        moment = epoch + timedelta(seconds=seconds)
        return moment.date().isoformat() if seconds % 86_400 == 0 else moment.isoformat(sep=" ")


def _column(reference: str | None, *, default: int) -> int:
    """The column of a reference such as `AB7`, from 0."""
    if (match := COLUMN.match(reference or "")) is None:
        return default
    return reduce(lambda index, letter: index * 26 + ord(letter) - ord("@"), match[0], 0) - 1


def _date_styles(root: etree._Element | None) -> set[int]:
    own: dict[int | None, bool] = {}
    for item in xml.children(xml.child(root, "numFmts"), "numFmt"):
        pattern = LITERAL.sub("", (xml.value(item, "formatCode") or "").split(";")[0]).lower()
        shows_date = any(letter in pattern for letter in "ymdhs") and "general" not in pattern
        own[xml.number(xml.value(item, "numFmtId"))] = shows_date
    styles = xml.children(xml.child(root, "cellXfs"), "xf")
    codes = [xml.number(xml.value(style, "numFmtId")) for style in styles]
    return {index for index, code in enumerate(codes) if own.get(code, code in DATE_FORMATS)}
