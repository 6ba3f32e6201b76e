"""What holds for every filter and every document."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document, Page, json_value
from lagotto.errors import FilterError
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
    field_ref,
    fields,
    matches,
    parse_filter,
)
from lagotto.filters.operands import Operand

# Few values, so that filters and documents often meet.
KEYS = ["a", "b", "title", "metadata", "x.y", "$c"]
NAMES = ["a", "b", "a.b", "a.a.b", "metadata.title", "metadata.metadata.a", r"x\.y", "$c"]
NAMES += ["page", "title", "created_at"]
FORM_KEYS = ["a", "title", "page", "$and", "$or", "$not", "$eq", "$gt", "$in", "$exists", "$x"]
NUMBERS = st.sampled_from([0, 1, -1, 2, 1.0, 0.5, 2**53, 2**53 + 1, float(2**53)])
TEXTS = st.sampled_from(["", "a", "A", "ab", "b", "ä", "1", "true", "2024-01-01", "\U0001f600"])
SCALARS = st.one_of(NUMBERS, TEXTS, st.booleans())
DATES = st.sampled_from([date(2024, 1, 1), datetime(2024, 1, 1), datetime(2023, 6, 5, 4, 3)])

VALUES: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), SCALARS, DATES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = "some text"
    numbers = draw(st.lists(st.integers(1, 3), max_size=2))
    return Document(
        text=text,
        title=draw(st.none() | TEXTS),
        created_at=draw(st.none() | st.just(datetime(2024, 1, 1, tzinfo=UTC))),
        pages=tuple(Page(number=number, start=0, end=len(text)) for number in numbers),
        metadata=draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)),
    )


def operands(name: str) -> st.SearchStrategy[Operand]:
    by_field: dict[str, st.SearchStrategy[Operand]] = {
        "page": NUMBERS,
        "title": TEXTS,
        "created_at": DATES,
    }
    return by_field.get(name, st.one_of(SCALARS, DATES))


def leaves(name: str) -> st.SearchStrategy[Filter]:
    operand = operands(name)
    ordered = operand.filter(lambda value: not isinstance(value, bool))
    several = st.lists(st.none() | operand, max_size=3)
    kinds: list[st.SearchStrategy[Filter]] = [
        *(st.builds(node, st.just(name), st.none() | operand) for node in (Eq, Ne)),
        *(st.builds(node, st.just(name), ordered) for node in (Gt, Gte, Lt, Lte)),
        *(st.builds(node, st.just(name), several) for node in (In, NotIn)),
        st.just(Exists(name)),
    ]
    if name != "created_at":
        kinds.append(st.builds(Contains, st.just(name), operand))
    return st.one_of(kinds)


def combined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(inner, max_size=3)
    return st.one_of(
        several.map(lambda parts: And(*parts)),
        several.map(lambda parts: Or(*parts)),
        inner.map(Not),
    )


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of([leaves(name) for name in NAMES]), combined, max_leaves=4
)
PATHS = st.sampled_from([name for name in NAMES if field_ref(name).path])


@given(FILTERS, documents())
def test_not_is_the_complement(root: Filter, document: Document) -> None:
    assert matches(~root, document) is not matches(root, document)
    assert matches(~~root, document) is matches(root, document)


@given(FILTERS, FILTERS, documents())
def test_de_morgan(left: Filter, right: Filter, document: Document) -> None:
    assert matches(~(left & right), document) is matches(~left | ~right, document)
    assert matches(~(left | right), document) is matches(~left & ~right, document)


@given(st.data(), st.lists(FILTERS, max_size=4), documents())
def test_order_is_irrelevant(data: st.DataObject, parts: list[Filter], document: Document) -> None:
    shuffled = data.draw(st.permutations(parts))
    assert matches(And(*parts), document) is matches(And(*shuffled), document)
    assert matches(Or(*parts), document) is matches(Or(*shuffled), document)


@given(PATHS, st.none() | SCALARS | DATES, documents())
def test_ne_is_not_eq(name: str, value: Operand, document: Document) -> None:
    assert matches(Ne(name, value), document) is matches(Not(Eq(name, value)), document)


@given(PATHS, st.lists(st.none() | SCALARS | DATES, max_size=3), documents())
def test_in_is_eq_with_one_of_them(name: str, values: list[Operand], document: Document) -> None:
    any_equal = Or(*(Eq(name, value) for value in values))
    assert matches(In(name, values), document) is matches(any_equal, document)
    assert matches(NotIn(name, values), document) is matches(Not(any_equal), document)


@given(PATHS, NUMBERS | TEXTS | DATES, documents())
def test_orderings_fit_together(name: str, value: Operand, document: Document) -> None:
    equal = Eq(name, value)
    assert matches(Gte(name, value), document) is matches(Gt(name, value) | equal, document)
    assert matches(Lte(name, value), document) is matches(Lt(name, value) | equal, document)


@given(PATHS, NUMBERS | TEXTS | DATES, documents())
def test_what_compares_exists(name: str, value: Operand, document: Document) -> None:
    compared = Or(Eq(name, value), Lt(name, value), Gt(name, value), Contains(name, value))
    assert matches(Exists(name), document) or not matches(compared, document)
    assert matches(Exists(name), document) is matches(Ne(name, None), document)


@given(FILTERS)
def test_json_round_trip(root: Filter) -> None:
    form = root.to_json()
    again = parse_filter(json.dumps(form))
    assert again == root == parse_filter(form)
    assert again.to_json() == form
    assert fields(again) == fields(root)


@given(FILTERS)
def test_repr_round_trip(root: Filter) -> None:
    assert eval(repr(root)) == root


@given(st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from(FORM_KEYS), inner)))
def test_any_json_is_parsed_or_refused(value: object) -> None:
    try:
        root = parse_filter(json.dumps(json_value(value)))
    except FilterError:
        return
    assert parse_filter(root.to_json()) == root
