from __future__ import annotations

import json
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
    Operand,
    Or,
    conditions,
    fields,
    parse_filter,
)


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


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({}, And()),
        ({"type": "documentation"}, Eq("type", "documentation")),
        ({"draft": False}, Eq("draft", False)),
        ({"author": None}, Eq("author", None)),
        ({"year": [2023, 2024]}, In("year", [2023, 2024])),
        ({"year": []}, In("year", [])),
        ({"a": 1, "b": 2}, And(Eq("a", 1), Eq("b", 2))),
        ({"a": {"$eq": 1}}, Eq("a", 1)),
        ({"a": {"$ne": 1}}, Ne("a", 1)),
        ({"a": {"$gt": 1}}, Gt("a", 1)),
        ({"a": {"$lte": 1}}, Lte("a", 1)),
        ({"year": {"$gte": 2020, "$lt": 2024}}, And(Gte("year", 2020), Lt("year", 2024))),
        ({"a": {"$in": [1, None]}}, In("a", [1, None])),
        ({"a": {"$nin": [1]}}, NotIn("a", [1])),
        ({"tags": {"$contains": "x"}}, Contains("tags", "x")),
        ({"a": {"$exists": True}}, Exists("a")),
        ({"a": {"$exists": False}}, Not(Exists("a"))),
        ({"$and": [{"a": 1}, {"b": 2}]}, And(Eq("a", 1), Eq("b", 2))),
        ({"$or": [{"a": 1}, {}]}, Or(Eq("a", 1), And())),
        ({"$or": []}, Or()),
        ({"$not": {"a": 1, "b": 2}}, Not(And(Eq("a", 1), Eq("b", 2)))),
        ({"c": 3, "$or": [{"a": 1}, {"b": 2}]}, And(Eq("c", 3), Or(Eq("a", 1), Eq("b", 2)))),
        ({"metadata.title": 7}, Eq("metadata.title", 7)),
        ({"metadata.$ref": 7}, Eq("$ref", 7)),
    ],
)
def test_the_json_form(form: dict[str, object], expected: Filter) -> None:
    assert parse_filter(form) == expected
    assert parse_filter(json.dumps(form)) == expected
    assert parse_filter(json.dumps(expected.to_json())) == expected


def test_what_is_no_json_form() -> None:
    given = Eq("a", 1)
    assert parse_filter(given) is given
    assert parse_filter(None) == And()


def test_the_canonical_form() -> None:
    tree = Eq("metadata.a", 1) & (Gte("year", 2020) | ~Exists("$ref"))
    assert tree.to_json() == {
        "$and": [
            {"a": {"$eq": 1}},
            {
                "$or": [
                    {"year": {"$gte": 2020}},
                    {"$not": {"metadata.$ref": {"$exists": True}}},
                ]
            },
        ]
    }
    assert And().to_json() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"not JSON: Expecting value: line 1 column 1 .*write it like \{"),
        ("{'a': 1}", r"line 1 column 2 \(char 1\)"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a filter is an object, not"),
        ("null", "a filter is an object, not None"),
        ('"a"', "a filter is an object, not 'a'"),
        ('{"a": NaN}', "finite"),
        ('{"a": 1e999}', "finite"),
    ],
)
def test_bad_json_text(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(text)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            {"a": {"$gtt": 1}},
            r"unknown operator \$gtt; available here: \$eq, .*did you mean \$gt\?",
        ),
        ({"a": {"$zzzzzz": 1}}, r"unknown operator \$zzzzzz; available here: [^?]*$"),
        ({"$nott": {}}, r"here: \$and, \$or, \$not; did you mean \$not\?"),
        ({"$eq": 1}, r'\$eq can.t be used here; write \{"field": \{"\$eq": \.\.\.\}\}'),
        ({"a": {"$not": {"$gt": 1}}}, r'used here; write \{"\$not": \.\.\.\} around'),
        ({"a": {}}, "'a': {} compares with nothing"),
        ({"a": {"b": 1}}, r"'b' is not an operator; .*\"a\.b\""),
        ({"a": {"$gt": 1, "b": 1}}, "'b' is not an operator"),
        ({"a": {1: 1}}, "1 is not an operator"),
        ({"a": {"$exists": 1}}, "true or false, not 1"),
        ({"a": {"$in": 1}}, "takes a list of values"),
        ({"a": {"$gt": None}}, "has no order"),
        ({"a": {1, 2}}, "use In for several"),
        ({7: 1}, "must be text"),
        ({"$and": {"a": 1}}, "takes a list of filters"),
        ({"$or": "a"}, "takes a list of filters"),
        ({"$or": [1]}, "a filter is an object, not 1"),
        ({"$not": [{"a": 1}]}, "a filter is an object"),
        (7, "a filter is an object, not 7"),
        ([{"a": 1}], "a filter is an object"),
    ],
)
def test_bad_forms(form: dict[str, object], message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(form)


def nested(depth: int, **beside: object) -> dict[str, object]:
    form: dict[str, object] = {"a": 1}
    for _ in range(depth):
        form = {**beside, "$not": form}
    return form


def test_nesting_of_json_has_a_limit() -> None:
    deepest = parse_filter(nested(MAX_DEPTH))
    assert parse_filter(deepest.to_json()) == deepest
    deep: dict[str, object] = {"a": 1}
    for _ in range(5000):
        deep = {"$or": [deep]}
    for form in (nested(MAX_DEPTH + 1), nested(MAX_DEPTH, b=1), nested(5000), deep):
        with pytest.raises(FilterError, match="more than 64 deep"):
            parse_filter(form)
