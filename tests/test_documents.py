from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lagotto.documents import (
    Block,
    Document,
    Heading,
    Page,
    Span,
    chunk_id,
    digest,
    in_context,
    iso,
    storable,
)
from lagotto.testing.strategies import documents

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT)
def test_storable_text_can_be_stored_and_keeps_its_length(text: str) -> None:
    stored = storable(text)
    assert len(stored) == len(text)
    assert "\0" not in stored
    assert stored.encode().decode() == stored
    assert storable(stored) == stored


def test_storable_leaves_good_text_alone() -> None:
    assert storable("naïve 👩‍👩‍👧 \n\t") == "naïve 👩‍👩‍👧 \n\t"
    assert storable("a\0b\ud800c") == "a\ufffdb\ufffdc"


@given(documents())
def test_documents_survive_json(document: Document) -> None:
    assert Document.model_validate_json(document.model_dump_json()) == document


@pytest.mark.parametrize("tag", ["en", "de-AT", "zh_Hans", "sr-Latn-RS", "yue", "EN", " fr "])
def test_a_language_is_a_tag(tag: str) -> None:
    assert Document(text="a", language=tag).language == tag.strip()
    assert Document(text="a", language=" ").language is None


@pytest.mark.parametrize("tag", ["é", "english", "e", "en-", "en\x1b[0m", "日", "\ud800", "en--us"])
def test_anything_else_is_no_language(tag: str) -> None:
    with pytest.raises(ValidationError, match="is not a language tag; write a code such as en"):
        Document(text="a", language=tag)


def test_titles_of_structure_are_storable() -> None:
    """A lone surrogate would be an error of the hash of the content."""
    made = Document(
        text="abc",
        headings=(Heading(start=0, end=3, level=1, title="\ud800"),),
        pages=(Page(start=0, end=3, number=1, label="\ud800"),),
    )
    assert (made.headings[0].title, made.pages[0].label) == ("\ufffd", "\ufffd")


def test_the_id_of_a_source_stays_when_its_content_changes() -> None:
    one = Document(source="/notes/a.md", text="one")
    two = Document(source="/notes/a.md", text="two")
    assert one.id == two.id
    assert one.content_hash != two.content_hash
    assert one.id != Document(source="/notes/b.md", text="one").id
    assert one.id != Document(source="/notes/a.md", source_ref="7", text="one").id
    # without a source the content is the identity
    assert Document(text="one").id == Document(text="one").id
    assert Document(text="one").id != Document(text="two").id


def test_ids_are_the_same_on_every_machine() -> None:
    document = Document(source="a.txt", title="A", text="hello")
    assert document.id == "9afc49236227a6ce014218c0dceb9b5c"
    assert document.content_hash == "874507d7317ebf0b52c0188109c13ff6"
    assert digest("ab", "c") != digest("a", "bc")


def test_the_content_hash_covers_what_chunks_are_made_from() -> None:
    plain = Document(text="hello world")
    assert plain.content_hash == Document(text="hello world", metadata={"a": 1}).content_hash
    page = Page(start=0, end=5, number=1)
    others = [
        Document(text="hello world", title="T"),
        Document(text="hello world", pages=(page,)),
        Document(text="hello world", blocks=(Block(start=0, end=5, kind="list"),)),
    ]
    assert len({plain.content_hash, *(other.content_hash for other in others)}) == 4


def test_numbers_of_rows_change_the_hash_only_where_there_are_some() -> None:
    def table(**numbers: tuple[int, ...]) -> Document:
        block = Block(start=0, end=5, kind="table", parts=(Span(0, 5),), **numbers)
        return Document(text="hello world", blocks=(block,))

    assert table().content_hash == "9830e972c32913fa61ead9c60d402124"  # of earlier versions
    numbered = table(numbers=(4,))
    assert numbered.content_hash != table().content_hash
    assert Document.model_validate_json(numbered.model_dump_json()) == numbered
    with pytest.raises(ValidationError, match="1 parts have 2 numbers"):
        table(numbers=(4, 5))


def test_structure_must_lie_in_the_text() -> None:
    with pytest.raises(ValidationError, match="heading 0-9 lies outside the text, which has 5"):
        Document(text="short", headings=(Heading(start=0, end=9, level=1, title="x"),))


def test_unknown_fields_are_refused_and_records_are_frozen() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Document.model_validate({"text": "x", "colour": "red"})
    with pytest.raises(ValidationError, match="frozen"):
        Document(text="x").text = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"a": float("nan")}, r"metadata\.a is nan"),
        ({"a": {"b": [1, 2**63]}}, r"metadata\.a\.b\[1\] is 9223372036854775808"),
        ({1: "x"}, "keys must be strings"),
        ({"a": b"x"}, r"metadata\.a is a bytes"),
    ],
)
def test_metadata_must_be_json(value: dict[Any, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Document(text="x", metadata=value)


def test_metadata_is_made_plain() -> None:
    document = Document(
        text="x",
        metadata={
            "day": date(2024, 1, 31),
            "moment": datetime(2024, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))),
            "tags": ("b", "a"),
            "set": {"b", "a"},
        },
    )
    assert document.metadata == {
        "day": "2024-01-31",
        "moment": "2024-01-31T10:00:00.000000Z",
        "tags": ["b", "a"],
        "set": ["a", "b"],
    }


@given(st.lists(st.datetimes(timezones=st.just(UTC)), min_size=2, max_size=2))
def test_iso_times_sort_as_times(moments: list[datetime]) -> None:
    one, two = moments
    assert (iso(one) < iso(two)) == (one < two)


def test_times_are_kept_in_utc() -> None:
    plus_two = timezone(timedelta(hours=2))
    document = Document(text="x", created_at=datetime(2024, 1, 1, 1, tzinfo=plus_two))
    assert document.created_at == datetime(2023, 12, 31, 23, tzinfo=UTC)
    assert Document(text="x", created_at=datetime(2024, 1, 1)).created_at is not None
    with pytest.raises(ValidationError, match="before year 1"):
        Document(text="x", created_at=datetime(1, 1, 1, tzinfo=plus_two))


def test_chunk_ids_depend_on_all_they_are_derived_from() -> None:
    document = Document(id="d", text="hello")
    span = Span(0, 5)
    ids = {
        chunk_id(document, "recursive:256/32", "flat", span),
        chunk_id(document, "recursive:256/0", "flat", span),
        chunk_id(document, "recursive:256/32", "parent", span),
        chunk_id(document, "recursive:256/32", "flat", Span(0, 4)),
        chunk_id(Document(id="e", text="hello"), "recursive:256/32", "flat", span),
        chunk_id(Document(id="d", text="other"), "recursive:256/32", "flat", span),
        chunk_id(Document(id="d", text="hello", collection="c"), "recursive:256/32", "flat", span),
    }
    assert len(ids) == 7


@pytest.mark.parametrize(
    ("title", "headings", "above"),
    [
        (None, (), ""),
        ("", (), ""),
        ("Book", (), "Book\n\n"),
        (None, ("Top", "Sub"), "Top > Sub\n\n"),
        ("Book", ("Top", "Sub"), "Book > Top > Sub\n\n"),
        ("Book", ("Book", "Sub"), "Book > Sub\n\n"),
    ],
)
def test_a_chunk_stands_under_its_title_and_headings(
    title: str | None, headings: tuple[str, ...], above: str
) -> None:
    assert in_context(title, "Text.", headings=headings) == f"{above}Text."
