"""Documents by collection and id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, and_, false, or_, select

from lagotto.documents import Document
from lagotto.stores.sql.tables import DocumentRow

T = TypeVar("T")

AT_ONCE = 500
"""How many values go into one IN list."""


def in_batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in as many as go into one IN list."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]


def is_named(names: Iterable[tuple[str, str]]) -> ColumnElement[bool]:
    """Whether a document has one of the names.

    SQLite searches the index for the ids of a collection, but reads it whole for a list of pairs.
    """
    groups = groupby(sorted(set(names)), key=lambda name: name[0])
    return or_(
        false(),
        *(
            and_(
                DocumentRow.collection == collection,
                DocumentRow.id.in_([document_id for _, document_id in group]),
            )
            for collection, group in groups
        ),
    )


def document_keys(
    connection: Connection, documents: Iterable[Document]
) -> dict[tuple[str, str], int]:
    """The keys of those documents that are stored."""
    return keys_by_name(connection, [(item.collection, item.id) for item in documents])


def keys_by_name(
    connection: Connection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """The keys of the documents with these collections and ids."""
    columns = select(DocumentRow.collection, DocumentRow.id, DocumentRow.key)
    found: dict[tuple[str, str], int] = {}
    for some in in_batches(names):
        statement = columns.where(is_named(some))
        found |= {(row[0], row[1]): row[2] for row in connection.execute(statement)}
    return found
