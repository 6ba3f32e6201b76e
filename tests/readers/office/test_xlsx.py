from __future__ import annotations

import io

import openpyxl
import pytest

from lagotto.chunkers.structure import Structure
from lagotto.documents import Span
from lagotto.errors import SourceTooLargeError
from lagotto.readers import ReadOptions
from tests.readers.office_samples import make_xlsx
from tests.readers.samples import make_zip, only

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def sheet_only(rows: str, *, texts: str = "") -> bytes:
    """A workbook with one sheet of this XML."""
    sheet = '<sheet name="S" sheetId="1" r:id="a"/>'
    return make_zip(
        {
            "xl/workbook.xml": f'<w xmlns:r="{RELATIONS}"><sheets>{sheet}</sheets></w>',
            "xl/_rels/workbook.xml.rels": (
                f'<Relationships><Relationship Id="a" Type="{RELATIONS}/worksheet" '
                f'Target="worksheets/s.xml"/><Relationship Id="b" Target="texts.xml" '
                f'Type="{RELATIONS}/sharedStrings"/></Relationships>'
            ),
            "xl/worksheets/s.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
            "xl/texts.xml": f"<sst>{texts}</sst>",
        }
    )


def test_sheets_are_sections_with_a_table_and_properties() -> None:
    document = only(make_xlsx(), "cats.xlsx")
    assert [item.title for item in document.headings] == ["Hours", "Notes"]
    first, second = document.blocks
    assert [document.text[start:end] for start, end in first.parts] == [
        "cat | hours | born | indoors",
        "Tom | 16 | 2019-05-06 | TRUE",
        "Kit | 0.3 | 2020-01-02 03:04:05 | FALSE",
    ]
    assert [document.text[start:end] for start, end in second.parts] == ["Two lines"]
    assert document.title == "Cats in numbers"
    assert document.metadata == {"author": "Ann"}


def test_without_a_title_the_file_names_the_workbook() -> None:
    document = only(sheet_only('<row><c t="str"><v>Tom</v></c></row>'), "cats.xlsx")
    assert (document.title, document.headings[0].title) == ("cats", "S")


def test_results_of_formulas_and_gaps() -> None:
    rows = (
        '<row><c r="B1"><f>1+1</f><v>2</v></c><c r="D1" t="str"><v>two</v></c></row>'
        '<row><c r="A2" t="inlineStr"><is><r><t>in</t></r><r><t>line</t></r></is></c>'
        '<c r="D2" t="e"><v>#DIV/0!</v></c></row>'
    )
    assert only(sheet_only(rows), "a.xlsx").text == "S\n\n | 2 | two\ninline |  | #DIV/0!"


def test_rows_are_cited_by_their_numbers_in_the_sheet() -> None:
    rows = "".join(
        f'<row{attribute}><c t="str"><v>{text}</v></c></row>'
        for attribute, text in ((' r="3"', "cat"), (' r="5"', ""), ("", "Tom"), (' r="9"', "Kit"))
    )
    document = only(sheet_only(rows), "cats.xlsx")
    assert document.blocks[0].numbers == (3, 6, 9)
    at = document.text.index("Tom")
    assert Structure(document).describe(Span(at, at + 3))["row_range"] == (6, 6)


def test_times_and_number_formats() -> None:
    file = openpyxl.Workbook()
    sheet = file.active
    assert sheet is not None
    for column, (value, code) in enumerate(
        [(0.5, "hh:mm"), (1234.5, '#,##0.00 "Dollars"'), (45000, "[Red]yyyy-mm-dd"), (3, "General")]
    ):
        cell = sheet.cell(row=1, column=column + 1, value=value)
        cell.number_format = code
    stream = io.BytesIO()
    file.save(stream)
    text = only(stream.getvalue(), "a.xlsx").text
    assert text.endswith("12:00:00 | 1234.5 | 2023-03-15 | 3")


def test_a_text_that_is_shared_too_often() -> None:
    """A megabyte of text in a thousand cells is a gigabyte."""
    cell = '<c t="s"><v>0</v></c>'
    data = sheet_only(f"<row>{cell * 1000}</row>", texts=f"<si><t>{'x' * 1_000_000}</t></si>")
    with pytest.raises(SourceTooLargeError, match="unpacks to"):
        only(data, "a.xlsx")


def test_cells_far_apart() -> None:
    """Two columns are used, however far apart; many columns in many rows are refused."""
    far = sheet_only('<row><c r="A1"><v>1</v></c><c r="XFD1"><v>2</v></c></row>')
    assert only(far, "a.xlsx").text == "S\n\n1 | 2"
    names = [f"{a}{b}{c}" for a in "ABC" for b in "ABCDEFGHIJ" for c in "ABCDEFGHIJ"]
    rows = "".join(f'<row><c r="{name}1"><v>1</v></c></row>' for name in names)
    with pytest.raises(SourceTooLargeError):
        only(sheet_only(rows), "a.xlsx", ReadOptions(max_bytes=100_000))
