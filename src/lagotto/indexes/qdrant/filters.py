"""Filters and word conditions as payload conditions of Qdrant: a superset of what matches."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeGuard

from qdrant_client import models

from lagotto.documents import JsonScalar, storable
from lagotto.filters import And, Contains, Eq, Filter, Gt, Gte, In, Lt, Lte, Or
from lagotto.indexes.text_query import Either, Every, Match, Phrase, Prefix, Word

Condition = models.Condition
Payload = dict[str, list[str] | list[float]]

UNSTORED = frozenset({"document_id", "content_hash", "source_ref", "summary", "title"})
"""Fields of a document that hardly two documents share."""

MOST_FIELDS = 100
"""Payload names with an index. Each takes memory, and metadata may have any number of keys."""

LONGEST_KEYWORD = 64
"""Characters of a text that are compared; what is equal begins equally."""

FIELDS = "f"
"""The payload name under which all of them are, so that they are replaced at once."""

TENANT = "k_collection"
"""The payload name of the Lagotto collection, by which a server keeps points together."""

_PLAIN = re.compile(r"[A-Za-z0-9_]{1,40}")


def payload_name(kind: Literal["k", "n", "o"], field: str) -> str:
    """The name under which values of a field are stored, without what Qdrant reads as a path."""
    if _PLAIN.fullmatch(field):
        return f"{kind}_{field}"
    return f"{kind}-{hashlib.sha256(field.encode()).hexdigest()[:24]}"


def path(name: str) -> str:
    """Where a payload name is found in the payload of a point."""
    return f"{FIELDS}.{name}"


def field_payload(values: Mapping[str, Iterable[JsonScalar]]) -> Payload:
    """What is stored of the fields of a chunk."""
    payload: Payload = {}
    for field, some in values.items():
        if field in UNSTORED:
            continue
        texts = [value for value in some if isinstance(value, str)]
        keywords = [keyword(value) for value in some if isinstance(value, str | bool)]
        numbers = [float(value) for value in some if is_number(value)]
        if keywords:
            payload[payload_name("k", field)] = sorted(set(keywords))
        if texts:
            payload[payload_name("o", field)] = sorted(set(map(order_code, texts)))
        if numbers:
            payload[payload_name("n", field)] = sorted(set(numbers))
    return payload


MOST_CONDITIONS = 1_000
"""Conditions of a request. A server checks each of them for a point, so that more cost more than
the points that they leave out."""


def superset_condition(where: Filter | None, fields: frozenset[str]) -> Condition | None:
    """A condition on the stored `fields` that all chunks meet which match; None without one."""
    found = _superset(where, fields)
    return found if found is not None and _count(found) <= MOST_CONDITIONS else None


def _count(condition: Condition) -> int:
    if not isinstance(condition, models.Filter):
        return 1
    parts = [*_listed(condition.must), *_listed(condition.should)]
    return sum(map(_count, parts))


def _listed(parts: Condition | list[Condition] | None) -> list[Condition]:
    return parts if isinstance(parts, list) else [] if parts is None else [parts]


def _superset(where: Filter | None, fields: frozenset[str]) -> Condition | None:
    match where:
        case And(filters):
            parts = [_superset(part, fields) for part in filters]
            return _all([part for part in parts if part is not None])
        case Or(filters):
            return _any([_superset(part, fields) for part in filters])
        case Eq(field, value):
            return _equal(field.name, value, fields)
        case In(field, values):
            return _any(_equal_to_one(field.name, values, fields))
        case Contains(field, value) if not isinstance(value, str):
            return _equal(field.name, value, fields)
        case Gt(field, value) | Gte(field, value):
            return _ordered(field.name, value, fields, above=True)
        case Lt(field, value) | Lte(field, value):
            return _ordered(field.name, value, fields, above=False)
    return None


def collections_of(where: Filter | None) -> frozenset[str] | None:
    """The Lagotto collections that all matching chunks are in; None if that can't be told."""
    match where:
        case Eq(field, value) if field.name == "collection" and isinstance(value, str):
            return frozenset({value})
        case In(field, values) if field.name == "collection":
            return frozenset(value for value in values if isinstance(value, str))
        case And(filters):
            known = [some for some in map(collections_of, filters) if some is not None]
            return frozenset.intersection(*known) if known else None
        case Or(filters) if filters:
            each = [collections_of(part) for part in filters]
            known = [some for some in each if some is not None]
            return frozenset().union(*known) if len(known) == len(each) else None
    return None


def shard_key(collection: str) -> str:
    """The shard key of a Lagotto collection; never that of the state."""
    return f"c:{collection}"


def keyword(value: str | bool) -> str:
    """A text or boolean as a keyword; equal values have equal ones."""
    if isinstance(value, bool):
        return "b1" if value else "b0"
    return f"t{value[:LONGEST_KEYWORD]}"


_DIGITS = {digit: 4 + number for number, digit in enumerate("0123456789")}
_END, _BELOW, _DASH, _DOT, _ABOVE = 0, 1, 2, 3, 14
ORDER_DIGITS = 13


