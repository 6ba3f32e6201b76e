"""Writing documents with all that is derived from them, and the settings of a base.

As SQL text, as reading is: importing SQLAlchemy takes ten times as long as adding a document.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from lagotto.documents import Document, iso
from lagotto.errors import ReplaceRefusedError, StoreDamagedError
from lagotto.filters import And, In
from lagotto.indexes.vectors.rows import check_vectors
from lagotto.stores.base import EVERYTHING, BaseConfig, Entry, WriteGuard, agreed_config
from lagotto.stores.sql import read, statements
from lagotto.stores.sql.filters import matching_keys
from lagotto.stores.sql.statements import CURRENT, ReadConnection, Statement, WriteConnection

_PUT_SETTING = Statement(
    "INSERT INTO setting (name, value) VALUES (:name, :value) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_DELETE_SETTINGS = Statement("DELETE FROM setting WHERE name IN (:names text)")


def put_setting(connection: WriteConnection, name: str, value: str) -> None:
    _PUT_SETTING.run(connection, name=name, value=value)


def delete_settings(connection: WriteConnection, *names: str) -> None:
    _DELETE_SETTINGS.run(connection, names=names)


def put_config(connection: WriteConnection, config: BaseConfig) -> None:
    """Store what the chunks and vectors of the base are made with."""
    delete_settings(connection, *read.CONFIG)
    for name, value in config.model_dump(exclude_none=True).items():
        put_setting(connection, name, str(value))


def mark_copy(connection: WriteConnection, source: str | None) -> None:
    """Store whose unfinished copy the base is, None if it is none."""
    config = read.read_config(connection).model_copy(update={"unfinished_copy_of": source})
    put_config(connection, config)


def check_config(
    connection: WriteConnection, entries: Sequence[Entry], location: str
) -> tuple[BaseConfig, bool]:
    """Raise unless all entries were made as the base's others; the first one decides.

    Returns how they are made, and whether that was decided only now.
    """
    first = stored = read.read_config(connection)
    for entry in entries:
        stored = agreed_config(stored, entry, location=location)
    if stored != first:
        put_config(connection, stored)
    return stored, stored != first


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
    """The keys that documents, their chunk sets and all their chunks will have.

    And the number of their segment of an index in tables, if that is reserved.
    """

    documents: Sequence[int]
    sets: range
    chunks: range
    segment: int | None = None

    def findable(self, entries: Sequence[Entry]) -> list[int]:
        """The keys of the chunks of these entries that can be found."""
        levels = (chunk.level for entry in entries for chunk in entry.chunks)
        return [key for key, level in zip(self.chunks, levels, strict=True) if level != "parent"]


Insert = Callable[[Any, str, Sequence[dict[str, Any]]], None]
"""Puts rows into a table; a store may have a quicker way than `insert_rows`."""


def insert_rows(connection: WriteConnection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, which all have the same columns."""
    if rows:
        names = ", ".join(f'"{name}"' for name in rows[0])
        values = ", ".join(f":{name}" for name in rows[0])
        Statement(f"INSERT INTO {table} ({names}) VALUES ({values})").run_each(connection, rows)


def number_entries(connection: WriteConnection, entries: Sequence[Entry]) -> Numbers:
    """Take numbers for entries; those that end up unused do no harm."""
    return Numbers(
        take_range(connection, "document", len(entries)),
        take_range(connection, "chunk_set", len(entries)),
        take_range(connection, "change", sum(len(entry.chunks) for entry in entries)),
    )


def check_guard(
    connection: WriteConnection, guard: WriteGuard | None, documents: Sequence[Document]
) -> None:
    """Raise unless documents may be written; the caller holds their locks."""
    if guard is None:
        return
    if guard.lease is not None:
        rows = statements.KEYED_VALUE.rows(connection, kind=guard.lease.kind, name=guard.lease.name)
        guard.lease.check(read.keyed_value(rows[0]).value if rows else None)
    stored = read.document_keys(connection, documents)
    if not stored or guard.replaceable == EVERYTHING:
        return
    collections, ids = zip(*stored, strict=True)
    named_so = And(In("collection", set(collections)), In("document_id", ids))
    if refused := stored.keys() - matching_keys(connection, And(named_so, guard.replaceable)):
        raise ReplaceRefusedError(refused)


def write_entries(
    connection: WriteConnection,
    entries: Sequence[Entry],
    *,
    numbers: Numbers,
    generation: int,
    put: Insert = insert_rows,
) -> None:
    """Store entries, whose former documents are gone; EmbeddingError for non-unit vectors."""
    named = [(key, entry.document) for key, entry in zip(numbers.documents, entries, strict=True)]
    put(connection, "document", [read.document_row(key, document) for key, document in named])
    attributes = [row for key, document in named for row in read.attribute_rows(key, document)]
    put(connection, "attribute", attributes)
    write_chunks(connection, entries, numbers=numbers, generation=generation, put=put)


