"""The fields of chunks as filters see them, for indexes that search through filters themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, select

from lagotto.documents import JsonScalar
from lagotto.filters.fields import RESERVED
from lagotto.indexes.base import ChunkFields, ChunkKeys
from lagotto.stores.sql.names import in_batches
from lagotto.stores.sql.tables import AttributeRow, ChunkRow, DocumentRow

Values = dict[str, tuple[JsonScalar, ...]]

_KEYS: BindParameter[int] = bindparam("keys", expanding=True)
_OWN = {
    name: getattr(DocumentRow, "id" if name == "document_id" else name)
    for name in RESERVED
    if name != "page"
}
_CHUNKS = select(
    ChunkRow.key, ChunkRow.document_key, ChunkRow.page_first, ChunkRow.page_last
).where(ChunkRow.key.in_(_KEYS), ChunkRow.level != "parent")
_DOCUMENTS = select(DocumentRow.key, *(column.label(name) for name, column in _OWN.items())).where(
    DocumentRow.key.in_(_KEYS)
)
_ATTRIBUTES = select(
    AttributeRow.document_key,
    AttributeRow.field,
    AttributeRow.kind,
    AttributeRow.text_value,
    AttributeRow.number_value,
).where(AttributeRow.document_key.in_(_KEYS), AttributeRow.kind != "group")


def read_fields(connection: Connection, keys: ChunkKeys) -> list[ChunkFields]:
    """The fields of those of `keys` that can be found."""
    chunks = [
        row
        for some in in_batches(keys.tolist())
        for row in connection.execute(_CHUNKS, {"keys": some})
    ]
    documents: dict[int, Values] = {}
    for some in in_batches(sorted({row.document_key for row in chunks})):
        documents |= _documents(connection, some)
    return [
        ChunkFields(
            row.key,
            str(documents[row.document_key]["collection"][0]),
            documents[row.document_key] | _pages(row.page_first, row.page_last),
        )
        for row in chunks
    ]


def _documents(connection: Connection, keys: Sequence[int]) -> dict[int, Values]:
    found: dict[int, Values] = {
        row.key: {name: (row._mapping[name],) for name in _OWN if row._mapping[name] is not None}
        for row in connection.execute(_DOCUMENTS, {"keys": keys})
    }
    values: dict[tuple[int, str], list[JsonScalar]] = defaultdict(list)
    for row in connection.execute(_ATTRIBUTES, {"keys": keys}):
        values[row.document_key, row.field].append(_value(row))
    for (document, field), some in values.items():
        found[document][field] = tuple(some)
    return found


def _value(row: Any) -> JsonScalar:
    """The value of an AttributeRow."""
    if row.kind == "text":
        return str(row.text_value)
    if row.kind == "boolean":
        return bool(row.number_value)
    number: int | float = row.number_value
    if isinstance(number, int | float):
        return number
    return int(number) if number == int(number) else float(number)  # a driver's decimal


def _pages(first: int | None, last: int | None) -> Values:
    return {} if first is None or last is None else {"page": tuple(range(first, last + 1))}