def order_code(text: str) -> float:
    """A number that grows with the order of texts, though not for each of them: for `<` and `>`.

    Its 13 hexadecimal digits, which a float holds exactly, tell digits and dashes apart, so dates
    have an order by day. A text is read up to the first other character: what comes after it must
    not decide between texts that may differ there.
    """
    code = 0
    ended = False
    for index in range(ORDER_DIGITS):
        digit = _END
        if not ended and index < len(text):
            digit = _order_digit(text[index])
            ended = digit in (_BELOW, _DOT, _ABOVE)
        code = 16 * code + digit
    return float(code)


def _order_digit(character: str) -> int:
    if character in _DIGITS:
        return _DIGITS[character]
    if character == "-":
        return _DASH
    if character < "-":
        return _BELOW
    return _DOT if character < "0" else _ABOVE


def _equal(field: str, value: JsonScalar, fields: frozenset[str]) -> Condition | None:
    if value is None:  # missing, which no index tells
        return None
    if isinstance(value, str | bool):
        name = payload_name("k", field)
        any_of = models.MatchAny(any=[keyword(value)])
        return models.FieldCondition(key=path(name), match=any_of) if name in fields else None
    return _between(payload_name("n", field), fields, least=value, most=value)


def _equal_to_one(
    field: str, values: Iterable[JsonScalar], fields: frozenset[str]
) -> list[Condition | None]:
    """A condition for all keywords, and one for each other value."""
    name = payload_name("k", field)
    keywords = [keyword(value) for value in values if isinstance(value, str | bool)]
    others = [_equal(field, value, fields) for value in values if not isinstance(value, str | bool)]
    if not keywords:
        return others
    any_of = models.MatchAny(any=list(dict.fromkeys(keywords)))
    one = models.FieldCondition(key=path(name), match=any_of) if name in fields else None
    return [one, *others]


def _ordered(
    field: str, value: JsonScalar, fields: frozenset[str], *, above: bool
) -> Condition | None:
    if isinstance(value, str):
        name, bound = payload_name("o", field), order_code(value)
    elif is_number(value):
        name, bound = payload_name("n", field), float(value)
    else:
        return None
    if above:
        return _between(name, fields, least=bound)
    return _between(name, fields, most=bound)


def _between(
    name: str, fields: frozenset[str], *, least: float | None = None, most: float | None = None
) -> Condition | None:
    """A range, a step of floats wider at each end: numbers may be rounded on the way."""
    if name not in fields:
        return None
    return models.FieldCondition(
        key=path(name),
        range=models.Range(gte=_next_to(least, -math.inf), lte=_next_to(most, math.inf)),
    )


def _next_to(number: float | None, direction: float) -> float | None:
    if number is None:
        return None
    further = math.nextafter(float(number), direction)
    return further if math.isfinite(further) else None


def _all(parts: list[Condition]) -> Condition | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return models.Filter(must=parts)


def _any(parts: list[Condition | None]) -> Condition | None:
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return known[0] if len(known) == 1 else models.Filter(should=known)


def is_number(value: JsonScalar) -> TypeGuard[int | float]:
    """Whether a value compares with numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


TERMS = "terms"
"""The payload name of the terms that a chunk has, each once."""

Expand = Callable[[str], Iterable[str]]
"""The terms of the index that begin with something."""


class TermCondition(NamedTuple):
    """A condition that every chunk meets for which a Match holds; `exact` if no other does."""

    condition: Condition
    exact: bool


EVERYTHING: Condition = models.Filter()


def holding(terms: Iterable[str]) -> Condition:
    """Chunks that hold one of the terms."""
    wanted = sorted(set(map(storable, terms)))
    return models.FieldCondition(key=TERMS, match=models.MatchAny(any=wanted))


def term_condition(match: Match, expand: Expand) -> TermCondition:
    """The condition for a Match; the order of words is not stored, so phrases are not exact."""
    if isinstance(match, Word):
        return TermCondition(holding(match.terms), exact=True)
    if isinstance(match, Prefix):
        return TermCondition(holding(expand(match.start)), exact=True)
    if isinstance(match, Phrase):
        variants = [_with_all(variant) for variant in match.variants if variant]
        return TermCondition(_one_of(variants), exact=False)
    if isinstance(match, Every):
        parts = [term_condition(part, expand) for part in match.parts]
        condition = models.Filter(must=[part.condition for part in parts])
        return TermCondition(condition, all(part.exact for part in parts))
    if isinstance(match, Either):
        parts = [term_condition(part, expand) for part in match.parts]
        return TermCondition(
            _one_of([part.condition for part in parts]), all(part.exact for part in parts)
        )
    part = term_condition(match.part, expand)
    if not part.exact:  # what meets it need not hold it
        return TermCondition(EVERYTHING, exact=False)
    return TermCondition(models.Filter(must_not=[part.condition]), exact=True)


def _with_all(terms: Sequence[str]) -> Condition:
    return models.Filter(must=[holding([term]) for term in sorted(set(terms))])


def _one_of(conditions: Sequence[Condition]) -> Condition:
    """One of the conditions; without any, none: unlike an empty `should`, which holds always."""
    return models.Filter(should=list(conditions)) if conditions else holding([])
