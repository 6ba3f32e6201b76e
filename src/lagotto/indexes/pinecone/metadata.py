"""Fields of chunks as metadata of documents, and filters as conditions on them.

A condition holds for every document that matches its filter, and possibly for others: hits are
checked against the filter's keys afterwards. The service knows texts, numbers, booleans and lists
of texts, so the values of a field are a list of texts that name their type (`e_`, for equality),
and its least and greatest number (`lo_`, `hi_`, for order).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from lagotto.documents import JsonScalar, digest
from lagotto.filters import And, Condition, Eq, Filter, Gt, Gte, In, Lt, Lte, Or
from lagotto.indexes.base import ChunkFields

Metadata = dict[str, Any]

MOST_BYTES = 36_000
"""Of the metadata of a document; the vendor takes 40 kB."""

CROWDED: Metadata = {"crowded": True}
"""The metadata of a chunk with more fields than fit: every condition holds for it."""

LONGEST_TEXT = 64
"""Characters; a longer text is compared by its hash."""

MOST_VALUES = 1_000
"""Values of a condition; the vendor takes 10,000."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_]{1,48}")


def metadata_of(fields: ChunkFields) -> Metadata:
    """The metadata of a chunk's document; CROWDED if it would be too large."""
    found: Metadata = {}
    for name, values in fields.values.items():
        safe = _safe(name)
        found[f"e_{safe}"] = sorted({_text(value) for value in values})
        if numbers := [_number(value) for value in values if _is_number(value)]:
            found[f"lo_{safe}"], found[f"hi_{safe}"] = min(numbers), max(numbers)
    size = len(json.dumps(found, ensure_ascii=False).encode())
    return found if size <= MOST_BYTES else dict(CROWDED)


def condition(where: Filter, *, crowded: bool = False) -> Metadata | None:
    """A condition that holds for whatever matches a filter; None if there is none but all."""
    found = _condition(where)
    return {"$or": [found, {"crowded": {"$eq": True}}]} if found and crowded else found


def collections_of(where: Filter) -> frozenset[str] | None:
    """The only collections in which a match may be, None for any."""
    match where:
        case And(filters):
            found = [some for part in filters if (some := collections_of(part)) is not None]
            return frozenset.intersection(*found) if found else None
        case Eq(field, value) if field.name == "collection":
            return _texts([value])
        case In(field, values) if field.name == "collection":
            return _texts(values)
    return None


def _condition(where: Filter) -> Metadata | None:
    if isinstance(where, And | Or):
        return _junction(where)
    if not isinstance(where, Condition) or where.field.type == "time":
        return None  # times are compared as instants, not as they are written
    name = _safe(where.field.name)
    match where:
        case Eq(_, value):
            return _any_of(name, [value])
        case In(_, values):
            return _any_of(name, values)
        # `$gte` for both: numbers are rounded, and rounding keeps their order, but not strictly
        case Gt(_, value) | Gte(_, value) if _is_number(value):
            return {f"hi_{name}": {"$gte": _number(value)}}
        case Lt(_, value) | Lte(_, value) if _is_number(value):
            return {f"lo_{name}": {"$lte": _number(value)}}
    return None


def _junction(where: And | Or) -> Metadata | None:
    parts = [_condition(part) for part in where.filters]
    known = [part for part in parts if part is not None]
    if not known or (isinstance(where, Or) and len(known) < len(parts)):
        return None
    return known[0] if len(known) == 1 else {where.operator: known}


def _any_of(name: str, values: Iterable[JsonScalar]) -> Metadata | None:
    wanted = list(values)
    if None in wanted or not 0 < len(wanted) <= MOST_VALUES:
        return None
    return {f"e_{name}": {"$in": sorted({_text(value) for value in wanted})}}


def _texts(values: Iterable[JsonScalar]) -> frozenset[str] | None:
    wanted = list(values)
    return frozenset(map(str, wanted)) if all(isinstance(v, str) for v in wanted) else None


def _safe(name: str) -> str:
    """The name of a field in the service, which restricts characters and length."""
    return name if PLAIN_NAME.fullmatch(name) else f"h_{digest(name)}"


def _text(value: JsonScalar) -> str:
    """A text that equal values share, and others hardly ever."""
    if isinstance(value, bool):
        return f"b:{value}"
    if isinstance(value, str):
        return f"t:{value}" if len(value) <= LONGEST_TEXT else f"d:{digest(value)}"
    return f"n:{_number(value) + 0.0!r}"  # 1 equals 1.0, and 0.0 equals -0.0


def _is_number(value: JsonScalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: JsonScalar) -> float:
    """The nearest number that the service knows; integers have 64 bits at most here."""
    assert isinstance(value, int | float)
    return float(value)
