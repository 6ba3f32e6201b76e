from __future__ import annotations

from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Chunk, Document
from lagotto.errors import FilterError
from lagotto.filters import RESERVED, FieldRef, field_ref


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        *((name, "text") for name in ["document_id", "collection", "kind", "source", "source_ref"]),
        *((name, "text") for name in ["title", "summary", "language", "content_hash"]),
        ("page", "number"),
        ("created_at", "time"),
        ("updated_at", "time"),
    ],
)
def test_reserved_fields_have_a_type_and_no_path(name: str, type_: str) -> None:
    field = field_ref(name)
    assert (field.name, field.path, field.type) == (name, None, type_)


def test_reserved_names_are_fields_of_the_records() -> None:
    known = {*Document.model_fields, *Chunk.model_fields, "page"}
    assert known >= set(RESERVED)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("author", ("author",)),
        ("author.name", ("author", "name")),
        (r"a\.b", ("a.b",)),
        (r"a\\.b", ("a\\", "b")),
        (r"a\\\.b", ("a\\.b",)),
        ("metadata.author", ("author",)),
        ("metadata.title", ("title",)),
        ("metadata", ("metadata",)),
        ("metadata.metadata.x", ("metadata", "x")),
        (r"metadata\.x", ("metadata.x",)),
        ("title.main", ("title", "main")),
        ("a b\n", ("a b\n",)),
        ("$ref", ("$ref",)),
    ],
)
def test_other_names_are_metadata_paths(name: str, path: tuple[str, ...]) -> None:
    field = field_ref(name)
    assert (field.path, field.type) == (path, "any")


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("metadata.author", "author"),
        ("metadata.title", "metadata.title"),
        ("metadata.metadata.x", "metadata.metadata.x"),
        (r"metadata.a\.b", r"a\.b"),
        ("$ref", "metadata.$ref"),
    ],
)
def test_a_field_has_one_canonical_name(name: str, canonical: str) -> None:
    assert field_ref(name).name == canonical


@given(st.lists(st.text(min_size=1), min_size=1).map(tuple))
def test_every_path_can_be_written(path: tuple[str, ...]) -> None:
    escaped = (key.replace("\\", r"\\").replace(".", r"\.") for key in path)
    field = field_ref("metadata." + ".".join(escaped))
    stored = tuple(key.replace("\0", "\ufffd") for key in path)
    assert field.path == stored
    assert field_ref(field.name) == field


def test_keys_are_cleaned_as_metadata_keys_are() -> None:
    document = Document(text="x", metadata={"a\0b": 1})
    assert field_ref("a\0b").path == tuple(document.metadata)


def test_enum_members_are_their_text() -> None:
    class Name(StrEnum):
        TITLE = "title"

    assert repr(field_ref(Name.TITLE)) == repr(FieldRef("title", None, "text"))


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "metadata.", "a\\", r"a\b", r"\$a"])
def test_malformed_names_are_errors(name: str) -> None:
    with pytest.raises(FilterError, match="not a field name"):
        field_ref(name)


def test_names_must_be_text() -> None:
    with pytest.raises(FilterError, match="must be text, not 7"):
        field_ref(7)  # type: ignore[arg-type]
