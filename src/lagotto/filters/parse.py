"""The JSON form of filters, as the command line and the server take it.

{"type": "documentation"}                equals
{"year": [2023, 2024]}                   one of
{"author": null}                         missing
{"year": {"$gte": 2020, "$lt": 2024}}    operators, all of them
{"$or": [{...}, {...}]}                  $and, $or, $not
{}                                       everything
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from lagotto.errors import FilterError
from lagotto.filters.algebra import (
    MAX_DEPTH,
    And,
    Comparison,
    Condition,
    Contains,
    Eq,
    Exists,
    Filter,
    Gt,
    Gte,
    In,
    Lt,
    Lte,
    Membership,
    Ne,
    Not,
    NotIn,
    Or,
    too_deep,
)
from lagotto.filters.operands import Operand, shown
from lagotto.suggestions import did_you_mean

_EXAMPLE = 'write it like {"type": "documentation", "year": {"$gte": 2020}}'

_COMPARISONS: dict[str, type[Comparison]] = {
    node.operator: node for node in (Eq, Ne, Gt, Gte, Lt, Lte, Contains)
}
_MEMBERSHIPS: dict[str, type[Membership]] = {node.operator: node for node in (In, NotIn)}
_ON_FIELDS = (*_COMPARISONS, *_MEMBERSHIPS, Exists.operator)
_ON_FILTERS = (And.operator, Or.operator, Not.operator)

T = TypeVar("T")


def parse_filter(value: Filter | Mapping[str, object] | str | None) -> Filter:
    """Create a filter from its JSON form, a dict or a string; None matches everything.

    A Filter is returned unchanged. FilterError explains what is invalid, and what is valid.
    """
    match value:
        case Filter():
            return value
        case None:
            return And()
        case str():
            return _object(_loads(value), level=0)
        case _:
            return _object(value, level=0)


def _loads(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as exc:
        raise FilterError(f"the filter {shown(text)} is not JSON: {exc}; {_EXAMPLE}") from exc


def _without_duplicates(pairs: list[tuple[str, T]]) -> dict[str, T]:
    # By default the last one would win, and a condition would be lost silently.
    found: dict[str, T] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} appears twice, use $and")
        found[key] = value
    return found


def _object(value: object, *, level: int) -> Filter:
    if not isinstance(value, Mapping):
        raise FilterError(f"a filter is an object, not {shown(value)}; {_EXAMPLE}")
    if level > MAX_DEPTH:
        raise too_deep()
    parts = [_entry(key, item, level=level) for key, item in value.items()]
    return parts[0] if len(parts) == 1 else And(*parts)


def _entry(key: str, value: object, *, level: int) -> Filter:
    if not isinstance(key, str) or not key.startswith("$"):
        return _on_field(key, value)
    if key == Not.operator:
        return Not(_object(value, level=level + 1))
    if key not in _ON_FILTERS:  # a metadata key of such a name is written "metadata.$name"
        raise _unknown(key, known=_ON_FILTERS, elsewhere=_ON_FIELDS)
    if not isinstance(value, list | tuple):
        raise FilterError(f"{key} takes a list of filters, not {shown(value)}")
    junction = And if key == And.operator else Or
    return junction(*(_object(item, level=level + 1) for item in value))


def _on_field(name: str, value: object) -> Filter:
    if isinstance(value, list | tuple):
        return In(name, value)
    if not isinstance(value, Mapping):
        return Eq(name, cast("Operand", value))
    if not value:
        raise FilterError(f"filter on {name!r}: {{}} compares with nothing; {_EXAMPLE}")
    parts = [_condition(name, key, operand) for key, operand in value.items()]
    return parts[0] if len(parts) == 1 else And(*parts)


def _condition(name: str, key: object, operand: object) -> Condition | Not:
    # The nodes check their arguments, whatever the casts say.
    if not isinstance(key, str) or not key.startswith("$"):
        raise FilterError(
            f"filter on {name!r}: {key!r} is not an operator; for a key inside {name!r} use "
            f'"{name}.{key}", else one of {", ".join(_ON_FIELDS)}'
        )
    if key in _COMPARISONS:
        return _COMPARISONS[key](name, cast("Operand", operand))
    if key in _MEMBERSHIPS:
        return _MEMBERSHIPS[key](name, cast("Iterable[Operand]", operand))
    if key != Exists.operator:
        raise _unknown(key, known=_ON_FIELDS, elsewhere=_ON_FILTERS)
    if not isinstance(operand, bool):
        raise FilterError(f"filter on {name!r}: $exists takes true or false, not {shown(operand)}")
    return Exists(name) if operand else Not(Exists(name))


def _unknown(key: str, *, known: tuple[str, ...], elsewhere: tuple[str, ...]) -> FilterError:
    if key in elsewhere:
        form = f'{{"{key}": ...}}'
        usage = f'{{"field": {form}}}' if key in _ON_FIELDS else f"{form} around whole filters"
        return FilterError(f"{key} can't be used here; write {usage}")
    guess = did_you_mean(key, known)
    return FilterError(f"unknown operator {key}; available here: {', '.join(known)}{guess}")
