"""Documents and chunks that match a filter; plain functions over a connection, as in `read`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, Select, select, tuple_

from lagotto.documents import Document
from lagotto.filters import Filter, matches
from lagotto.filters.field_notes import (
    metadata_fields,
    other_kind_notes,
    unknown_field_notes,
)
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.stores.sql.filters import concerns_chunks, condition
from lagotto.stores.sql.queries import NamedQuery, ReadConnection
from lagotto.stores.sql.query_compiler import ExpressionQuery
from lagotto.stores.sql.rows import document_of
from lagotto.stores.sql.statements import OUTLINE_COLUMNS
from lagotto.stores.sql.tables import ChunkRow, DocumentRow

PAGE = 500
"""Documents that a listing reads at once."""

Page = tuple[list[Document], tuple[str, str] | None]
"""Documents, and the collection and id after which the next page starts."""

_FINDABLE_OF = NamedQuery("FINDABLE_OF_DOCUMENTS")
_HAS_FIELD = NamedQuery("HAS_FIELD")
_HAS_KIND = NamedQuery("HAS_KIND")
_FIELDS = NamedQuery("FIELDS")


def matching_documents(connection: Connection, where: Filter) -> Iterator[tuple[int, Document]]:
    """Keys and outlines of the documents that match, in order of collection and id."""
    whole = concerns_chunks(where)  # the pages of a document stand in its structure
    columns = list(DocumentRow.__table__.columns) if whole else OUTLINE_COLUMNS
    statement = select(*columns).order_by(DocumentRow.collection, DocumentRow.id)
    if not whole:
        statement = statement.where(condition(where))
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
    whole = concerns_chunks(where)
    columns = list(DocumentRow.__table__.columns) if whole else OUTLINE_COLUMNS
    name = tuple_(DocumentRow.collection, DocumentRow.id)
    statement = select(*columns).order_by(*name.clauses).limit(size)
    if after is not None:
        statement = statement.where(name > after)
    if not whole:
        statement = statement.where(condition(where))
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
    if concerns_chunks(where):
        found = matching_documents(connection, where)
        return [DocumentName(key, item.collection, item.id) for key, item in found]
    columns = (DocumentRow.key, DocumentRow.collection, DocumentRow.id)
    statement = select(*columns).where(condition(where))
    rows = connection.execute(statement.order_by(DocumentRow.collection, DocumentRow.id))
    return [DocumentName(*row) for row in rows]


def resolve_filter(connection: ReadConnection, where: Filter) -> FilterKeys:
    """The chunks that can be found and match."""
    if concerns_chunks(where):
        chunks = ExpressionQuery(chunks_that_match(where).order_by(ChunkRow.key))
        return FilterKeys(_array(chunks.column(connection)), where=where)
    matching = select(DocumentRow.key).where(condition(where))
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


def chunks_that_match(where: Filter) -> Select[int]:
    """Asks for the keys of the chunks that can be found and match."""
    found = select(ChunkRow.key).where(ChunkRow.level != "parent")
    if concerns_chunks(where):
        found = found.join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        return found.where(condition(where))
    documents = select(DocumentRow.key).where(condition(where))
    return found.where(ChunkRow.document_key.in_(documents))
