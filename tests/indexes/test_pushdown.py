"""Conditions hold for all that a filter matches, in every service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lagotto.documents import Document, JsonScalar, iso
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
    Ne,
    Not,
    NotIn,
    Or,
    matches,
)
from lagotto.indexes import pinecone
from lagotto.indexes.base import ChunkFields
from lagotto.indexes.pushdown import (
    CROWDED,
    LONGEST_KEYWORD,
    MOST_BYTES,
    MOST_CONDITIONS,
    MOST_VALUES,
    AnyOf,
    Condition,
    Joined,
    Payload,
    collections_of,
    order_code,
    payload,
    payload_name,
    superset_condition,
)
from lagotto.indexes.qdrant.driver import condition, open_qdrant_vectors, visible
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import STATE_JSON
from lagotto.stores.sql.read import attribute_rows
from lagotto.testing.indexes import DIMENSION, MemoryChangeLog, unit_vector
from lagotto.testing.strategies import FILTERS, documents
from tests.servers.pinecone import MOST_METADATA
from tests.servers.pinecone import holds as pinecone_holds

TEXTS = st.text(max_size=20) | st.text("019-./:T aZ", max_size=20)


def holds(where: Condition, stored: Payload) -> bool:
    """What a condition means."""
    if isinstance(where, Joined):
        found = (holds(part, stored) for part in where.parts)
        return all(found) if where.operator == "and" else any(found)
    values = stored.get(where.name, [])
    if isinstance(where, AnyOf):
        return not set(where.keywords).isdisjoint(values)
    least, most = where.least, where.most
    numbers = [value for value in values if isinstance(value, float)]
    return any((least is None or n >= least) and (most is None or n <= most) for n in numbers)


def holds_in_pinecone(where: Condition, stored: Payload) -> bool:
    return pinecone_holds(pinecone.condition(where), pinecone.metadata(stored))


BOTH = pytest.mark.parametrize("service", [holds, holds_in_pinecone])
Service = Callable[[Condition, Payload], bool]


def fields_of(document: Document) -> dict[str, tuple[JsonScalar, ...]]:
    """The fields of a document as a change log tells them."""
    values: dict[str, list[JsonScalar]] = defaultdict(list)
    for row in attribute_rows(1, document):
        if row["kind"] == "text":
            values[row["field"]].append(row["text_value"])
        elif row["kind"] == "boolean":
            values[row["field"]].append(bool(row["number_value"]))
        elif row["kind"] == "number":
            values[row["field"]].append(row["number_value"])
    if document.title is not None:
        values["title"] = [document.title]
    if document.created_at is not None:
        values["created_at"] = [iso(document.created_at)]
    if document.pages:
        values["page"] = [page.number for page in document.pages]
    return {name: tuple(some) for name, some in values.items()}


def stored(**values: tuple[JsonScalar, ...]) -> Payload:
    return payload(ChunkFields(1, "default", values))


@BOTH
@given(where=FILTERS, document=documents())
def test_what_matches_meets_the_condition(
    service: Service, where: Filter, document: Document
) -> None:
    made = payload(ChunkFields(1, document.collection, fields_of(document)))
    asked = superset_condition(where, frozenset(made))
    if asked is not None and matches(where, document):
        assert service(asked, made)


@settings(max_examples=12, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(corpus=st.lists(documents(), min_size=1, max_size=12), some=st.lists(FILTERS, max_size=12))
def test_a_qdrant_server_finds_what_matches(
    qdrant_address: str, corpus: list[Document], some: list[Filter]
) -> None:
    """Not made smaller when it fails: that takes minutes with a server."""
    site = IndexSite("f" * 32, timeout=20, address=qdrant_address)
    log = MemoryChangeLog()
    for number, document in enumerate(corpus):
        log.add("", unit_vector(number), fields=fields_of(document))
    index = open_qdrant_vectors(site, model_id="m", dimension=DIMENSION)
    driver = index.driver
    index.catch_up(log)
    state = STATE_JSON.validate_json(driver.read_state(briefly=False) or "")
    for where in some:
        asked = superset_condition(where, state.fields)
        meets = visible(state, None if asked is None else condition(asked))
        pages = driver.pages(state, meets, size=99)  # type: ignore[attr-defined]
        right = {key for key, document in enumerate(corpus, 1) if matches(where, document)}
        assert right <= {key for keys in pages for key in keys.tolist()}
    index.delete()
    index.close()


@BOTH
@pytest.mark.parametrize(
    ("where", "fields", "held"),
    [
        (Eq("a", 1), {"a": (1,)}, True),
        (Eq("a", 1), {"a": (1.0, "x")}, True),
        (Eq("a", 1), {"a": ("1",)}, False),
        (Eq("a", True), {"a": (1, False)}, False),
        (Eq("a", True), {"a": (True,)}, True),
        (Eq("a", "x" * 100), {"a": ("x" * 100,)}, True),
        (Eq("a.b c", 0), {"a.b c": (-0.0,)}, True),
        (Contains("a", 2), {"a": (2,)}, True),
        (In("a", [1, "x"]), {"a": ("y", "x")}, True),
        (In("a", [1, "x"]), {"a": ("y", 2)}, False),
        (Gt("a", 2), {"a": (1, 3)}, True),
        (Gt("a", 2), {"a": (1,)}, False),
        (Gt("a", 2**53), {"a": (2**53 + 1,)}, True),
        (Gte("a", 1.7976931348623157e308), {"a": (1.7976931348623157e308,)}, True),
        (Lt("a", 2**63 - 1), {"a": (2**63 - 2,)}, True),
        (Lt("a", 2), {"a": ("1", 3)}, False),
        (Gt("a", "2024-01-01"), {"a": ("2024-01-02",)}, True),
        (Gt("a", "2024-01-01"), {"a": ("2023-12-31",)}, False),
        (Eq("created_at", "2024-01-01"), {"created_at": ("2024-01-01T00:00:00.000000Z",)}, True),
        (And(Eq("a", 1), Ne("b", 1)), {"a": (1,), "b": (1,)}, True),
        (And(Eq("a", 1), Eq("b", 1)), {"a": (1,), "b": (2,)}, False),
        (Or(Eq("a", 1), Eq("b", 1)), {"a": (2,), "b": (1,)}, True),
        (Or(Eq("a", 1), Eq("b", 1)), {"a": (2,), "b": (2,)}, False),
    ],
)
def test_conditions_select(
    service: Service, where: Filter, fields: dict[str, tuple[JsonScalar, ...]], held: bool
) -> None:
    made = stored(**fields)
    names = {payload_name(kind, field) for field in ("a", "b") for kind in ("k", "n", "o")}
    asked = superset_condition(where, frozenset(made) | names)
    assert asked is not None
    assert service(asked, made) == held


@pytest.mark.parametrize(
    "where",
    [
        None,
        Ne("a", 1),
        Not(Eq("a", 1)),
        Exists("a"),
        Contains("a", "x"),
        Eq("a", None),
        In("a", ["x", None]),
        In("a", []),
        Eq("unknown", "x"),
        Or(Eq("a", 1), Exists("b")),
        Or(Eq("a", "x"), Ne("a", 5)),
        And(),
        Or(),
        In("a", range(MOST_CONDITIONS + 1)),
        In("a", [f"x{n}" for n in range(MOST_VALUES + 1)]),
        Or(*(And(Eq("a", n), Gt("a", n)) for n in range(MOST_CONDITIONS))),
    ],
)
def test_what_a_service_can_t_decide_is_left_to_the_record(where: Filter | None) -> None:
    assert superset_condition(where, frozenset(stored(a=("x1", 7)))) is None


@pytest.mark.parametrize(
    "where", [In("a", [f"x{n}" for n in range(MOST_VALUES)]), In("a", range(MOST_CONDITIONS))]
)
def test_many_values(where: Filter) -> None:
    made = stored(a=("x1", 7))
    asked = superset_condition(where, frozenset(made))
    assert asked is not None
    assert holds(asked, made)


@BOTH
def test_a_chunk_with_too_many_values_meets_every_condition(service: Service) -> None:
    crowded = stored(tags=tuple(f"tag {n} {'x' * 50}" for n in range(1_000)))
    assert crowded.keys() == {CROWDED}
    other = stored(tags=("other",))
    asked = superset_condition(Eq("tags", "tag 1"), frozenset({*crowded, *other}))
    assert asked is not None
    assert service(asked, crowded)
    assert not service(asked, other)
    assert MOST_BYTES < MOST_METADATA


COLLECTIONS = st.sampled_from("abc")
ABOUT_COLLECTIONS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of(
        st.builds(Eq, st.just("collection"), COLLECTIONS),
        st.builds(Ne, st.just("collection"), COLLECTIONS),
        st.builds(In, st.just("collection"), st.lists(st.none() | COLLECTIONS, max_size=3)),
        st.builds(NotIn, st.just("collection"), st.lists(COLLECTIONS, max_size=3)),
        st.just(Exists("collection")),
        st.just(Eq("x", 1)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: And(*parts)),
        st.lists(inner, max_size=3).map(lambda parts: Or(*parts)),
        inner.map(Not),
    ),
    max_leaves=5,
)


@given(ABOUT_COLLECTIONS, COLLECTIONS, st.integers(0, 1))
def test_no_match_is_in_another_collection(where: Filter, collection: str, x: int) -> None:
    document = Document(text="some", collection=collection, metadata={"x": x})
    known = collections_of(where)
    if known is not None and matches(where, document):
        assert collection in known


@pytest.mark.parametrize(
    ("where", "known"),
    [
        (None, None),
        (Eq("collection", "a"), {"a"}),
        (Eq("collection", None), set()),
        (Ne("collection", "a"), None),
        (In("collection", ["a", "b"]), {"a", "b"}),
        (And(In("collection", ["a", "b"]), Eq("collection", "b"), Eq("x", 1)), {"b"}),
        (Or(Eq("collection", "a"), Eq("collection", "b")), {"a", "b"}),
        (Or(Eq("collection", "a"), Eq("x", 1)), None),
        (Not(Eq("collection", "a")), None),
    ],
)
def test_collections_of_a_filter(where: Filter | None, known: set[str] | None) -> None:
    assert collections_of(where) == known


@given(TEXTS, TEXTS)
def test_order_codes_keep_the_order(one: str, other: str) -> None:
    less, more = sorted((one, other))
    assert order_code(less) <= order_code(more)
    assert order_code(more) < 2**53


def test_dates_have_an_order_by_day() -> None:
    days = ["2023-12-31", "2024-01-01", "2024-01-02", "2024-10-01", "2024-11-01T10:00:00Z"]
    codes = [order_code(day) for day in days]
    assert codes == sorted(set(codes))


def test_names_and_texts_that_a_service_would_not_take() -> None:
    names = {payload_name("k", name) for name in ("a", "a.b", 'a"[]', "ä", "x" * 99, "A")}
    assert len(names) == 6
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzAk_0123456789") for name in names)
    assert stored(a=("x" * 99,))["k_a"] == ["t" + "x" * LONGEST_KEYWORD]
