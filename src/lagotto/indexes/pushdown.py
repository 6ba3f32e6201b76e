"""What a remote index stores of a chunk's fields, and the conditions on that for filters.

A condition holds for every chunk that its filter matches, and perhaps for more: the record decides
which ones are hits. So values may be shortened and rounded, as long as equal values stay equal and
the order of others is kept.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Literal, NamedTuple, TypeGuard

from lagotto.documents import JsonScalar, digest
from lagotto.filters import And, Contains, Eq, Filter, Gt, Gte, In, Lt, Lte, Or
from lagotto.indexes.base import ChunkFields

Payload = dict[str, list[str] | list[float]]
"""What is stored of the fields of a chunk, by payload names: `k_` for keywords, `n_` for numbers,
`o_` for the order of texts."""

UNSTORED = frozenset({"document_id", "content_hash", "source_ref", "summary", "title"})
"""Fields of a document that hardly two documents share."""

MOST_FIELDS = 100
"""Payload names of an index. Each takes memory, and metadata may have any number of keys."""

MOST_BYTES = 36_000  # bytes of a payload; Pinecone takes 40 kB
CROWDED = "crowded"
"""The only payload name of a chunk with more bytes than that; every condition holds for it."""

MOST_CONDITIONS = 1_000
"""Conditions of a request. A server checks each of them for a point, so that more cost more than
the points that they leave out."""

MOST_VALUES = 10_000  # values of a condition, as Pinecone has it
LONGEST_KEYWORD = 64  # characters of a text that are compared; what is equal begins equally


class AnyOf(NamedTuple):
    """Points that have one of the keywords under a payload name."""

    name: str
    keywords: tuple[str, ...]


class Between(NamedTuple):
    """Points that have a number in a range, ends included, None for no end."""

    name: str
    least: float | None = None
    most: float | None = None


class Joined(NamedTuple):
    """Points for which all parts hold, or one of them."""

    operator: Literal["and", "or"]
    parts: tuple[Condition, ...]


Condition = AnyOf | Between | Joined


def payload(chunk: ChunkFields) -> Payload:
    entries: Payload = {}
    for field, values in {"collection": (chunk.collection,), **chunk.values}.items():
        if field in UNSTORED:
            continue
        if keywords := {keyword(value) for value in values if isinstance(value, str | bool)}:
            entries[payload_name("k", field)] = sorted(keywords)
        if codes := {order_code(value) for value in values if isinstance(value, str)}:
            entries[payload_name("o", field)] = sorted(codes)
        if numbers := {float(value) for value in values if is_number(value)}:
            entries[payload_name("n", field)] = sorted(numbers)
    size = len(json.dumps(entries, ensure_ascii=False).encode())
    return entries if size <= MOST_BYTES else {CROWDED: ["yes"]}


def superset_condition(where: Filter | None, names: frozenset[str]) -> Condition | None:
    """A condition that all matches of a filter meet, None without one.

    `names` are the payload names of the index: what others say is not stored.
    """
    superset = _superset(where, names)
    if superset is None:
        return None
    leaves = list(_leaves(superset))
    values = (len(leaf.keywords) for leaf in leaves if isinstance(leaf, AnyOf))
    if len(leaves) > MOST_CONDITIONS or max(values, default=0) > MOST_VALUES:
        return None
    return Joined("or", (superset, AnyOf(CROWDED, ("yes",)))) if CROWDED in names else superset


def collections_of(where: Filter | None) -> frozenset[str] | None:
    """The only Lagotto collections in which a match may be; None for any."""
    match where:
        case Eq(field) | In(field) if field.name == "collection":
            # None asks for what has no collection, and every chunk has one.
            return frozenset(value for value in where.operands if isinstance(value, str))
        case And(filters):
            known = [some for some in map(collections_of, filters) if some is not None]
            return frozenset.intersection(*known) if known else None
        case Or(filters) if filters:
            known = [some for some in map(collections_of, filters) if some is not None]
            return frozenset().union(*known) if len(known) == len(filters) else None
    return None


_PLAIN = re.compile(r"[A-Za-z0-9_]{1,40}")


def payload_name(kind: Literal["k", "n", "o"], field: str) -> str:
    """The name under which values of a field are stored, without what a service may interpret."""
    return f"{kind}_{field}" if _PLAIN.fullmatch(field) else f"{kind}__{digest(field)}"


def keyword(value: str | bool) -> str:
    """A text or boolean as a keyword; equal values have equal ones."""
    return f"b{value:d}" if isinstance(value, bool) else f"t{value[:LONGEST_KEYWORD]}"


ORDER_DIGITS = 13
_END, _BELOW, _DOT, _ABOVE = 0, 1, 3, 14
_ORDER = "-.0123456789:"
"""Where the next digit begins: for what is below a dash, a dash, what is between it and 0, each of
the decimal digits, and what is above them."""


def order_code(text: str) -> float:
    """A number that grows with the order of texts, though not for each of them: for `<` and `>`.

    Its 13 hexadecimal digits, which a float holds exactly, tell digits and dashes apart, so dates
    have an order by day. A text is read up to the first other character: what comes after it must
    not decide between texts that may differ there.
    """
    digits = []
    for character in text[:ORDER_DIGITS]:
        digits.append(1 + bisect_right(_ORDER, character))
        if digits[-1] in (_BELOW, _DOT, _ABOVE):
            break
    digits += [_END] * (ORDER_DIGITS - len(digits))
    return float(reduce(lambda code, digit: 16 * code + digit, digits))


def is_number(value: JsonScalar) -> TypeGuard[int | float]:
    """Whether a value compares with numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _superset(where: Filter | None, names: frozenset[str]) -> Condition | None:
    match where:
        case And(filters):
            return _joined("and", [_superset(part, names) for part in filters])
        case Or(filters):
            return _joined("or", [_superset(part, names) for part in filters])
        case Eq(field) | In(field):
            return _equal_to_one(field.name, where.operands, names)
        case Contains(field, value) if not isinstance(value, str):
            return _equal_to_one(field.name, [value], names)
        case Gt(field, value) | Gte(field, value):
            return _ordered(field.name, value, names, above=True)
        case Lt(field, value) | Lte(field, value):
            return _ordered(field.name, value, names, above=False)
    return None


