"""Writing documents with all that is derived from them, inside the caller's transaction.

Plain functions over a Connection: an embedded store runs them in a thread, one behind a network by
`AsyncConnection.run_sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from lagotto.documents import Document, iso
from lagotto.stores.base import Entry
from lagotto.stores.rows import attribute_rows, chunk_row, document_row
from lagotto.stores.tables import (
    AttributeRow,
    ChunkRow,
    ChunkSetRow,
    Counter,
    DocumentRow,
    EmbeddingRow,
    RemovalRow,
)

AT_ONCE = 500
"""How many values go into one IN list."""


def write_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Store each entry in place of the document of the same collection and id."""
    former = document_keys(connection, [entry.document for entry in entries])
    remove_documents(connection, list(former.values()))
    for entry in entries:
        _insert(connection, entry)
    take_numbers(connection, "state", 1)


def update_documents(connection: Connection, documents: Sequence[Document]) -> None:
    """Store other metadata for documents whose chunks stay as they are.

    One that another process has removed or given other content is left alone, as if that had
    happened a moment later.
    """
    keys = document_keys(connection, documents)
    for document in documents:
        key = keys.get((document.collection, document.id), 0)
        same = (DocumentRow.key == key, DocumentRow.content_hash == document.content_hash)
        row = document_row(key, document)
        if connection.execute(update(DocumentRow).where(*same).values(row)).rowcount:
            connection.execute(delete(AttributeRow).where(AttributeRow.document_key == key))
            _insert_all(connection, AttributeRow, attribute_rows(key, document))
    take_numbers(connection, "state", 1)


def remove_documents(connection: Connection, keys: Sequence[int]) -> None:
    """Delete documents; what is derived goes with them, and indexes are told."""
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        of_these = select(ChunkRow.key).where(ChunkRow.document_key.in_(some))
        gone = list((connection.scalars(of_these)).all())
        last = take_numbers(connection, "change", len(gone))
        removals: list[dict[str, object]] = [
            {"sequence": last - len(gone) + number, "chunk_key": key}
            for number, key in enumerate(gone, 1)
        ]
        _insert_all(connection, RemovalRow, removals)
        connection.execute(delete(DocumentRow).where(DocumentRow.key.in_(some)))
    if keys:
        take_numbers(connection, "state", 1)


def document_keys(
    connection: Connection, documents: Sequence[Document]
) -> dict[tuple[str, str], int]:
    """The keys of those documents that are stored."""
    found: dict[tuple[str, str], int] = {}
    for start in range(0, len(documents), AT_ONCE):
        names = [(item.collection, item.id) for item in documents[start : start + AT_ONCE]]
        rows = connection.execute(
            select(DocumentRow.collection, DocumentRow.id, DocumentRow.key).where(
                tuple_(DocumentRow.collection, DocumentRow.id).in_(names)
            )
        )
        found |= {(collection, name): key for collection, name, key in rows}
    return found


def take_numbers(connection: Connection, counter: str, count: int) -> int:
    """Take the next `count` numbers of a counter; the last one taken."""
    statement = (
        update(Counter)
        .where(Counter.name == counter)
        .values(value=Counter.value + count)
        .returning(Counter.value)
    )
    return int((connection.execute(statement)).scalar_one())


def _insert(connection: Connection, entry: Entry) -> None:
    document = entry.document
    key = take_numbers(connection, "document", 1)
    connection.execute(insert(DocumentRow).values(document_row(key, document)))
    _insert_all(connection, AttributeRow, attribute_rows(key, document))
    if not entry.chunks:
        return
    set_key = take_numbers(connection, "chunk_set", 1)
    connection.execute(
        insert(ChunkSetRow).values(
            key=set_key,
            document_key=key,
            content_hash=document.content_hash,
            chunker_id=entry.chunks[0].chunker_id,
            model_id=entry.model_id,
            created_at=iso(datetime.now(UTC)),
        )
    )
    _insert_chunks(connection, entry, key, set_key)


def _insert_chunks(connection: Connection, entry: Entry, document_key: int, set_key: int) -> None:
    last = take_numbers(connection, "change", len(entry.chunks))
    keys = range(last - len(entry.chunks) + 1, last + 1)
    rows = [
        chunk_row(key, document_key, set_key, chunk)
        for key, chunk in zip(keys, entry.chunks, strict=True)
    ]
    _insert_all(connection, ChunkRow, rows)
    findable = [row["key"] for row in rows if row["level"] != "parent"]
    vectors = [
        {"chunk_key": key, "model_id": entry.model_id, "vector": vector.astype("<f4").tobytes()}
        for key, vector in zip(findable, entry.vectors, strict=True)
    ]
    _insert_all(connection, EmbeddingRow, vectors)


def _insert_all(connection: Connection, table: type[object], rows: list[dict[str, object]]) -> None:
    if rows:
        connection.execute(insert(table), rows)
