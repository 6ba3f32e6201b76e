from __future__ import annotations

import json

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
    parse_filter,
)


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
        ({"a": {"$in": "abc"}}, "takes a list of values"),
        ({"a": {"$eq": [1]}}, "use In for several"),
        ({"a": {"$gt": None}}, "has no order"),
        ({"a": [[1]]}, "one value"),
        ({"a": {1, 2}}, "use In for several"),
        ({"": 1}, "not a field name"),
        ({7: 1}, "must be text"),
        ({"$and": {"a": 1}}, "takes a list of filters"),
        ({"$or": "a"}, "takes a list of filters"),
        ({"$or": [1]}, "a filter is an object, not 1"),
        ({"$not": [{"a": 1}]}, "a filter is an object"),
        ({"page": "3"}, "a number field"),
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


def test_nesting_has_a_limit() -> None:
    deepest = parse_filter(nested(MAX_DEPTH))
    assert parse_filter(deepest.to_json()) == deepest
    for form in (nested(MAX_DEPTH + 1), nested(MAX_DEPTH, b=1), nested(5000)):
        with pytest.raises(FilterError, match="more than 64 deep"):
            parse_filter(form)
