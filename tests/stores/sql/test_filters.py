"""Filters as SQL mean what the evaluator says, for every operator, field and kind of value."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from pathlib import Path

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


async def test_every_filter_lets_through_what_the_evaluator_says(tmp_path: Path) -> None:
    (vector,) = await EMBEDDER.embed([TEXT], role="query")
    chunks = {each.id: CHUNKER.chunk(each)[0] for each in DOCUMENTS}
    store = SqliteStore(tmp_path / "kb.db")
    await store.open()
    await store.write(await entries(DOCUMENTS))
    for where in filters():
        listed = [each.id async for each in store.documents(where)]
        assert listed == [each.id for each in DOCUMENTS if matches(where, each)], where
        if not concerns_chunks(where):
            continue
        allowed = {each.id for each in DOCUMENTS if matches(where, each, chunks[each.id])}
        async with store.view(where) as view:
            hits = await view.semantic(vector, k=10)
            found = {passage.document.id for passage in await view.passages(hits.keys)}
            assert found == allowed, where
    await store.close()


@pytest.mark.parametrize(("at_once", "deep"), [(2, 16), (200, 1)])
async def test_filters_asked_for_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, deep: int
) -> None:
    monkeypatch.setattr(sql_filters, "AT_ONCE", at_once)
    monkeypatch.setattr(sql_filters, "DEEP", deep)
    either = Or(Gt("a", 1), Not(And(Exists("name"), Gt("a", 0))), Contains("name", "x"))
    pairs = Or(And(Gt("a", 1), Exists("name")), And(Lt("a", 1), Exists("tags")))
    (vector,) = await EMBEDDER.embed([TEXT], role="query")
    chunks = {each.id: CHUNKER.chunk(each)[0] for each in DOCUMENTS}
    store = SqliteStore(tmp_path / "kb.db")
    await store.open()
    await store.write(await entries(DOCUMENTS))
    for where in (
        pairs,
        either,
        Not(either),
        And(either, Gt("page", 1)),
        Or(either, Lt("page", 2)),
    ):
        allowed = {each.id for each in DOCUMENTS if matches(where, each, chunks[each.id])}
        async with store.view(where) as view:
            found = await view.passages((await view.semantic(vector, k=10)).keys)
        assert {passage.document.id for passage in found} == allowed, where
    await store.close()
