"""Payload conditions hold for all that a filter matches."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.filters import And, Contains, Eq, Exists, Filter, Gt, Gte, In, Lt, Ne, Not, Or, matches
from lagotto.indexes.base import START
from lagotto.indexes.qdrant import following
from lagotto.indexes.qdrant.filters import (
    FIELDS,
    LONGEST_KEYWORD,
    MOST_CONDITIONS,
    collections_of,
    field_payload,
    order_code,
    payload_name,
    superset_condition,
)
from lagotto.indexes.qdrant.points import by_keys, visible
from lagotto.indexes.qdrant.vectors import QdrantVectorIndex
from lagotto.indexes.registry import IndexSite
from lagotto.testing.indexes import DIMENSION, MemoryChangeLog, unit_vector
from lagotto.testing.strategies import FILTERS
from lagotto.testing.strategies import filterable_documents as documents
from tests.indexes.qdrant.payloads import NOT_SHRUNK, fields_of, meets

TEXTS = st.text(max_size=20) | st.text("019-./:T aZ", max_size=20)


def names_in(*payloads: dict[str, list[str] | list[float]]) -> frozenset[str]:
    return frozenset().union(*payloads)


@given(documents(), FILTERS)
def test_what_matches_meets_the_condition(document: Document, where: Filter) -> None:
    payload = field_payload(fields_of(document))
    condition = superset_condition(where, names_in(payload))
    if matches(where, document):
        assert meets(condition, {FIELDS: payload})


@given(TEXTS, TEXTS)
def test_order_codes_keep_the_order(one: str, other: str) -> None:
    less, more = sorted((one, other))
    assert order_code(less) <= order_code(more)
    assert order_code(more) < 2**53


def test_dates_have_an_order_by_day() -> None:
    days = ["2023-12-31", "2024-01-01", "2024-01-02", "2024-10-01", "2024-11-01T10:00:00Z"]
    codes = [order_code(day) for day in days]
    assert codes == sorted(set(codes))


@pytest.mark.parametrize(
    ("where", "sharp"),
    [
        (Eq("a", "x"), True),
        (Eq("a", 2), True),
        (Eq("a", True), True),
        (In("a", ["x", 3]), True),
        (Gte("a", 2), True),
        (Lt("a", -7.5), True),
        (Gt("a", "2024-01-01"), True),
        (Contains("a", 2), True),
        (And(Eq("a", "x"), Not(Eq("a", "y"))), True),
        (Or(Eq("a", "x"), Eq("a", 5)), True),
        (Or(Eq("a", "x"), Ne("a", 5)), False),
        (Contains("a", "x"), False),
        (Exists("a"), False),
        (Eq("a", None), False),
        (In("a", ["x", None]), False),
        (Eq("unknown", "x"), False),
    ],
)
def test_which_filters_have_a_condition(where: Filter, sharp: bool) -> None:
    known = frozenset(payload_name(kind, "a") for kind in ("k", "n", "o"))
    condition = superset_condition(where, known)
    assert (condition is not None) == sharp
    if sharp:
        assert not meets(condition, {FIELDS: field_payload({"a": ("1", -7, False)})})


def test_long_texts_and_extreme_numbers() -> None:
    text = "x" * (LONGEST_KEYWORD + 5)
    for value in (text, 2**63 - 1, -(2**63), 1.7976931348623157e308, 2**53 + 1, 0.1 + 0.2):
        payload = field_payload({"a": (value,)})
        for where in (Eq("a", value), Gte("a", value), In("a", [value, "other"])):
            assert meets(superset_condition(where, names_in(payload)), {FIELDS: payload})
    assert math.isfinite(order_code(text))


def test_names_that_a_server_would_read_as_paths() -> None:
    names = {payload_name("k", name) for name in ("a", "a.b", 'a"[]', "ä", "x" * 99, "A")}
    assert len(names) == 6
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzAk_-0123456789") for name in names)


@pytest.mark.parametrize(
    ("where", "known"),
    [
        (None, None),
        (Eq("collection", "a"), {"a"}),
        (In("collection", ["a", "b"]), {"a", "b"}),
        (And(In("collection", ["a", "b"]), Eq("collection", "b"), Eq("x", 1)), {"b"}),
        (Or(Eq("collection", "a"), Eq("collection", "b")), {"a", "b"}),
        (Or(Eq("collection", "a"), Eq("x", 1)), None),
        (Not(Eq("collection", "a")), None),
    ],
)
def test_collections_of_a_filter(where: Filter | None, known: set[str] | None) -> None:
    assert collections_of(where) == known


@settings(max_examples=12, phases=NOT_SHRUNK)
@given(corpus=st.lists(documents(), min_size=1, max_size=12), some=st.lists(FILTERS, max_size=12))
def test_the_server_finds_what_matches(
    qdrant_address: str, corpus: list[Document], some: list[Filter]
) -> None:
    site = IndexSite("f" * 32, timeout=20, address=qdrant_address)
    log = MemoryChangeLog()
    for number, document in enumerate(corpus):
        log.add("", unit_vector(number), fields=fields_of(document))
    index = QdrantVectorIndex(site, model_id="m", dimension=DIMENSION)
    index.catch_up(log)
    state = index.collections.current()
    assert state is not None
    assert state.position == log.head != START
    for where in some:
        condition = superset_condition(where, state.fields)
        asked = visible(state, condition, by_keys(range(1, 99)))
        points, _ = index.server.ask(
            lambda client, asked=asked: client.scroll(state.collection, asked, limit=99)  # type: ignore[misc]
        )
        right = {key for key, document in enumerate(corpus, 1) if matches(where, document)}
        assert right <= {point.id for point in points}
    index.delete()
    index.close()


@pytest.mark.parametrize(
    ("where", "sent"),
    [
        (In("a", [f"x{n}" for n in range(5_000)]), True),
        (In("a", range(MOST_CONDITIONS)), True),
        (In("a", range(MOST_CONDITIONS + 1)), False),
        (Or(*(And(Eq("a", n), Gt("a", n)) for n in range(MOST_CONDITIONS))), False),
    ],
)
def test_a_request_has_a_limited_number_of_conditions(where: Filter, sent: bool) -> None:
    payload = field_payload({"a": ("x1", 7)})
    condition = superset_condition(where, names_in(payload))
    assert (condition is not None) is sent
    assert meets(condition, {FIELDS: payload})


def test_no_more_fields_are_indexed_than_wanted(
    site: IndexSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MOST_FIELDS", 5)
    log = MemoryChangeLog()
    log.add("", unit_vector(1), fields={f"n{number}": (number,) for number in range(4)})
    log.add("", unit_vector(2), fields={f"n{number}": (number,) for number in range(8)})
    index = QdrantVectorIndex(site, model_id="m", dimension=DIMENSION)
    index.catch_up(log)
    state = index.collections.current()
    assert state is not None
    assert len(state.fields) == 5
    index.close()
