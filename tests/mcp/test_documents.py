from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context.cite import CitationKey
from lagotto.documents import Document, Heading, Page, storable
from lagotto.errors import ConfigError
from lagotto.mcp.documents import (
    address_of,
    line_span,
    make_cursor,
    page_span,
    parse_address,
    parse_cursor,
    parse_id,
    section_span,
    sections,
    url_of,
)

names = st.text(min_size=1, max_size=20).map(storable)


@given(names, names)
def test_a_name_is_one_word_and_comes_back(collection: str, document_id: str) -> None:
    name = (collection, document_id)
    assert len(address_of(name).split()) == 1
    assert parse_address(address_of(name)) == name
    assert parse_address(url_of("", name)) == name
    key = CitationKey(collection, document_id, 3, 9, "0123abcd")
    assert parse_id(str(key)) == (name, key)


def test_names_as_people_write_them() -> None:
    assert parse_address("dog") == ("default", "dog")
    assert parse_address("notes/a/b.md") == ("notes", "a/b.md")
    for wrong in ("", "/", "a/"):
        with pytest.raises(ConfigError, match="names no document"):
            parse_address(wrong)


def test_a_url_is_one_of_the_web_or_of_a_resource() -> None:
    name = ("default", "a b")
    assert url_of("https://example.org/x", name) == "https://example.org/x"
    assert url_of("/home/me/x.md", name) == "lagotto://documents/default/a%20b"
    assert url_of("javascript:alert(1)", name) == "lagotto://documents/default/a%20b"


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=3), st.text())
def test_a_cursor_belongs_to_its_call(numbers: list[int], query: str) -> None:
    cursor = make_cursor(*numbers, of=[query])
    assert parse_cursor(cursor, of=[query]) == tuple(numbers)
    with pytest.raises(ConfigError, match="does not belong"):
        parse_cursor(cursor, of=[query, "other"])


@pytest.mark.parametrize("cursor", ["x", "1", "-1.", "1.zzzzzzzz", "\0", "²." + "0" * 8])
def test_what_is_no_cursor(cursor: str) -> None:
    with pytest.raises(ConfigError, match="does not belong"):
        parse_cursor(cursor, of="x")


TEXT = "A\na\nB\nb\nC\nc\nD\nd\nB\nx\n"
DOCUMENT = Document(
    text=TEXT,
    headings=(
        Heading(start=0, end=12, level=1, title="A"),
        Heading(start=4, end=8, level=3, title="B"),
        Heading(start=8, end=12, level=2, title="C"),
        Heading(start=12, end=20, level=1, title="D"),
        Heading(start=16, end=20, level=2, title="B"),
    ),
    pages=(Page(number=1, start=0, end=8), Page(number=2, start=8, end=20)),
)


def test_numbers_follow_the_nesting() -> None:
    assert [(number, heading.title) for number, heading in sections(DOCUMENT)] == [
        ("1", "A"), ("1.1", "B"), ("1.2", "C"), ("2", "D"), ("2.1", "B"),
    ]  # fmt: skip


def test_parts_by_name() -> None:
    assert section_span(DOCUMENT, "1.2") == (8, 12)
    assert section_span(DOCUMENT, "1.2.") == (8, 12)
    assert section_span(DOCUMENT, " c ") == (8, 12)
    assert page_span(DOCUMENT, "2") == (8, 20)
    assert page_span(DOCUMENT, "1 - 2") == (0, 20)
    assert line_span(DOCUMENT, "2-3") == (2, 6)
    assert line_span(DOCUMENT, "10-99") == (18, 20)


@pytest.mark.parametrize(
    ("find", "wanted", "told"),
    [
        (section_span, "9", "no section has the number or title '9'"),
        (section_span, "B", "2 sections have this title: 1.1, 2.1"),
        (page_span, "7", "the pages 1 to 2"),
        (page_span, "two", 'such as "3-5"'),
        (line_span, "5-3", 'such as "3-5"'),
        (line_span, "0", "the document has 11 lines"),
        (line_span, "12", "the document has 11 lines"),
    ],
)  # fmt: skip
def test_what_is_not_there(find: object, wanted: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        find(DOCUMENT, wanted)  # type: ignore[operator]


def test_a_document_without_structure() -> None:
    with pytest.raises(ConfigError, match="no sections; pass page or lines"):
        section_span(Document(text="x"), "1")
    with pytest.raises(ConfigError, match="no pages; pass section or lines"):
        page_span(Document(text="x"), "1")
