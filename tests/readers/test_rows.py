from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers import READERS, Columns, ReadOptions, Source, load, read_bytes, read_path
from lagotto.readers.base import ColumnType
from lagotto.readers.rows import detect_types, read_csv, typed
from tests.growth import grows_linearly
from tests.readers.samples import CSV, JSONL


def read(data: str, name: str, *, options: ReadOptions | None = None) -> list[Document | ReadError]:
    reader = READERS.get(name)()
    source = Source(name=f"rows.{name}", data=data.encode())
    return list(reader.read(source, options=options or ReadOptions()))


def documents(data: str, name: str, *, columns: Columns | None = None) -> list[Document]:
    options = ReadOptions(columns=columns or Columns())
    results = read(data, name, options=options)
    found = [result for result in results if isinstance(result, Document)]
    assert len(found) == len(results)
    return found


def test_work_grows_with_the_columns_not_with_their_square() -> None:
    def read_columns(columns: int) -> None:
        names = ",".join(f"c{number}" for number in range(columns))
        (document,) = documents(f"{names}\n{names}\n", "csv")
        assert len(document.metadata) == columns + 1

    assert grows_linearly(read_columns, 1_000, times=16)


def test_jsonl() -> None:
    tom, kit = documents(JSONL, "jsonl")
    assert (tom.text, tom.title, tom.source_ref) == ("Tom sleeps.", "Tom", "a")
    assert (tom.kind, tom.metadata, tom.source) == ("row", {"row": 1, "year": 2024}, "rows.jsonl")
    assert (kit.text, kit.title, kit.source_ref) == ("Kit eats.", None, "b")


def test_csv() -> None:
    tom, kit = documents(CSV, "csv")
    assert (tom.text, tom.title, tom.source_ref) == ("Tom sleeps, a lot.", "Tom", "1")
    assert tom.metadata == {"row": 1, "year": 2024}
    assert kit.id != tom.id


def test_named_columns() -> None:
    columns = Columns(text=("q", "a"), title="a", id="key", metadata=("n",))
    data = json.dumps({"q": "What?", "a": "That.", "key": "k1", "n": [1], "rest": 2, "text": "no"})
    [document] = documents(data, "jsonl", columns=columns)
    assert (document.text, document.title, document.id) == ("What?\n\nThat.", "That.", "k1")
    assert document.metadata == {"row": 1, "n": [1]}


def test_rows_have_their_number_and_a_found_id_is_only_a_reference() -> None:
    [document] = documents('{"id": 7, "text": "x"}', "jsonl")
    assert (document.source_ref, document.id != "7") == ("7", True)
    assert [d.source_ref for d in documents("text\na\n\nb\n", "csv")] == ["1", "2"]
    found = documents("id,text\nx,a\n\ny,b\n", "csv")
    assert [(d.source_ref, d.metadata["row"]) for d in found] == [("x", 1), ("y", 2)]
    (own,) = documents('{"text": "a", "row": "seat 12"}', "jsonl")
    assert own.metadata == {"row": "seat 12"}


def test_without_a_text_column_all_values_are_taken() -> None:
    """Numbers answer questions too: in CSV they are texts anyway."""
    row = '{"name": "Tom", "colour": "grey", "age": 3, "note": " ", "tags": ["a", 1, "b"]}'
    [document] = documents(row, "jsonl")
    assert (document.text, document.title) == ("colour: grey\nage: 3\ntags: a, b", "Tom")
    assert document.metadata["age"] == 3
    [document] = documents('{"name": "x", "ok": true, "of": {"a": 1}, "vector": [0.1, 2]}', "jsonl")
    assert document.text == "ok: true"


def test_a_row_may_be_only_a_title() -> None:
    rows = '{"title": "Die Geschichte der deutschen Eisenbahn", "text": ""}'
    [document] = documents(rows, "jsonl")
    assert (document.text, document.is_only_title, document.language) == ("", True, "de")


def test_values_that_are_no_strings() -> None:
    [document] = documents('{"text": ["one", {"two": 2}, null, true], "id": 1.5}', "jsonl")
    assert document.text == 'one\n{"two": 2}\n\ntrue'