def write_chunks(
    connection: WriteConnection,
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
    rows: dict[str, list[dict[str, Any]]] = {
        table: [] for table in ("chunk_set", "chunk", "chunk_text", "embedding")
    }  # in the order in which they need each other
    for entry, key, set_key in zip(entries, numbers.documents, numbers.sets, strict=True):
        common = {"model_id": entry.model_id, "created_at": now, "generation": generation}
        rows["chunk_set"].append(
            {
                "key": set_key,
                "document_key": key,
                "content_hash": entry.document.content_hash,
                "chunker_id": entry.chunks[0].chunker_id if entry.chunks else "",
                **common,
            }
        )
        own = islice(chunk_numbers, len(entry.chunks))
        chunks = [
            read.chunk_row(number, key, set_key, chunk) | {"generation": generation}
            for number, chunk in zip(own, entry.chunks, strict=True)
        ]
        rows["chunk"] += chunks
        if len(text := entry.document.text) > longest_short_text(connection):
            rows["chunk_text"] += [
                {"chunk_key": row["key"], "text": text[row["start"] : row["end"]]} for row in chunks
            ]
        findable = [row["key"] for row in chunks if row["level"] != "parent"]
        rows["embedding"] += [
            {"chunk_key": number, "vector": vector.astype("<f4").tobytes(), **common}
            for number, vector in zip(findable, entry.vectors, strict=True)
        ]
    for table, some in rows.items():
        put(connection, table, some)


_STILL_SAME = (
    "WHERE key = :key AND content_hash = :content_hash "
    "AND coalesce(language, '') = coalesce(CAST(:language AS TEXT), '')"
)
_DELETE_ATTRIBUTES = Statement("DELETE FROM attribute WHERE document_key = :key")
_DELETE_DOCUMENTS = Statement("DELETE FROM document WHERE key IN (:keys key)")
_COUNT_CHUNKS = Statement("SELECT count(*) FROM chunk WHERE document_key IN (:keys key)")
_NOTE_REMOVALS = Statement("""
INSERT INTO removal (sequence, chunk_key, generation)
SELECT :former + row_number() OVER (ORDER BY key), key, generation
FROM chunk WHERE document_key IN (:keys key)
""")


def update_documents(
    connection: WriteConnection, documents: Sequence[Document], guard: WriteGuard | None = None
) -> None:
    """Store other metadata for documents whose chunks stay as they are.

    One that another process has removed or given other content (or another language, which other
    terms come from) is left alone, as if that had happened a moment later.
    """
    check_guard(connection, guard, documents)
    keys = read.document_keys(connection, documents)
    updated: list[int] = []
    for document in documents:
        key = keys.get((document.collection, document.id), 0)
        row = read.document_row(key, document)
        columns = ", ".join(f"{name} = :{name}" for name in row)
        if Statement(f"UPDATE document SET {columns} {_STILL_SAME}").run(connection, **row):
            _DELETE_ATTRIBUTES.run(connection, key=key)
            insert_rows(connection, "attribute", read.attribute_rows(key, document))
            updated.append(key)
    numbers = take_range(connection, "change", len(updated))
    changes = zip(numbers, updated, strict=True)
    rows = [{"sequence": number, "document_key": key} for number, key in changes]
    insert_rows(connection, "metadata_update", rows)
    note_change(connection)


def remove_documents(connection: WriteConnection, keys: Sequence[int]) -> None:
    """Delete documents; what is derived goes with them."""
    _DELETE_DOCUMENTS.run(connection, keys=list(keys))


def note_removals(connection: WriteConnection, keys: Sequence[int]) -> None:
    """Record the removal of the chunks of documents in the change log."""
    documents = list(keys)
    count = _COUNT_CHUNKS.scalar(connection, keys=documents)
    former = take_numbers(connection, "change", count) - count
    _NOTE_REMOVALS.run(connection, keys=documents, former=former)


_NOTE_CHANGE = Statement(f"""
INSERT INTO history (state, change, token, generation) VALUES (
    :state, (SELECT value FROM counter WHERE name = 'change'), :token,
    coalesce(CAST(:generation AS BIGINT), {CURRENT})
) RETURNING change
""")
_PRUNE_HISTORY = Statement(
    f"DELETE FROM history WHERE (state <= :state OR change <= :change) AND generation = {CURRENT} "
    "RETURNING change"
)
_PRUNE_LOG = [
    Statement(f"DELETE FROM {table} WHERE sequence <= :change")
    for table in ("removal", "metadata_update")
]
_TAKE = Statement("UPDATE counter SET value = value + :count WHERE name = :name RETURNING value")


def note_change(connection: WriteConnection, generation: int | None = None) -> None:
    """Record a commit: a new state of a generation, the current one for None, with its own token.

    The last thing that a transaction does, since other writers wait from here on.
    """
    state = take_numbers(connection, "state", 1)
    row = {"state": state, "token": new_token(), "generation": generation}
    change = _NOTE_CHANGE.scalar(connection, **row)
    if generation is not None:
        return
    # Delete old commits, and what no index could ask for any more without their tokens.
    limits = {"state": state - HISTORY_KEPT, "change": change - CHANGES_KEPT}
    if gone := _PRUNE_HISTORY.column(connection, **limits):
        for statement in _PRUNE_LOG:
            statement.run(connection, change=max(gone))


def start_history(connection: WriteConnection) -> None:
    insert_rows(connection, "history", [{"state": 0, "change": 0, "token": new_token()}])


def new_token() -> int:
    """A random token for a commit; 0 is that of an index which has seen no change."""
    return secrets.randbits(62) + 1


def take_numbers(connection: WriteConnection, counter: str, count: int) -> int:
    """Take the next `count` numbers of a counter; the last one taken."""
    last = _TAKE.scalar(connection, name=counter, count=count)
    if last is None:
        raise StoreDamagedError(f"the counter {counter} is missing; restore the base from a backup")
    return int(last)


def take_range(connection: WriteConnection, counter: str, count: int) -> range:
    last = take_numbers(connection, counter, count)
    return range(last - count + 1, last + 1)
