"""Writing documents with all that is derived from them, and the settings of a base."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

from sqlalchemy import BigInteger, Connection, cast, delete, insert, or_, select, update

from lagotto.documents import Document, iso
from lagotto.errors import ReplaceRefusedError
from lagotto.filters import And, In
from lagotto.indexes.vectors.rows import check_vectors
from lagotto.stores.base import EVERYTHING, BaseConfig, Entry, WriteGuard, agreed_config
from lagotto.stores.sql.filters import matching_names
from lagotto.stores.sql.read import (
    CONFIG,
    attribute_rows,
    chunk_row,
    document_keys,
    document_row,
    in_batches,
    read_config,
)
from lagotto.stores.sql.statements import ReadConnection
from lagotto.stores.sql.tables import (
    AttributeRow,
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    Counter,
    DocumentRow,
    EmbeddingRow,
    HistoryRow,
    KeyedValueRow,
    MetadataUpdateRow,
    RemovalRow,
    Setting,
    Tables,
)


def put_setting(connection: Connection, name: str, value: str) -> None:
    connection.execute(delete(Setting).where(Setting.name == name))
    connection.execute(insert(Setting).values(name=name, value=value))


def put_config(connection: Connection, config: BaseConfig) -> None:
    """Store what the chunks and vectors of the base are made with."""
    connection.execute(delete(Setting).where(Setting.name.in_(CONFIG)))
    stored = config.model_dump(exclude_none=True)
    connection.execute(
        insert(Setting), [{"name": name, "value": str(value)} for name, value in stored.items()]
    )


def mark_copy(connection: Connection, source: str | None) -> None:
    """Store whose unfinished copy the base is, None if it is none."""
    config = read_config(connection).model_copy(update={"unfinished_copy_of": source})
    put_config(connection, config)


def check_config(
    connection: Connection, entries: Sequence[Entry], location: str
) -> tuple[BaseConfig, bool]:
    """Raise unless all entries were made as the base's others; the first one decides.

    Returns how they are made, and whether that was decided only now.
    """
    first = stored = read_config(connection)
    for entry in entries:
        stored = agreed_config(stored, entry, location=location)
    if stored != first:
        put_config(connection, stored)
    return stored, stored != first


CURRENT = (
    select(cast(Setting.value, BigInteger)).where(Setting.name == "generation").scalar_subquery()
)
"""The generation that searches see."""

HISTORY_KEPT = 100_000
CHANGES_KEPT = 1_000_000
"""Commits and changes that the log keeps. An index that is further behind does not find the token
of its position, and is rebuilt, which takes no longer than to apply as many changes."""


SHORT_TEXT = 2_000
"""Characters of a document whose chunks are cut out of it when they are read: that takes no longer
than to read rows of their own, which would be a sixth of a file of short documents."""


def longest_short_text(connection: ReadConnection) -> int:
    """Chunks of documents with at most so many characters have no texts of their own."""
    return SHORT_TEXT if connection.dialect.name == "sqlite" else 0


class Numbers(NamedTuple):
    """The keys that documents, their chunk sets and all their chunks will have."""

    documents: Sequence[int]
    sets: range
    chunks: range


class Insert(Protocol):
    """Puts rows into a table; a store may have a quicker way than the usual one."""

    def __call__(
        self, connection: Connection, table: type[Tables], rows: Sequence[dict[str, Any]], /
    ) -> None: ...


def insert_rows(
    connection: Connection, table: type[Tables], rows: Sequence[dict[str, Any]]
) -> None:
    if rows:
        connection.execute(insert(table), rows)


def number_entries(connection: Connection, entries: Sequence[Entry]) -> Numbers:
    """Take numbers for entries; those that end up unused do no harm."""
    return Numbers(
        take_range(connection, "document", len(entries)),
        take_range(connection, "chunk_set", len(entries)),
        take_range(connection, "change", sum(len(entry.chunks) for entry in entries)),
    )


def check_guard(
    connection: Connection, guard: WriteGuard | None, documents: Sequence[Document]
) -> None:
    """Raise unless documents may be written; the caller holds their locks."""
    if guard is None:
        return
    if guard.lease is not None:
        named = (KeyedValueRow.kind == guard.lease.kind, KeyedValueRow.name == guard.lease.name)
        guard.lease.check(connection.scalar(select(KeyedValueRow.value).where(*named)))
    stored = document_keys(connection, documents)
    if not stored or guard.replaceable == EVERYTHING:
        return
    collections, ids = zip(*stored, strict=True)
    named_so = And(In("collection", set(collections)), In("document_id", ids))
    allowed = matching_names(connection, And(named_so, guard.replaceable))
    if refused := stored.keys() - {(item.collection, item.id) for item in allowed}:
        raise ReplaceRefusedError(refused)


def write_entries(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    numbers: Numbers,
    generation: int,
    put: Insert = insert_rows,
) -> None:
    """Store entries, whose former documents are gone; EmbeddingError for non-unit vectors."""
    named = [(key, entry.document) for key, entry in zip(numbers.documents, entries, strict=True)]
    put(connection, DocumentRow, [document_row(key, document) for key, document in named])
    attributes = [row for key, document in named for row in attribute_rows(key, document)]
    put(connection, AttributeRow, attributes)
    write_chunks(connection, entries, numbers=numbers, generation=generation, put=put)


def write_chunks(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    numbers: Numbers,
    generation: int,
    put: Insert = insert_rows,
) -> None:
    """Store what a generation has of entries, whose documents are stored."""
    for entry in entries:
        check_vectors(entry.vectors, dimension=entry.vectors.shape[1])
    now, chunk_numbers = iso(datetime.now(UTC)), iter(numbers.chunks)
    rows: dict[type[Tables], list[dict[str, Any]]] = {
        table: [] for table in (ChunkSetRow, ChunkRow, ChunkTextRow, EmbeddingRow)
    }  # in the order in which they need each other
    for entry, key, set_key in zip(entries, numbers.documents, numbers.sets, strict=True):
        made = {"model_id": entry.model_id, "created_at": now, "generation": generation}
        rows[ChunkSetRow].append(
            {
                "key": set_key,
                "document_key": key,
                "content_hash": entry.document.content_hash,
                "chunker_id": entry.chunks[0].chunker_id if entry.chunks else "",
                **made,
            }
        )
        own = islice(chunk_numbers, len(entry.chunks))
        chunks = [
            chunk_row(number, key, set_key, chunk) | {"generation": generation}
            for number, chunk in zip(own, entry.chunks, strict=True)
        ]
        rows[ChunkRow] += chunks
        if len(text := entry.document.text) > longest_short_text(connection):
            rows[ChunkTextRow] += [
                {"chunk_key": row["key"], "text": text[row["start"] : row["end"]]} for row in chunks
            ]
        findable = [row["key"] for row in chunks if row["level"] != "parent"]
        rows[EmbeddingRow] += [
            {"chunk_key": number, "vector": vector.astype("<f4").tobytes(), **made}
            for number, vector in zip(findable, entry.vectors, strict=True)
        ]
    for table, some in rows.items():
        put(connection, table, some)


def update_documents(connection: Connection, documents: Sequence[Document]) -> None:
    """Store other metadata for documents whose chunks stay as they are.

    One that another process has removed or given other content (or another language, which other
    terms come from) is left alone, as if that had happened a moment later.
    """
    keys = document_keys(connection, documents)
    updated: list[int] = []
    for document in documents:
        key = keys.get((document.collection, document.id), 0)
        same = (
            DocumentRow.key == key,
            DocumentRow.content_hash == document.content_hash,
            DocumentRow.language.is_not_distinct_from(document.language),
        )
        row = document_row(key, document)
        if connection.execute(update(DocumentRow).where(*same).values(row)).rowcount:
            connection.execute(delete(AttributeRow).where(AttributeRow.document_key == key))
            insert_rows(connection, AttributeRow, attribute_rows(key, document))
            updated.append(key)
    numbers = take_range(connection, "change", len(updated))
    changes = zip(numbers, updated, strict=True)
    rows = [{"sequence": number, "document_key": key} for number, key in changes]
    insert_rows(connection, MetadataUpdateRow, rows)


def remove_documents(connection: Connection, keys: Sequence[int]) -> None:
    """Delete documents; what is derived goes with them."""
    for some in in_batches(keys):
        connection.execute(delete(DocumentRow).where(DocumentRow.key.in_(some)))


def note_removals(connection: Connection, keys: Sequence[int]) -> None:
    """Record the removal of the chunks of documents in the change log."""
    for some in in_batches(keys):
        chunks = select(ChunkRow.key, ChunkRow.generation)
        gone = connection.execute(chunks.where(ChunkRow.document_key.in_(some))).all()
        numbers = take_range(connection, "change", len(gone))
        removals = [
            {"sequence": number, "chunk_key": key, "generation": generation}
            for number, (key, generation) in zip(numbers, gone, strict=True)
        ]
        insert_rows(connection, RemovalRow, removals)


def note_change(connection: Connection, generation: int | None = None) -> None:
    """Record a commit: a new state of a generation, the current one for None, with its own token.

    The last thing that a transaction does, since other writers wait from here on.
    """
    state = take_numbers(connection, "state", 1)
    last = select(Counter.value).where(Counter.name == "change").scalar_subquery()
    row = {"state": state, "change": last, "token": new_token()}
    row["generation"] = CURRENT if generation is None else generation
    change = connection.scalar(insert(HistoryRow).values(row).returning(HistoryRow.change)) or 0
    if generation is not None:
        return
    # Delete old commits, and what no index could ask for any more without their tokens.
    old = or_(HistoryRow.state <= state - HISTORY_KEPT, HistoryRow.change <= change - CHANGES_KEPT)
    pruned = delete(HistoryRow).where(old, HistoryRow.generation == CURRENT)
    if gone := connection.scalars(pruned.returning(HistoryRow.change)).all():
        for table in (RemovalRow, MetadataUpdateRow):
            connection.execute(delete(table).where(table.sequence <= max(gone)))


def start_history(connection: Connection) -> None:
    connection.execute(insert(HistoryRow).values(state=0, change=0, token=new_token()))


def new_token() -> int:
    """A random token for a commit; 0 is that of an index which has seen no change."""
    return secrets.randbits(62) + 1


def take_numbers(connection: Connection, counter: str, count: int) -> int:
    """Take the next `count` numbers of a counter; the last one taken."""
    taken = update(Counter).where(Counter.name == counter).values(value=Counter.value + count)
    return int(connection.execute(taken.returning(Counter.value)).scalar_one())


def take_range(connection: Connection, counter: str, count: int) -> range:
    last = take_numbers(connection, counter, count)
    return range(last - count + 1, last + 1)
