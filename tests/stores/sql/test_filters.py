"""Filters as SQL mean what the evaluator says, for every operator, field and kind of value."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest

from lagotto.documents import Document, JsonScalar, Page
from lagotto.filters import (
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    Gt,
    Gte,
    In,
    Lt,
    Lte,
    Ne,
    Not,
    NotIn,
    Or,
    matches,
)
from lagotto.stores.sql import filters as sql_filters
from lagotto.stores.sql.filters import concerns_chunks
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.stores import CHUNKER, EMBEDDER, entries
from tests.stores.sqlite.bases import sqlite_store

TEXT = "some text"


def document(number: int, *, pages: tuple[int, ...] = (), **fields: object) -> Document:
    spans = tuple(Page(number=page, start=0, end=len(TEXT)) for page in pages)
    return Document.model_validate({"id": f"d{number}", "text": TEXT, "pages": spans, **fields})


DOCUMENTS = [
    document(0),
    document(1, title="Oak", pages=(1,), metadata={"a": 1, "tags": ["x", "y"]}),
    document(2, title="The oak", pages=(2, 3), metadata={"a": 2, "name": "xy", "on": True}),
    document(3, title="", pages=(1, 2, 3, 4), metadata={"a": 2.5, "name": "yx", "on": False}),
    document(4, metadata={"a": "2", "tags": [1, 2], "deep": {"b": 1}, "name": "x"}),
    document(5, metadata={"a": [2, "y"], "deep": {"b": "x"}, "tags": [], "on": 1}),
    document(6, metadata={"a": None, "name": ["xy"], "deep": "x"}, created_at="2024-01-01"),
    document(7, metadata={"a": -1, "tags": "x"}, created_at=datetime(2024, 6, 1, tzinfo=UTC)),
    document(8, pages=(1, 2, 3)),
]
NUMBERS: tuple[JsonScalar, ...] = (1, 2, 2.0, 2.5, -1)
TEXTS: tuple[JsonScalar, ...] = ("x", "y", "xy", "2", "Oak", "oak", "")
VALUES: dict[str, tuple[JsonScalar, ...]] = {
    "a": NUMBERS + TEXTS,
    "tags": NUMBERS + TEXTS,
    "name": TEXTS,
    "on": (True, False, 1),
    "deep.b": (1, "x"),
    "nowhere": (1, "x"),
    "title": TEXTS,
    "page": NUMBERS,
    "created_at": ("2024-01-01", "2024-03-01", "2024-06-01T00:00:00Z"),
}


def filters() -> list[Filter]:
    """Every operator on every field, and what combines them."""
    found: list[Filter] = [And(), Or(), And(Eq("a", 2), Exists("on")), Or(Eq("a", 1), Eq("a", -1))]
    for name, values in VALUES.items():
        found += [Exists(name), Not(Exists(name)), Eq(name, None), Ne(name, None)]
        found += [
            In(name, values),
            NotIn(name, values[:2]),
            In(name, [None, values[0]]),
            In(name, []),
            *(In(name, [value]) for value in values),
        ]
        for kind, value in product((Eq, Ne, Gt, Gte, Lt, Lte, Contains), values):
            ordered = kind in (Eq, Ne, Contains) or not isinstance(value, bool)
            if ordered and not (kind is Contains and name == "created_at"):
                found += [kind(name, value), Not(kind(name, value))]
    return found


async def found(store: SqliteStore, where: Filter) -> set[str]:
    """The documents of the chunks that a search sees."""
    (vector,) = await EMBEDDER.embed([TEXT], role="query")
    async with store.view(where) as view:
        hits = await view.semantic(vector, k=10)
        return {passage.document.id for passage in await view.passages(hits.keys)}


def allowed(where: Filter) -> set[str]:
    """Those that the evaluator allows."""
    return {each.id for each in DOCUMENTS if matches(where, each, CHUNKER.chunk(each)[0])}


async def test_every_filter_lets_through_what_the_evaluator_says() -> None:
    async with sqlite_store() as store:
        await store.write(await entries(DOCUMENTS))
        for where in filters():
            listed = [each.id async for each in store.documents(where)]
            assert listed == [each.id for each in DOCUMENTS if matches(where, each)], where
            if concerns_chunks(where):
                assert await found(store, where) == allowed(where), where


@pytest.mark.parametrize(("at_once", "deep"), [(2, 16), (200, 1)])
async def test_filters_asked_for_in_parts(
    monkeypatch: pytest.MonkeyPatch, at_once: int, deep: int
) -> None:
    monkeypatch.setattr(sql_filters, "AT_ONCE", at_once)
    monkeypatch.setattr(sql_filters, "DEEP", deep)
    either = Or(Gt("a", 1), Not(And(Exists("name"), Gt("a", 0))), Contains("name", "x"))
    pairs = Or(And(Gt("a", 1), Exists("name")), And(Lt("a", 1), Exists("tags")))
    of_chunks = (And(either, Gt("page", 1)), Or(either, Lt("page", 2)))
    async with sqlite_store() as store:
        await store.write(await entries(DOCUMENTS))
        for where in (pairs, either, Not(either), *of_chunks):
            assert await found(store, where) == allowed(where), where
