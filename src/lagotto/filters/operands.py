"""The operands of filters, converted and checked against the field.

An invalid comparison is rejected when the filter is created, so evaluators and compilers only see
text, finite numbers that fit in 64 bits, booleans and None.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from math import isfinite
from reprlib import repr as shortened
from typing import Literal

from lagotto.documents import JsonScalar, iso, storable
from lagotto.errors import FilterError
from lagotto.filters.fields import FieldRef

Operand = JsonScalar | date
"""Values that callers may pass; dates and datetimes become ISO text."""

ScalarKind = Literal["text", "number", "boolean"]


def shown(value: object) -> str:
    """Shorten `value` for a message."""
    try:
        return shortened(value)
    except ValueError:  # Python does not print integers of more than 4300 digits
        return f"a very long {type(value).__name__}"


def kind_of(value: object) -> ScalarKind | None:
    """The kind of a value; only values of the same kind are comparable, None with nothing."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


def equality_operand(field: FieldRef, value: object) -> JsonScalar:
    """Convert a value for Eq, Ne, In and NotIn, where None means a missing field."""
    return None if value is None else _typed(field, value)


def ordering_operand(field: FieldRef, value: object) -> JsonScalar:
    """Convert a value for Gt, Gte, Lt and Lte."""
    if value is None or isinstance(value, bool):
        raise FilterError(
            f"filter on {field.name!r}: {value} has no order; compare with a number, text or "
            "date, or use Eq, Ne or Exists"
        )
    return _typed(field, value)


def contained_operand(field: FieldRef, value: object) -> JsonScalar:
    """Convert a value for Contains."""
    if field.type == "time":
        raise FilterError(
            f"filter on {field.name!r}: a time contains nothing; use Gte and Lt for a range"
        )
    if value is None:
        raise FilterError(
            f"filter on {field.name!r}: nothing contains None; use Exists, or Eq with None"
        )
    return _typed(field, value)


def _typed(field: FieldRef, value: object) -> JsonScalar:
    plain = _plain(field, value)
    if field.type == "time":
        return _moment(field, value)
    if field.type != "any" and kind_of(plain) != field.type:
        raise FilterError(
            f"filter on {field.name!r}: it is a {field.type} field, so it can't be compared "
            f"with {shown(value)}; a metadata key of that name is 'metadata.{field.name}'"
        )
    return plain


def _plain(field: FieldRef, value: object) -> JsonScalar:
    match value:
        case bool():
            return value
        case str():
            return storable(str.__str__(value))  # also the value of an enum member
        case int() if -(2**63) <= value < 2**63:
            return int(value)
        case float() if isfinite(value):
            return float(value)
        case int() | float():
            reason = "numbers must be finite and integers fit in 64 bits"
        case date():
            return _iso(field, value)
        case list() | tuple() | set() | frozenset() | Mapping():
            reason = "compare with one value; use In for several, Contains for a list's element"
        case _:
            reason = f"a {type(value).__name__} is neither text, number, boolean nor date"
    raise FilterError(f"filter on {field.name!r}: can't compare with {shown(value)}: {reason}")


def _moment(field: FieldRef, value: object) -> str:
    """Convert to a time as stored; a date means midnight, a time without a zone is UTC."""
    if isinstance(value, str):
        try:
            return _iso(field, datetime.fromisoformat(value))
        except ValueError as exc:
            raise _not_a_time(field, value) from exc
    if isinstance(value, datetime):
        return _iso(field, value)
    if isinstance(value, date):
        return _iso(field, datetime.combine(value, time()))
    raise _not_a_time(field, value)


def _not_a_time(field: FieldRef, value: object) -> FilterError:
    return FilterError(
        f"filter on {field.name!r}: {shown(value)} is not a time; write a date, a datetime or "
        "text such as '2024-01-31' or '2024-01-31T12:00:00Z'"
    )


def _iso(field: FieldRef, moment: date) -> str:
    try:
        return iso(moment)
    except ValueError as exc:
        raise FilterError(f"filter on {field.name!r}: {exc}") from exc
