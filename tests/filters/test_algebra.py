from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum

import pytest

from lagotto.errors import FilterError
from lagotto.filters import (
    MAX_DEPTH,
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
    conditions,
    fields,
)
from lagotto.filters.algebra import Operand

EACH: list[Filter] = [
    Eq("a", 1),
    Ne("a", None),
    Gt("a.b", 1.5),
    Gte("title", "M"),
    Lt("page", 3),
    Lte("created_at", date(2024, 1, 31)),
    In("a", [1, "x", None, True]),
    NotIn("a", []),
    Contains("tags", "x"),
    Exists("a"),
    And(Eq("a", 1), Or(), Eq("b", 2)),
    Or(Eq("a", 1)),
    Not(And()),
]


@pytest.mark.parametrize("node", EACH, ids=repr)
def test_a_filter_prints_as_the_call_that_makes_it(node: Filter) -> None:
    assert eval(repr(node)) == node


@pytest.mark.parametrize("node", EACH, ids=repr)
def test_filters_can_be_copied_pickled_and_hashed(node: Filter) -> None:
    assert pickle.loads(pickle.dumps(node)) == node
    assert copy.deepcopy(node) == node
    assert len({node, copy.copy(node)}) == 1


def test_filters_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        Eq("a", 1).value = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        And().filters = ()  # type: ignore[misc]


def test_equality_tells_types_and_operators_apart() -> None:
    assert Eq("a", 1) == Eq("metadata.a", 1)
    assert Eq("a", 1) != Eq("a", True)
    assert Eq("a", 1) != Ne("a", 1)
    assert Eq("title", "x") != Eq("metadata.title", "x")
    assert In("a", [1]) != In("a", [True])
    assert len({Eq("a", 1), Eq("a", True), Eq("a", "1")}) == 3


def test_operators_build_flat_trees() -> None:
    a, b, c = Eq("a", 1), Eq("b", 2), Eq("c", 3)
    assert a & b & c == And(a, b, c) == a & (b & c)
    assert a | b | c == Or(a, b, c)
    assert (a | b) & ~c == And(Or(a, b), Not(c))
    many = And()
    for year in range(1000):
        many = many & Ne("year", year)
    assert len(many.filters) == 1000


def test_compilers_can_match_on_nodes() -> None:
    match Gte("author.age", 18):
        case Gte(field, value):
            assert (field.path, value) == (("author", "age"), 18)
    match In("a", [1, 2]):
        case In(_, values):
            assert values == (1, 2)
    match ~Exists("a"):
        case Not(Exists(field)):
            assert field.name == "a"


def test_fields_and_conditions() -> None:
    tree = And(Eq("a", 1), Or(Exists("metadata.title"), Not(Lt("title", "x"))), Ne("metadata.a", 2))
    assert fields(tree) == {"a", "metadata.title", "title"}
    assert list(conditions(tree)) == [
        Eq("a", 1),
        Exists("metadata.title"),
        Lt("title", "x"),
        Ne("a", 2),
    ]
    assert fields(And()) == set()


class Level(StrEnum):
    HIGH = "high"


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("a", date(2024, 1, 31), "2024-01-31"),
        ("a", datetime(2024, 1, 31, 12, 30), "2024-01-31T12:30:00.000000Z"),
        ("a", "2024-01-31 12:30", "2024-01-31 12:30"),
        ("created_at", "2024-01-31", "2024-01-31T00:00:00.000000Z"),
        ("created_at", date(2024, 1, 31), "2024-01-31T00:00:00.000000Z"),
        ("created_at", datetime(2024, 1, 31, tzinfo=UTC), "2024-01-31T00:00:00.000000Z"),
        ("created_at", "2024-01-31T12:30", "2024-01-31T12:30:00.000000Z"),
        ("updated_at", "2024-01-31T12:30:00+02:00", "2024-01-31T10:30:00.000000Z"),
        ("a", "nul\0", "nul\ufffd"),
        ("a", Level.HIGH, "high"),
    ],
)
def test_operands_are_made_plain(field: str, given: Operand, kept: str) -> None:
    for node in (Eq(field, given), Gt(field, given)):
        assert type(node.value) is str
        assert node.value == kept
    assert In(field, [given]).values == (kept,)


