"""Evaluate a filter on a document or chunk: the reference for every store. Unknown fields."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from typing import Any, get_args

from lagotto._internal.registry import did_you_mean
from lagotto.documents import Chunk, Document, JsonScalar, iso
from lagotto.filters.algebra import (
    RESERVED,
    And,
    Comparison,
    Condition,
    Contains,
    Eq,
    Exists,
    FieldRef,
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
    Ordering,
    ScalarKind,
    conditions,
    kind_of,
)

ORDERS: dict[type[Condition], Callable[[Any, Any], bool]] = {
    Gt: operator.gt, Gte: operator.ge, Lt: operator.lt, Lte: operator.le,
}  # fmt: skip


def matches(root: Filter, document: Document, chunk: Chunk | None = None) -> bool:
    """Whether `document`, or a chunk of it, meets the filter; they differ only in `page`."""
    match root:
        case And(filters):
            return all(matches(part, document, chunk) for part in filters)
        case Or(filters):
            return any(matches(part, document, chunk) for part in filters)
        case Not(inner):
            return not matches(inner, document, chunk)
        case Condition(field):
            return _holds(root, _value(field, document, chunk))
    raise TypeError(f"not a filter: {root!r}")


def _holds(condition: Condition, value: object) -> bool:
    match condition:
        case Exists():
            return value is not None
        case Eq(_, wanted):
            return _equals(value, wanted)
        case Ne(_, wanted):
            return not _equals(value, wanted)
        case In():
            return _is_among(value, condition)
        case NotIn():
            return not _is_among(value, condition)
        case Contains(_, wanted):
            if isinstance(value, str):
                return isinstance(wanted, str) and wanted in value
            return isinstance(value, list) and _equals(value, wanted)
        case Ordering(_, wanted):
            return _compares(ORDERS[type(condition)], value, wanted)
    raise TypeError(f"not a condition: {condition!r}")


def _equals(value: object, wanted: JsonScalar) -> bool:
    if wanted is None:
        return value is None
    return _compares(operator.eq, value, wanted)


def _is_among(value: object, condition: Membership) -> bool:
    if isinstance(value, list):
        return any((kind_of(item), item) in condition.distinct for item in filter(kind_of, value))
    kind = kind_of(value)
    return (kind or value is None) and (kind, value) in condition.distinct


def _compares(comparison: Callable[[Any, Any], bool], value: object, wanted: JsonScalar) -> bool:
    items = value if isinstance(value, list) else [value]
    kind = kind_of(wanted)
    return any(kind_of(item) == kind and comparison(item, wanted) for item in items)


def _value(field: FieldRef, document: Document, chunk: Chunk | None) -> object:
    if field.path is not None:
        inside: object = document.metadata
        for key in field.path:
            inside = inside.get(key) if isinstance(inside, dict) else None
        return inside
    if field.name == "page" and chunk is not None:
        return list(range(chunk.pages[0], chunk.pages[1] + 1)) if chunk.pages else None
    if field.name == "page":
        return [page.number for page in document.pages] or None
    if field.name == "document_id":
        return document.id
    value = getattr(document, field.name)
    return value if field.type != "time" or value is None else iso(value)


KINDS: dict[ScalarKind, str] = {"text": "text", "number": "numbers", "boolean": "booleans"}


def metadata_fields(where: Filter) -> set[str]:
    """The metadata fields that a filter uses, by their canonical names."""
    return {
        condition.field.name for condition in conditions(where) if condition.field.path is not None
    }


def unknown_field_notes(unknown: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """A note for each field that no document has, with the nearest of those that exist."""
    names = {*known, *RESERVED}
    return tuple(
        f"no document has the field {name!r}{did_you_mean(name, names)}" for name in sorted(unknown)
    )


def other_kind_notes(where: Filter, has_kind: Callable[[str, ScalarKind], bool]) -> tuple[str, ...]:
    """A note for each field with values, none of them of a kind that the filter compares it with.

    For filters that match nothing: one may compare with several kinds on purpose.
    """
    notes = []
    kinds: dict[str, set[ScalarKind]] = {}
    for condition in conditions(where):
        values: tuple[object, ...] = ()
        if condition.field.path is not None and isinstance(condition, Comparison):
            values = (condition.value,)
        elif condition.field.path is not None and isinstance(condition, Membership):
            values = condition.values
        if some := {kind for kind in map(kind_of, values) if kind}:
            kinds.setdefault(condition.field.name, set()).update(some)
    for name, compared in sorted(kinds.items()):
        if any(has_kind(name, kind) for kind in compared):
            continue
        if held := [kind for kind in get_args(ScalarKind) if has_kind(name, kind)]:
            notes.append(
                f"the field {name!r} holds {_listed(held)}, "
                f"but the filter compares it with {_listed(compared)}"
            )
    return tuple(notes)


class FilterHint(str):
    """A note that is not an error in a strict search: the filter may be right."""

    __slots__ = ()


ALIKE = 0.75
"""How much of a text must be the same for it to be taken for a slip; letters only: a year that no
document has is not misspelt."""


def misspelt_value_notes(
    where: Filter, values_of: Callable[[str], Collection[str]]
) -> tuple[FilterHint, ...]:
    """A hint for each text that no document has in a field where a similar one exists.

    For filters that match nothing.
    """
    notes = []
    for name, value in _required_texts(where):
        known = values_of(name) if any(map(str.isalpha, value)) else ()
        if value not in known and (near := get_close_matches(value, known, n=1, cutoff=ALIKE)):
            notes.append(FilterHint(f"no document has {name} {value!r}; did you mean {near[0]!r}?"))
    return tuple(notes)


def _required_texts(where: Filter) -> Iterator[tuple[str, str]]:
    """Fields and the texts that they are to equal; of a list, only if it has one."""
    match where:
        case And(filters) | Or(filters):
            for part in filters:
                yield from _required_texts(part)
        case Eq(field=field, value=str(value)) | In(field=field, values=[str(value)]):
            yield field.name, value


def _listed(kinds: Collection[ScalarKind]) -> str:
    return " and ".join(name for kind, name in KINDS.items() if kind in kinds)