BAD_LINES = [
    "{broken",
    "[1, 2]",
    '"text"',
    '{"text": NaN}',
    '{"text": "x", "n": 1e999}',
    '{"text": "x", "n": ' + "9" * 30 + "}",
    '{"text": "x", "n": ' + "9" * 5000 + "}",
    '{"text": ""}',
    "[" * 100_000,
    '{"text": "x", "n": ' + "[" * 700 + "]" * 700 + "}",
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_lines_are_reported_and_the_rest_is_read(line: str) -> None:
    first, bad, last = read(f'{{"text": "a"}}\n\n{line}\n{{"text": "b"}}\n', "jsonl")
    assert isinstance(first, Document)
    assert isinstance(bad, CorruptSourceError | EmptySourceError)
    assert "line 3" in str(bad)
    assert isinstance(last, Document)


def test_lone_surrogates_are_replaced_wherever_they_are() -> None:
    rows = [
        r'{"id": "\ud800", "text": "a"}',
        r'{"text": "b \udfff"}',
        r'{"title": "\ud800", "text": "c", "m": {"\ud800": ["\ud800"]}}',
        r'{"text": "d"}',
    ]
    first, second, third, last = documents("\n".join(rows), "jsonl", columns=Columns())
    assert first.source_ref == "\ufffd"
    assert second.text == "b \ufffd"
    assert third.title == "\ufffd"
    assert third.metadata["m"] == {"\ufffd": ["\ufffd"]}
    assert last.text == "d"


def test_an_id_used_twice_is_reported() -> None:
    results = read('{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n', "jsonl")
    assert str(results[1]) == "rows.jsonl: line 2: duplicate id '1'; an earlier row has it"


def test_ragged_csv() -> None:
    results = read("id,text,note\n1,a\n2,b,c,d\n3,e,f\n", "csv")
    short, long, right = results
    assert isinstance(short, Document)
    assert short.metadata == {"row": 1, "note": ""}
    assert str(long) == "rows.csv: line 3 has 4 cells for 3 columns"
    assert isinstance(right, Document)


def test_broken_quotes_name_their_line() -> None:
    results = read('text,n\n"a\nb",1\n"c"d,2\ne,3\n"f,4\n', "csv")
    assert [isinstance(result, Document) for result in results] == [True, False, True, False]
    assert "line 4 is not valid CSV" in str(results[1])
    assert "line 6 is not valid CSV" in str(results[3])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    rows = [["id", "text"], ["1", "one, two; three"], ["2", "x|y"]]
    data = "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    assert [d.text for d in documents(data, "csv")] == ["one, two; three", "x|y"]


def test_one_column_and_strange_headers() -> None:
    assert [d.text for d in documents("text\njust words\n", "csv")] == ["just words"]
    [document] = documents("text,,x,x\na,b,c,d\n", "csv")
    assert document.metadata == {"row": 1, "column 2": "b", "x": "c", "x (4)": "d"}


def test_huge_cell() -> None:
    [document] = documents(f'text\n"{"word " * 100_000}"\n', "csv")
    assert len(document.text) == 499_999


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_missing_column(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"rows.{name}"
    path.write_text({"csv": "a,b\n1,2\n", "jsonl": '{"a": 1, "b": 2}\n'}[name], encoding="utf-8")
    results = read_path(path, options=ReadOptions(columns=Columns(text=("body",))))
    with pytest.raises(ReadError, match="no column 'body'; available columns: a, b"):
        next(results)


@pytest.mark.parametrize(("name", "data"), [("csv", "a,b\n"), ("jsonl", "\n \n"), ("csv", "\n\n")])
def test_no_rows(name: str, data: str) -> None:
    with pytest.raises(EmptySourceError, match="no rows"):
        read(data, name)


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_endless_line(name: str) -> None:
    with pytest.raises(SourceTooLargeError, match="line 2 is longer than 100 characters"):
        read("text\n" + "x" * 1000, name, options=ReadOptions(max_bytes=100))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("id;text\n1;Grüße aus Köln\n".encode(encoding))
    [document] = read_path(path)
    assert (document.text, document.source_ref) == ("Grüße aus Köln", "1")


def test_bad_rows_end_a_file_but_not_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "good"}\nbad\n{"text": "too"}\n', encoding="utf-8")
    results = read_path(path)
    assert next(results).text == "good"
    with pytest.raises(CorruptSourceError, match="line 2"):
        next(results)
    good, bad, too = load(tmp_path)
    assert isinstance(good, Document)
    assert isinstance(too, Document)
    assert not isinstance(bad, Document)
    assert (bad.error, bad.source) == ("CorruptSourceError", good.source)


CELL = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).filter(
    lambda text: bool(text.strip())
)