def test_sets_are_put_in_order() -> None:
    assert In("a", {"x", "z", "y"}) == In("a", ["x", "y", "z"])
    assert In("a", range(3)) == In("a", iter([0, 1, 2]))


@pytest.mark.parametrize("ordering", [Gt, Gte, Lt, Lte])
@pytest.mark.parametrize("value", [True, None])
def test_booleans_and_none_have_no_order(ordering: type[Gt], value: bool | None) -> None:
    with pytest.raises(FilterError, match=f"'a': {value} has no order"):
        ordering("a", value)


@pytest.mark.parametrize("comparison", [Eq, Ne, Gt, Lte, Contains])
@pytest.mark.parametrize("value", [[1], (1,), {1}, {"b": 1}])
def test_lists_and_dicts_are_no_operands(comparison: type[Eq], value: object) -> None:
    with pytest.raises(FilterError, match="use In for several, Contains"):
        comparison("a", value)  # type: ignore[arg-type]
    with pytest.raises(FilterError, match="one value"):
        In("a", [value])  # type: ignore[list-item]


@pytest.mark.parametrize("member", [In, NotIn])
@pytest.mark.parametrize("values", ["abc", b"abc", 7, None, {"a": 1}])
def test_in_takes_a_list(member: type[In], values: object) -> None:
    with pytest.raises(FilterError, match="takes a list of values"):
        member("a", values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), 2**63, -(2**63) - 1, 10**5000, b"x", object(), 1j],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_errors(value: object) -> None:
    for comparison in (Eq, Gt, Contains):
        with pytest.raises(FilterError, match="'a': can't compare with"):
            comparison("a", value)  # type: ignore[arg-type]


def test_the_largest_integers_are_fine() -> None:
    assert In("a", [2**63 - 1, -(2**63)]).values == (2**63 - 1, -(2**63))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("page", "3", "a number field"),
        ("page", True, "a number field"),
        ("page", date(2024, 1, 1), "a number field"),
        ("title", 3, "a text field.*'metadata.title'"),
        ("title", False, "a text field"),
        ("created_at", 2024, "not a time"),
        ("created_at", True, "not a time"),
        ("created_at", "yesterday", "'yesterday' is not a time"),
        ("created_at", "", "not a time"),
        (
            "created_at",
            datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
            "before year 1",
        ),
    ],
)
def test_reserved_fields_compare_with_their_own_type(
    field: str, value: Operand, message: str
) -> None:
    with pytest.raises(FilterError, match=message):
        Eq(field, value)
    with pytest.raises(FilterError, match=message):
        In(field, [None, value])


def test_contains_needs_something_to_look_for_and_in() -> None:
    with pytest.raises(FilterError, match="nothing contains None"):
        Contains("a", None)
    with pytest.raises(FilterError, match="use Gte and Lt"):
        Contains("created_at", "2024")
    with pytest.raises(FilterError, match="a text field"):
        Contains("title", 7)
    assert Contains("page", 7).value == 7


def test_only_filters_can_be_combined() -> None:
    for combine in (And, Or, Not):
        with pytest.raises(FilterError, match=r"takes filters, not .*parse_filter"):
            combine({"a": 1})  # type: ignore[arg-type]
    with pytest.raises(FilterError, match="takes filters"):
        _ = Eq("a", 1) & {"b": 2}  # type: ignore[operator]


def test_nesting_has_a_limit() -> None:
    deep: Filter = Eq("a", 1)
    for _ in range(MAX_DEPTH // 2):
        deep = Not(And(deep))
    assert eval(repr(deep)) == deep
    for combine in (And, Or, Not):
        with pytest.raises(FilterError, match="more than 64 deep"):
            combine(deep)
