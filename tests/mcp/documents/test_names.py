from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context.cite import CitationKey
from lagotto.documents import storable
from lagotto.errors import ConfigError
from lagotto.mcp.documents import DocumentAddress, Target, make_cursor, parse_cursor, url_of

names = st.text(min_size=1, max_size=20).map(storable)


@given(names, names)
def test_a_name_is_one_word_and_comes_back(collection: str, document_id: str) -> None:
    name = DocumentAddress(collection, document_id)
    assert len(str(name).split()) == 1
    assert DocumentAddress.parse(str(name)) == name
    assert DocumentAddress.parse(name.uri) == name
    key = CitationKey(collection, document_id, 3, 9, "0123abcd")
    assert Target.parse(str(key)) == Target(name, key)


def test_names_as_people_write_them() -> None:
    assert DocumentAddress.parse("dog") == DocumentAddress("default", "dog")
    assert DocumentAddress.parse("notes/a/b.md") == DocumentAddress("notes", "a/b.md")
    for wrong in ("", "/", "a/"):
        with pytest.raises(ConfigError, match="names no document"):
            DocumentAddress.parse(wrong)


def test_a_url_is_one_of_the_web_or_of_a_resource() -> None:
    name = DocumentAddress("default", "a b")
    assert url_of("https://example.org/x", name) == "https://example.org/x"
    assert url_of("/home/me/x.md", name) == "lagotto://documents/default/a%20b"
    assert url_of("javascript:alert(1)", name) == "lagotto://documents/default/a%20b"


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=3), st.text())
def test_a_cursor_belongs_to_its_call(numbers: list[int], query: str) -> None:
    cursor = make_cursor(*numbers, of=[query])
    assert parse_cursor(cursor, of=[query]) == tuple(numbers)
    with pytest.raises(ConfigError, match="does not belong"):
        parse_cursor(cursor, of=[query, "other"])


@pytest.mark.parametrize("cursor", ["", "x", "1", "-1.", "1.zzzzzzzz", "\0", "²." + "0" * 8])
def test_what_is_no_cursor(cursor: str) -> None:
    with pytest.raises(ConfigError, match="does not belong"):
        parse_cursor(cursor, of="x")
