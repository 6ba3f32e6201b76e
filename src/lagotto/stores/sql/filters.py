"""Filters as SQL conditions over documents and chunks, never NULL, so that NOT is exact."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    false,
    func,
    not_,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lagotto._internal.concurrency import checkpoint
from lagotto.documents import Chunk, Document, JsonScalar
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
    conditions,
    fields,
    matches,
    merged,
)
from lagotto.filters.algebra import ScalarKind, kind_of
from lagotto.filters.evaluate import metadata_fields, other_kind_notes, unknown_field_notes
from lagotto.indexes.base import ChunkKeys, FilterKeys
from lagotto.stores.sql.queries import NamedQuery, ReadConnection
from lagotto.stores.sql.query_compiler import ExpressionQuery
from lagotto.stores.sql.read import document_of, read_chunks
from lagotto.stores.sql.statements import OUTLINE_COLUMNS
from lagotto.stores.sql.tables import (
    AttributeRow,
    ChunkRow,
    DocumentRow,
    IsAmong,
    PageIsAmong,
    ValueList,
)

Bool = ColumnElement[bool]

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class StrPos(FunctionElement[int]):
    """The 1-based offset of the second text in the first; 0 if it does not occur."""

    type = Integer()
    inherit_cache = True


@compiles(StrPos)
def _instr(element: StrPos, compiler: SQLCompiler, **options: Any) -> str:
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
        return func.coalesce(StrPos(_column(field), value) > 0, false())
    element = and_(AttributeRow.in_list, AttributeRow.kind == kind_of(value))
    if isinstance(value, str):
        inside = and_(not_(AttributeRow.in_list), StrPos(AttributeRow.text_value, value) > 0)
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


PAGE = 500
"""Documents that a listing reads at once."""

AT_ONCE = 200
"""Conditions of one statement. SQLite takes 32,766 parameters and nests expressions up to 1,000
deep, which a condition adds one or two to; and planning takes longer than several statements."""

Page = tuple[list[Document], tuple[str, str] | None]
"""Documents, and the collection and id after which the next page starts."""

_FINDABLE_OF = NamedQuery("FINDABLE_OF_DOCUMENTS")
_HAS_FIELD = NamedQuery("HAS_FIELD")
_HAS_KIND = NamedQuery("HAS_KIND")
_FIELDS = NamedQuery("FIELDS")


def matching_documents(connection: Connection, where: Filter) -> Iterator[tuple[int, Document]]:
    """Keys and outlines of the documents that match, in order of collection and id."""
    where = merged(where)
    whole = concerns_chunks(where)  # the pages of a document stand in its structure
    columns = list(DocumentRow.__table__.columns) if whole else OUTLINE_COLUMNS
    statement = select(*columns).order_by(DocumentRow.collection, DocumentRow.id)
    if not whole:
        statement = statement.where(_meets(connection, where))
    for row in connection.execute(statement):
        document = document_of(row._mapping)
        if not whole or matches(where, document):
            yield row.key, document


def matching_page(
    connection: Connection, where: Filter, after: tuple[str, str] | None, *, size: int = PAGE
) -> Page:
    """The next documents that match, after a collection and id; and where the next page starts.

    A document that matches throughout is on exactly one page, whatever is written between them.
    """
    where = merged(where)
    whole = concerns_chunks(where)
    columns = list(DocumentRow.__table__.columns) if whole else OUTLINE_COLUMNS
    name = tuple_(DocumentRow.collection, DocumentRow.id)
    statement = select(*columns).order_by(*name.clauses).limit(size)
    if after is not None:
        statement = statement.where(name > after)
    if not whole:
        statement = statement.where(_meets(connection, where))
    rows = connection.execute(statement).all()
    documents = [document_of(row._mapping) for row in rows]
    last = (rows[-1].collection, rows[-1].id) if len(rows) == size else None
    return [item for item in documents if not whole or matches(where, item)], last


async def paged_documents(
    read: Callable[[Callable[[Connection], Page]], Awaitable[Page]], where: Filter
) -> AsyncIterator[Document]:
    """The documents that match, a page at a time; `read` asks one state of the base."""
    after: tuple[str, str] | None = None
    while True:
        page, after = await read(partial(matching_page, where=where, after=after))
        for document in page:
            yield document
        if after is None:
            return


class DocumentName(NamedTuple):
    """What a document is called: by the database, and by its collection and id."""

    key: int
    collection: str
    id: str


def matching_names(connection: Connection, where: Filter) -> list[DocumentName]:
    """Keys and names of the documents that match, in order of collection and id."""
    where = merged(where)
    if concerns_chunks(where):
        found = matching_documents(connection, where)
        return [DocumentName(key, item.collection, item.id) for key, item in found]
    columns = (DocumentRow.key, DocumentRow.collection, DocumentRow.id)
    statement = select(*columns).where(_meets(connection, where))
    rows = connection.execute(statement.order_by(DocumentRow.collection, DocumentRow.id))
    return [DocumentName(*row) for row in rows]


def read_matching_chunks(
    connection: Connection, where: Filter, collection: str, document_id: str
) -> list[Chunk]:
    """The chunks of a document, none unless it matches."""
    named = And(Eq("collection", collection), Eq("document_id", document_id), where)
    if not matching_names(connection, named):
        return []
    return read_chunks(connection, collection, document_id)


def resolve_filter(connection: ReadConnection, where: Filter) -> FilterKeys:
    """The chunks that can be found and match."""
    where = merged(where)
    if concerns_chunks(where):
        chunks = ExpressionQuery(chunks_that_match(connection, where).order_by(ChunkRow.key))
        return FilterKeys(_array(chunks.column(connection)), where=where)
    matching = select(DocumentRow.key).where(_meets(connection, where))
    documents = ExpressionQuery(matching).column(connection)
    keys = _FINDABLE_OF.column(connection, documents=documents)
    return FilterKeys(_array(keys), _array(documents), where)


def _array(keys: Sequence[int]) -> ChunkKeys:
    return np.fromiter(keys, np.int64, len(keys))


def filter_notes(
    connection: ReadConnection, where: Filter, *, matches_some: bool
) -> tuple[str, ...]:
    """Notes on the fields of a filter that no document has, or only with other kinds of values."""

    def has_kind(name: str, kind: str) -> bool:
        return bool(_HAS_KIND.scalar(connection, field=name, kind=kind))

    asked = metadata_fields(where)
    unknown = {name for name in asked if not _HAS_FIELD.scalar(connection, field=name)}
    if unknown:
        return unknown_field_notes(unknown, _FIELDS.column(connection))
    return () if matches_some else other_kind_notes(where, has_kind)


def chunks_that_match(connection: ReadConnection, where: Filter) -> Select[int]:
    """Asks for the keys of the chunks that can be found and match."""
    where = merged(where)
    found = select(ChunkRow.key).where(ChunkRow.level != "parent")
    met = _meets(connection, where)
    if concerns_chunks(where):
        found = found.join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        return found.where(met)
    return found.where(ChunkRow.document_key.in_(select(DocumentRow.key).where(met)))


def _meets(connection: ReadConnection, where: Filter) -> ColumnElement[bool]:
    """A merged filter as a condition; of one with many conditions, the keys of what matches."""
    if _size(where) <= AT_ONCE:
        return condition(where)
    key = ChunkRow.key if concerns_chunks(where) else DocumentRow.key
    rows = select(key)
    if concerns_chunks(where):
        rows = rows.join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
    keys = _keys(connection, where, rows).tolist()
    return IsAmong(key, bindparam(None, keys, ValueList("key")))


def _keys(connection: ReadConnection, where: Filter, rows: Select[int]) -> ChunkKeys:
    """The keys of those of `rows` that match: parts of a filter are asked for one by one."""
    checkpoint()
    if _size(where) <= AT_ONCE:
        return _array(ExpressionQuery(rows.where(condition(where))).column(connection))
    match where:
        case Not(inner):
            everything = _keys(connection, And(), rows)
            return np.setdiff1d(everything, _keys(connection, inner, rows))
        case And(filters):
            parts = (_keys(connection, part, rows) for part in _batches(And, filters))
            return reduce(np.intersect1d, parts)
        case Or(filters):
            parts = (_keys(connection, part, rows) for part in _batches(Or, filters))
            return reduce(np.union1d, parts)
    raise TypeError(f"not a filter: {where!r}")


def _batches(junction: type[And | Or], filters: Sequence[Filter]) -> Iterator[Filter]:
    """The parts of a junction, as many of them together as are asked for at once."""
    batch: list[Filter] = []
    size = 0
    for part in filters:
        if batch and size + _size(part) > AT_ONCE:
            yield junction(*batch) if len(batch) > 1 else batch[0]
            batch, size = [], 0
        batch.append(part)
        size += _size(part)
    yield junction(*batch) if len(batch) > 1 else batch[0]


def _size(where: Filter) -> int:
    return sum(1 for _ in conditions(where))
