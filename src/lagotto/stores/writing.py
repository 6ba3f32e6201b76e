"""Writing documents with all that is derived from them, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

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


async def write_entries(connection: AsyncConnection, entries: Sequence[Entry]) -> None:
    """Store each entry in place of the document of the same collection and id."""
    former = await document_keys(connection, [entry.document for entry in entries])
    await remove_documents(connection, list(former.values()))
    for entry in entries:
        await _insert(connection, entry)
    await take_numbers(connection, "state", 1)


async def update_documents(connection: AsyncConnection, documents: Sequence[Document]) -> None:
    """Store other metadata for documents whose chunks stay as they are."""
    keys = await document_keys(connection, documents)
    for document in documents:
        key = keys[document.collection, document.id]
        row = document_row(key, document)
        await connection.execute(update(DocumentRow).where(DocumentRow.key == key).values(row))
        await connection.execute(delete(AttributeRow).where(AttributeRow.document_key == key))
        await _insert_all(connection, AttributeRow, attribute_rows(key, document))
    await take_numbers(connection, "state", 1)


async def remove_documents(connection: AsyncConnection, keys: Sequence[int]) -> None:
    """Delete documents; what is derived goes with them, and indexes are told."""
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        of_these = select(ChunkRow.key).where(ChunkRow.document_key.in_(some))
        gone = list((await connection.scalars(of_these)).all())
        last = await take_numbers(connection, "change", len(gone))
        removals: list[dict[str, object]] = [
            {"sequence": last - len(gone) + number, "chunk_key": key}
            for number, key in enumerate(gone, 1)
        ]
        await _insert_all(connection, RemovalRow, removals)
        await connection.execute(delete(DocumentRow).where(DocumentRow.key.in_(some)))
    if keys:
        await take_numbers(connection, "state", 1)


async def document_keys(
    connection: AsyncConnection, documents: Sequence[Document]
) -> dict[tuple[str, str], int]:
    """The keys of those documents that are stored."""
    found: dict[tuple[str, str], int] = {}
    for start in range(0, len(documents), AT_ONCE):
        names = [(item.collection, item.id) for item in documents[start : start + AT_ONCE]]
        rows = await connection.execute(
            select(DocumentRow.collection, DocumentRow.id, DocumentRow.key).where(
                tuple_(DocumentRow.collection, DocumentRow.id).in_(names)
            )
        )
        found |= {(collection, name): key for collection, name, key in rows}
    return found


async def take_numbers(connection: AsyncConnection, counter: str, count: int) -> int:
    """Take the next `count` numbers of a counter; the last one taken."""
    statement = (
        update(Counter)
        .where(Counter.name == counter)
        .values(value=Counter.value + count)
        .returning(Counter.value)
    )
    return int((await connection.execute(statement)).scalar_one())


async def _insert(connection: AsyncConnection, entry: Entry) -> None:
    document = entry.document
    key = await take_numbers(connection, "document", 1)
    await connection.execute(insert(DocumentRow).values(document_row(key, document)))
    await _insert_all(connection, AttributeRow, attribute_rows(key, document))
    if not entry.chunks:
        return
    set_key = await take_numbers(connection, "chunk_set", 1)
    await connection.execute(
        insert(ChunkSetRow).values(
            key=set_key,
            document_key=key,
            content_hash=document.content_hash,
            chunker_id=entry.chunks[0].chunker_id,
            model_id=entry.model_id,
            created_at=iso(datetime.now(UTC)),
        )
    )
    await _insert_chunks(connection, entry, key, set_key)


async def _insert_chunks(
    connection: AsyncConnection, entry: Entry, document_key: int, set_key: int
) -> None:
    last = await take_numbers(connection, "change", len(entry.chunks))
    keys = range(last - len(entry.chunks) + 1, last + 1)
    rows = [
        chunk_row(key, document_key, set_key, chunk)
        for key, chunk in zip(keys, entry.chunks, strict=True)
    ]
    await _insert_all(connection, ChunkRow, rows)
    findable = [row["key"] for row in rows if row["level"] != "parent"]
    vectors = [
        {"chunk_key": key, "model_id": entry.model_id, "vector": vector.astype("<f4").tobytes()}
        for key, vector in zip(findable, entry.vectors, strict=True)
    ]
    await _insert_all(connection, EmbeddingRow, vectors)


async def _insert_all(
    connection: AsyncConnection, table: type[object], rows: list[dict[str, object]]
) -> None:
    if rows:
        await connection.execute(insert(table), rows)
