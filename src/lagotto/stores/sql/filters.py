"""Filters as SQL conditions over documents and chunks, never NULL, so that NOT is exact.

`Place` compiles to what SQLite has; another dialect registers its own form.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    and_,
    bindparam,
    false,
    func,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lagotto.documents import JsonScalar
from lagotto.filters import (
    And,
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
    Ne,
    Not,
    NotIn,
    Or,
    fields,
)
from lagotto.filters.operands import ScalarKind, kind_of
from lagotto.stores.sql.tables import AttributeRow, ChunkRow, DocumentRow
from lagotto.stores.sql.value_lists import IsAmong, PageIsAmong, ValueList

Bool = ColumnElement[bool]

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class Place(FunctionElement[int]):
    """The 1-based offset of the second text in the first; 0 if it does not occur."""

    type = Integer()
    inherit_cache = True


@compiles(Place)
def _instr(element: Place, compiler: SQLCompiler, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


def condition(root: Filter) -> Bool:
    """`root` as a condition on DocumentRow and, for `page`, on ChunkRow."""
    match root:
        case And(filters):
            return and_(true(), *map(condition, filters))
        case Or(filters):
            return or_(false(), *map(condition, filters))
        case Not(inner):
            return not_(condition(inner))
        case Ne(field, value):
            return not_(_equals(field, value))
        case NotIn(field, values):
            return not_(_any_of(field, values))
        case Condition(field):
            return _condition(root, field)
    raise TypeError(f"not a filter: {root!r}")


def concerns_chunks(root: Filter) -> bool:
    """Whether chunks of one document may differ in the answer."""
    return "page" in fields(root)


def _condition(root: Condition, field: FieldRef) -> Bool:
    match root:
        case Exists():
            return not_(_missing(field))
        case Eq(_, value):
            return _equals(field, value)
        case In(_, values):
            return _any_of(field, values)
        case Contains(_, value):
            return _contains(field, value)
        case Gt(_, value) | Gte(_, value) | Lt(_, value) | Lte(_, value):
            return _compares(field, root.operator, value)
    raise TypeError(f"not a condition: {root!r}")


def _any_of(field: FieldRef, values: Sequence[JsonScalar]) -> Bool:
    """One condition for all values of a kind: databases limit how many may be combined by OR."""
    by_kind: dict[ScalarKind | None, list[Any]] = {}
    for value in dict.fromkeys((kind_of(value), value) for value in values):
        by_kind.setdefault(value[0], []).append(value[1])
    missing = [_missing(field)] if by_kind.pop(None, None) else []
    met = [_is_among(field, kind, some) for kind, some in by_kind.items() if kind]
    return or_(false(), *missing, *met)


def _is_among(field: FieldRef, kind: ScalarKind, values: list[Any]) -> Bool:
    plain = [int(value) for value in values] if kind == "boolean" else values
    if field.name == "page":
        return _page_among(list(filter(_is_whole, plain)))
    given = bindparam(None, plain, ValueList("text" if kind == "text" else "number"))
    if field.path is None:
        return func.coalesce(IsAmong(_column(field), given), false())
    column = AttributeRow.text_value if kind == "text" else AttributeRow.number_value
    return _attribute(field, and_(AttributeRow.kind == kind, IsAmong(column, given)))


def _equals(field: FieldRef, value: JsonScalar) -> Bool:
    return _missing(field) if value is None else _compares(field, "$eq", value)


def _missing(field: FieldRef) -> Bool:
    if field.path is not None:
        return not_(_attribute(field, true()))
    if field.name == "page":
        return ChunkRow.page_first.is_(None)
    return _column(field).is_(None)


def _compares(field: FieldRef, name: str, value: JsonScalar) -> Bool:
    if field.name == "page":
        return _page(name, value)
    if field.path is None:
        return func.coalesce(_operate(_column(field), name, value), false())
    kind = kind_of(value)
    column = AttributeRow.text_value if kind == "text" else AttributeRow.number_value
    typed = AttributeRow.kind == kind
    return _attribute(field, and_(typed, _operate(column, name, value)))


def _contains(field: FieldRef, value: JsonScalar) -> Bool:
    if field.name == "page":
        return _page("$eq", value)
    if field.path is None:
        return func.coalesce(Place(_column(field), value) > 0, false())
    element = and_(AttributeRow.in_list, AttributeRow.kind == kind_of(value))
    if isinstance(value, str):
        inside = and_(not_(AttributeRow.in_list), Place(AttributeRow.text_value, value) > 0)
        equal = and_(element, AttributeRow.text_value == value)
        return _attribute(field, or_(inside, equal))
    return _attribute(field, and_(element, _operate(AttributeRow.number_value, "$eq", value)))


def _operate(
    column: ColumnElement[object] | InstrumentedAttribute[object], name: str, value: JsonScalar
) -> Bool:
    plain = int(value) if isinstance(value, bool) else value  # as AttributeRow has it
    met: Bool = _OPERATORS[name](column, plain)
    return met


def _page(name: str, value: JsonScalar) -> Bool:
    """Some page between the first and the last compares so with `value`."""
    first, last = ChunkRow.page_first, ChunkRow.page_last
    if name == "$eq":
        met: Bool = and_(first <= value, last >= value) if _is_whole(value) else false()
    elif name in ("$gt", "$gte"):
        met = _operate(last, name, value)
    else:
        met = _operate(first, name, value)
    return func.coalesce(met, false())


def _page_among(numbers: list[Any]) -> Bool:
    """Some page of a chunk is one of `numbers`; most chunks have two pages at most."""
    first, last = ChunkRow.page_first, ChunkRow.page_last
    pages = bindparam(None, numbers, ValueList("number"))
    between = and_(last > first + 1, PageIsAmong(first, last, pages))
    return func.coalesce(or_(IsAmong(first, pages), IsAmong(last, pages), between), false())


def _is_whole(value: JsonScalar) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _attribute(field: FieldRef, test: Bool) -> Bool:
    """Some value of the field passes; not correlated, so that the index leads the way."""
    return DocumentRow.key.in_(
        select(AttributeRow.document_key).where(AttributeRow.field == field.name, test)
    )


def _column(field: FieldRef) -> InstrumentedAttribute[object]:
    name = "id" if field.name == "document_id" else field.name
    column: InstrumentedAttribute[object] = getattr(DocumentRow, name)
    return column
