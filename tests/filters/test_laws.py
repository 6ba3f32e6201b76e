"""What holds for every filter and every document."""

from __future__ import annotations

import copy
import json
import pickle
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document, json_value
from lagotto.errors import FilterError
from lagotto.filters import (
    MAX_CONDITIONS,
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
    Operand,
    Or,
    field_ref,
    fields,
    matches,
    merged,
    parse_filter,
)
from lagotto.testing.strategies import (
    DATES,
    FILTERS,
    NAMES,
    NUMBERS,
    SCALARS,
    TEXTS,
    VALUES,
)
from lagotto.testing.strategies import filterable_documents as documents

FORM_KEYS = ["a", "title", "page", "$and", "$or", "$not", "$eq", "$gt", "$in", "$exists", "$x"]
FORMS = partial(st.dictionaries, st.sampled_from(FORM_KEYS))
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
def test_filters_are_printed_copied_pickled_and_hashed(root: Filter) -> None:
    """They are printed as the call that makes them."""
    assert eval(repr(root)) == root
    assert pickle.loads(pickle.dumps(root)) == copy.deepcopy(root) == root
    assert len({root, copy.copy(root)}) == 1


@given(st.recursive(VALUES, FORMS, max_leaves=20))
def test_any_json_is_parsed_or_refused(value: object) -> None:
    try:
        root = parse_filter(json.dumps(json_value(value)))
    except FilterError:
        return
    assert parse_filter(root.to_json()) == root


@given(st.lists(FILTERS, max_size=6), documents(), st.sampled_from([And, Or]))
def test_merged_means_the_same(
    parts: list[Filter], document: Document, junction: type[And | Or]
) -> None:
    for root in (junction(*parts), Not(junction(*parts, junction(*parts)))):
        short = merged(root)
        assert matches(short, document) is matches(root, document)
        assert merged(short) == short


def test_alternatives_and_exclusions_are_merged() -> None:
    many = range(2 * MAX_CONDITIONS)
    assert merged(Or(*(Eq("a", n) for n in many))) == In("a", many)
    assert merged(And(*(Ne("a", n) for n in many))) == NotIn("a", many)
    nested = Or(Eq("a", 1), Or(In("a", [2, None]), Or(Eq("b", 3), Gt("c", 4))))
    assert merged(nested) == Or(Gt("c", 4), In("a", [1, 2, None]), Eq("b", 3))
    apart = And(Eq("a", 1), Eq("a", 2))  # of a list, each may be met by another element
    assert merged(apart) == apart