@given(st.lists(CELL, min_size=1, max_size=5))
def test_round_trips(cells: list[str]) -> None:
    lines = "\n".join(json.dumps({"text": cell}) for cell in cells)
    assert [d.text for d in documents(lines, "jsonl")] == [cell.strip() for cell in cells]
    quoted = ('"' + cell.replace('"', '""') + '"' for cell in cells)
    data = "text\tn\r\n" + "".join(f"{cell}\t1\r\n" for cell in quoted)
    assert [d.text for d in documents(data, "csv")] == [cell.strip() for cell in cells]


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


def typed_rows(data: bytes, **columns: object) -> list[Document]:
    options = ReadOptions(columns=Columns.model_validate(columns))
    return list(read_bytes(data, name="a.csv", options=options))


def test_columns_of_csv_are_typed() -> None:
    one, two = typed_rows(ROWS)
    assert one.metadata == {
        "row": 1, "year": 2019, "price": 1.5, "zip": "01234", "sold": True, "note": "a"
    }  # fmt: skip
    assert two.metadata == {"row": 2, "year": 2024, "zip": "10115", "sold": False, "note": "7"}


def test_given_types_take_precedence() -> None:
    one, two = typed_rows(ROWS, types={"year": "text", "price": "number"}, detect_types=False)
    found = (one.metadata["year"], one.metadata["price"], one.metadata["sold"])
    assert found == ("2019", 1.5, "true")
    assert "price" not in two.metadata


def test_a_value_of_another_type_is_an_error_of_its_row() -> None:
    options = ReadOptions(columns=Columns(types={"note": "integer"}))
    source = Source(name="a.csv", data=ROWS)
    failed, read = read_csv().read(source, options=options)
    assert isinstance(failed, ReadError)
    assert failed.reason == "line 2: note: 'a' is not an integer"
    assert isinstance(read, Document)
    assert read.metadata["note"] == 7


def test_types_of_columns_that_do_not_exist() -> None:
    with pytest.raises(ReadError, match="no column 'yaer'"):
        typed_rows(ROWS, types={"yaer": "integer"})


def test_values_of_json_lines() -> None:
    data = b'{"text": "one", "year": "2019", "n": 1}\n{"text": "two", "year": 2020}\n'
    options = ReadOptions(columns=Columns(types={"year": "integer"}))
    one, two = read_bytes(data, name="a.jsonl", options=options)
    assert (one.metadata["year"], two.metadata["year"]) == (2019, 2020)


def test_rows_without_a_text_column_still_show_numbers() -> None:
    [document] = typed_rows(b"city,founded\nBerlin,1237\n")
    assert document.text == "city: Berlin\nfounded: 1237"
    assert document.metadata == {"row": 1, "city": "Berlin", "founded": 1237}


RECORDS = [{"id": "a", "text": "One record.", "year": 2024}, {"id": "b", "text": "Another."}]


def exported(value: object) -> list[Document]:
    return list(read_bytes(json.dumps(value).encode(), name="export.json"))


@pytest.mark.parametrize("export", [RECORDS, {"version": 1, "messages": RECORDS}])
def test_records_are_documents_with_fields(export: object) -> None:
    first, second = exported(export)
    assert (first.text, first.kind, first.source_ref) == ("One record.", "row", "a")
    assert first.metadata == {"row": 1, "year": 2024}
    assert second.text == "Another."


@pytest.mark.parametrize(
    "value", [{"a": 1, "b": [1, 2]}, [1, 2, 3], [], RECORDS[:1], {"a": RECORDS, "b": RECORDS}]
)
def test_other_json_is_code(value: object) -> None:
    (document,) = exported(value)
    assert document.kind == "code"
