from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.errors import ReadError
from lagotto.readers import Columns, ReadOptions, Source, read_bytes
from lagotto.readers.base import ColumnType
from lagotto.readers.rows import CsvReader, detect_types, typed


def detected(*values: str) -> ColumnType | None:
    return detect_types([[value] for value in values], ["x"], columns=["x"]).get("x")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-20", "0"], "integer"),
        (["1", "2.5"], "number"),
        (["1e3", "-0.5E-2"], "number"),
        (["true", "False"], "boolean"),
        (["1", "", " "], "integer"),
        (["", ""], None),
        (["007", "8"], None),
        (["+49", "30"], None),
        (["1,000"], None),
        (["1.5.2"], None),
        (["1", "n/a", "NA", "-", "null"], "integer"),
        (["n/a", "-"], None),
        (["1", "unknown"], None),
        (["true", "1"], None),
        (["1" * 19], None),
        (["nan"], None),
        (["٣"], None),
        (["2024-05-06"], None),
    ],
)
def test_detection(values: list[str], expected: str | None) -> None:
    assert detected(*values) == expected


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_integers_are_kept_exactly(number: int) -> None:
    assert detected(str(number)) == "integer"
    assert typed(str(number), "integer") == number


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_numbers_are_kept(number: float) -> None:
    if detected(repr(number)) == "number":
        assert typed(repr(number), "number") == number


ROWS = b"text,year,price,zip,sold,note\none,2019,1.5,01234,true,a\ntwo,2024,,10115,false,7\n"


def read(data: bytes, **columns: object) -> list[Document]:
    options = ReadOptions(columns=Columns.model_validate(columns))
    return list(read_bytes(data, name="a.csv", options=options))


def test_columns_of_csv_are_typed() -> None:
    one, two = read(ROWS)
    assert one.metadata == {
        "row": 1, "year": 2019, "price": 1.5, "zip": "01234", "sold": True, "note": "a"
    }  # fmt: skip
    assert two.metadata == {"row": 2, "year": 2024, "zip": "10115", "sold": False, "note": "7"}


def test_given_types_take_precedence() -> None:
    one, two = read(ROWS, types={"year": "text", "price": "number"}, detect_types=False)
    found = (one.metadata["year"], one.metadata["price"], one.metadata["sold"])
    assert found == ("2019", 1.5, "true")
    assert "price" not in two.metadata


def test_a_value_of_another_type_is_an_error_of_its_row() -> None:
    options = ReadOptions(columns=Columns(types={"note": "integer"}))
    source = Source(name="a.csv", data=ROWS)
    failed, read = CsvReader().read(source, options=options)
    assert isinstance(failed, ReadError)
    assert failed.reason == "line 2: note: 'a' is not an integer"
    assert isinstance(read, Document)
    assert read.metadata["note"] == 7


def test_types_of_columns_that_do_not_exist() -> None:
    with pytest.raises(ReadError, match="no column 'yaer'"):
        read(ROWS, types={"yaer": "integer"})


def test_values_of_json_lines() -> None:
    data = b'{"text": "one", "year": "2019", "n": 1}\n{"text": "two", "year": 2020}\n'
    options = ReadOptions(columns=Columns(types={"year": "integer"}))
    one, two = read_bytes(data, name="a.jsonl", options=options)
    assert (one.metadata["year"], two.metadata["year"]) == (2019, 2020)


def test_rows_without_a_text_column_still_show_numbers() -> None:
    [document] = read(b"city,founded\nBerlin,1237\n")
    assert document.text == "city: Berlin\nfounded: 1237"
    assert document.metadata == {"row": 1, "city": "Berlin", "founded": 1237}
