"""A condition holds for every chunk that its filter matches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from lagotto.documents import Document, JsonScalar
from lagotto.filters import And, Contains, Eq, Exists, Filter, Gt, In, Lt, Ne, Not, Or, matches
from lagotto.indexes.base import ChunkFields
from lagotto.indexes.pinecone import CROWDED, collections_of, condition, metadata_of
from lagotto.stores.sql.read import attribute_rows
from lagotto.testing.strategies import FILTERS
from lagotto.testing.strategies import filterable_documents as documents
from tests.servers.pinecone import MOST_METADATA, holds


def fields_of(document: Document) -> ChunkFields:
    values: dict[str, tuple[JsonScalar, ...]] = {"collection": (document.collection,)}
    if document.title is not None:
        values["title"] = (document.title,)
    if document.pages:
        values["page"] = tuple(page.number for page in document.pages)
    for row in attribute_rows(1, document):
        value = row["text_value"] if row["kind"] == "text" else row["number_value"]
        value = bool(value) if row["kind"] == "boolean" else value
        if row["kind"] != "group":
            values[row["field"]] = (*values.get(row["field"], ()), value)
    return ChunkFields(1, document.collection, values)


@given(FILTERS, documents())
def test_a_condition_is_a_superset(where: Filter, document: Document) -> None:
    asked = condition(where)
    if asked is not None and matches(where, document):
        assert holds(asked, metadata_of(fields_of(document)))


@pytest.mark.parametrize(
    ("where", "fields", "held"),
    [
        (Eq("a", 1), {"a": (1,)}, True),
        (Eq("a", 1), {"a": (1.0, "x")}, True),
        (Eq("a", 1), {"a": ("1",)}, False),
        (Eq("a", True), {"a": (1,)}, False),
        (Eq("a", "x" * 100), {"a": ("x" * 100,)}, True),
        (Eq("a", "x" * 100), {"a": ("x" * 99,)}, False),
        (Eq("a.b c", 0), {"a.b c": (-0.0,)}, True),
        (In("a", [1, "x"]), {"a": ("y", "x")}, True),
        (In("a", [1, "x"]), {"a": ("y",)}, False),
        (Gt("a", 2), {"a": (1, 3)}, True),
        (Gt("a", 2), {"a": (1,)}, False),
        (Gt("a", 2**53), {"a": (2**53 + 1,)}, True),
        (Lt("a", 2**63 - 1), {"a": (2**63 - 2,)}, True),
        (Lt("a", 2), {"a": ("1",)}, False),
        (And(Eq("a", 1), Ne("b", 1)), {"a": (1,)}, True),
        (And(Eq("a", 1), Eq("b", 1)), {"a": (1,), "b": (2,)}, False),
        (Or(Eq("a", 1), Eq("b", 1)), {"b": (1,)}, True),
        (Or(Eq("a", 1), Eq("b", 1)), {"b": (2,)}, False),
    ],
)
def test_conditions_select(
    where: Filter, fields: dict[str, tuple[JsonScalar, ...]], held: bool
) -> None:
    asked = condition(where)
    assert asked is not None
    assert holds(asked, metadata_of(ChunkFields(1, "default", fields))) == held


@pytest.mark.parametrize(
    "where",
    [
        Ne("a", 1),
        Not(Eq("a", 1)),
        Exists("a"),
        Contains("a", "x"),
        Eq("a", None),
        In("a", ["x", None]),
        In("a", []),
        In("a", range(2_000)),
        Gt("a", "x"),
        Eq("created_at", "2024-01-01"),
        Or(Eq("a", 1), Exists("b")),
        And(),
        Or(),
    ],
)
def test_what_the_service_can_t_decide_is_left_to_the_record(where: Filter) -> None:
    assert condition(where) is None


def test_a_chunk_with_too_much_metadata_is_held_by_every_condition() -> None:
    much = ChunkFields(1, "default", {"tags": tuple(f"tag {n} {'x' * 50}" for n in range(1_000))})
    made = metadata_of(much)
    assert made == CROWDED
    asked = condition(Eq("tags", "tag 1"), crowded=True)
    assert asked is not None
    assert holds(asked, made)
    assert not holds(asked, metadata_of(ChunkFields(2, "default", {"tags": ("other",)})))
    some = ChunkFields(1, "default", {"tags": tuple(f"tag {n} {'x' * 50}" for n in range(550))})
    assert 30_000 < len(json.dumps(metadata_of(some))) < MOST_METADATA


def test_the_collections_of_a_filter() -> None:
    first, other = Eq("collection", "a"), In("collection", ["a", "b"])
    assert collections_of(first) == frozenset("a")
    assert collections_of(And(Eq("x", 1), other)) == frozenset("ab")
    assert collections_of(And(first, other)) == frozenset("a")
    assert collections_of(Or(first, Eq("x", 1))) is None
    assert collections_of(Ne("collection", "a")) is None
    assert collections_of(Eq("collection", None)) is None