def _joined(operator: Literal["and", "or"], parts: Sequence[Condition | None]) -> Condition | None:
    """A part that is None may be anything."""
    known = tuple(part for part in parts if part is not None)
    if not known or (operator == "or" and len(known) < len(parts)):
        return None
    return known[0] if len(known) == 1 else Joined(operator, known)


def _equal_to_one(
    field: str, values: Iterable[JsonScalar], names: frozenset[str]
) -> Condition | None:
    """A condition for all keywords, and one for each number; none for None, which is missing."""
    keywords: dict[str, None] = {}
    parts: list[Condition | None] = []
    for value in values:
        if value is None:
            return None
        if isinstance(value, str | bool):
            keywords[keyword(value)] = None
        else:
            number = float(value)
            parts.append(_known(Between(payload_name("n", field), number, number), names))
    if keywords:
        parts.append(_known(AnyOf(payload_name("k", field), tuple(keywords)), names))
    return _joined("or", parts)


def _ordered(
    field: str, value: JsonScalar, names: frozenset[str], *, above: bool
) -> Condition | None:
    """A range with its end included: rounding keeps the order of numbers, but not strictly."""
    if isinstance(value, str):
        name, end = payload_name("o", field), order_code(value)
    elif is_number(value):
        name, end = payload_name("n", field), float(value)
    else:
        return None
    return _known(Between(name, least=end) if above else Between(name, most=end), names)


def _known(condition: AnyOf | Between, names: frozenset[str]) -> Condition | None:
    return condition if condition.name in names else None


def _leaves(condition: Condition) -> Iterable[AnyOf | Between]:
    if isinstance(condition, Joined):
        for part in condition.parts:
            yield from _leaves(part)
    else:
        yield condition
