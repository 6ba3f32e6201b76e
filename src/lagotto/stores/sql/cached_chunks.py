"""Chunks made at query time as rows.

A row holds all chunks that one chunker made of one content of a document, with their vectors under
one model. It is deleted with its document (a document is written by replacing its row), and a row
that fails its checksum is not used. The text of a chunk is cut from its document; its id and
ordinal are computed. Plain functions over a Connection, as in `write`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    false,
    insert,
    or_,
    select,
    tuple_,
)

from lagotto.documents import Chunk, Document, Span, chunk_id, iso
from lagotto.stores.base import CachedChunks, CacheKey
from lagotto.stores.sql.queries import in_batches
from lagotto.stores.sql.tables import ChunkCacheRow, DocumentRow

FORMAT = 3
"""Increased whenever the row format changes; rows of another format fail their checksum."""

KEPT = (
    "level",
    "start",
    "end",
    "token_count",
    "pages",
    "heading_path",
    "element",
    "row_range",
    "item_range",
    "lines",
    "sections",
)
"""The fields of a chunk that are kept, in this order, followed by the index of its parent."""

_KEY = tuple_(
    DocumentRow.collection,
    DocumentRow.id,
    ChunkCacheRow.content_hash,
    ChunkCacheRow.chunker_id,
    ChunkCacheRow.model_id,
)
_CONTENTS = (
    ChunkCacheRow.chunks,
    ChunkCacheRow.vectors,
    ChunkCacheRow.checksum,
    ChunkCacheRow.created_at,
    ChunkCacheRow.expires_at,
)


def load_sets(
    connection: Connection, keys: Sequence[CacheKey]
) -> tuple[dict[CacheKey, CachedChunks], list[CacheKey]]:
    """What is kept and has not expired, of `keys`, and the keys of damaged rows."""
    now = iso(datetime.now(UTC))
    found: dict[CacheKey, CachedChunks] = {}
    bad: list[CacheKey] = []
    for some in in_batches(keys):
        statement = (
            select(*_KEY.clauses, DocumentRow.text, *_CONTENTS)
            .select_from(ChunkCacheRow)
            .join(DocumentRow, DocumentRow.key == ChunkCacheRow.document_key)
            # Chunks are cut from the document's text, which must be the one that was split.
            .where(DocumentRow.content_hash == ChunkCacheRow.content_hash)
            .where(is_named(key[:2] for key in some), _KEY.in_(some))
        )
        for row in connection.execute(statement):
            key = CacheKey(*row[: len(CacheKey._fields)])
            kept = cached_chunks(key, row._mapping)
            if kept is None:
                bad.append(key)
            elif row.expires_at is None or row.expires_at > now:
                found[key] = kept
    return found, bad


def save_sets(
    connection: Connection, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None
) -> None:
    """Save sets whose documents still have this content, and delete expired ones."""
    now = datetime.now(UTC)
    expires = None if ttl is None else iso(now + timedelta(seconds=ttl))
    connection.execute(delete(ChunkCacheRow).where(ChunkCacheRow.expires_at <= iso(now)))
    documents = _current_documents(connection, entries)
    kept = {key: entry for key, entry in entries.items() if key[:3] in documents}
    delete_sets(connection, list(kept))
    rows = [
        cache_row(documents[key[:3]], key, entry, created_at=iso(now), expires_at=expires)
        for key, entry in kept.items()
    ]
    if rows:
        connection.execute(insert(ChunkCacheRow), rows)


def delete_sets(connection: Connection, keys: Sequence[CacheKey]) -> None:
    """Delete sets."""
    for key in keys:
        document = (
            select(DocumentRow.key)
            .where(DocumentRow.collection == key.collection, DocumentRow.id == key.document_id)
            .scalar_subquery()
        )
        connection.execute(
            delete(ChunkCacheRow).where(
                ChunkCacheRow.document_key == document,
                ChunkCacheRow.content_hash == key.content_hash,
                ChunkCacheRow.chunker_id == key.chunker_id,
                ChunkCacheRow.model_id == key.model_id,
            )
        )


def delete_all(connection: Connection) -> int:
    """Delete all sets; how many there were."""
    return connection.execute(delete(ChunkCacheRow)).rowcount


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


def _current_documents(
    connection: Connection, keys: Mapping[CacheKey, object]
) -> dict[tuple[str, ...], int]:
    """Keys of the documents that still have the content, by collection, id and content."""
    named = tuple_(DocumentRow.collection, DocumentRow.id, DocumentRow.content_hash)
    wanted = sorted({key[:3] for key in keys})
    found: dict[tuple[str, ...], int] = {}
    for some in in_batches(wanted):
        statement = select(*named.clauses, DocumentRow.key).where(
            is_named(key[:2] for key in some), named.in_(some)
        )
        found |= {tuple(row[:3]): row.key for row in connection.execute(statement)}
    return found


def cache_row(
    document_key: int,
    key: CacheKey,
    entry: CachedChunks,
    *,
    created_at: str,
    expires_at: str | None,
) -> dict[str, Any]:
    """The row of a set of chunks."""
    indices = {chunk.id: index for index, chunk in enumerate(entry.chunks)}
    spans = [
        [*(getattr(chunk, field) for field in KEPT), indices.get(chunk.parent_id or "")]
        for chunk in entry.chunks
    ]
    contents = {"dimension": entry.vectors.shape[1], "spans": spans}
    row = {
        "content_hash": key.content_hash,
        "chunker_id": key.chunker_id,
        "model_id": key.model_id,
        "chunks": json.dumps(contents, ensure_ascii=False, separators=(",", ":")).encode(),
        "vectors": entry.vectors.astype("<f4").tobytes(),
        "created_at": created_at,
        "expires_at": expires_at,
    }
    return {**row, "document_key": document_key, "checksum": _checksum(key, row)}


def cached_chunks(key: CacheKey, row: Mapping[Any, Any]) -> CachedChunks | None:
    """The chunks of a row that includes its document's `text`; None if the row is damaged."""
    if not isinstance(row["chunks"], bytes) or not isinstance(row["vectors"], bytes):
        return None
    if row["checksum"] != _checksum(key, row):
        return None
    contents = json.loads(row["chunks"])
    text, spans = row["text"], contents["spans"]
    if not all(0 <= start < end <= len(text) for _, start, end, *_ in spans):
        return None
    chunks = _chunks(key, text, spans)
    shape = (sum(chunk.level != "parent" for chunk in chunks), contents["dimension"])
    vectors = np.frombuffer(row["vectors"], "<f4").astype(np.float32)
    if vectors.size != shape[0] * shape[1]:
        return None
    return CachedChunks(chunks, vectors.reshape(shape))


def _checksum(key: CacheKey, row: Mapping[Any, Any]) -> str:
    total = hashlib.blake2b(digest_size=16)
    sizes = (len(row["chunks"]), len(row["vectors"]))
    total.update(json.dumps([FORMAT, *key, row["created_at"], row["expires_at"], *sizes]).encode())
    total.update(row["chunks"])
    total.update(row["vectors"])
    return total.hexdigest()


def _chunks(key: CacheKey, text: str, spans: Sequence[Sequence[Any]]) -> list[Chunk]:
    document = Document(
        collection=key.collection, id=key.document_id, content_hash=key.content_hash, text=text
    )
    ordinals: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for *values, parent in spans:
        fields = dict(zip(KEPT, values, strict=True))
        span = Span(fields["start"], fields["end"])
        chunk = Chunk(
            **fields,
            id=chunk_id(document, key.chunker_id, fields["level"], span),
            collection=key.collection,
            document_id=key.document_id,
            chunker_id=key.chunker_id,
            parent_id=None if parent is None else chunks[parent].id,
            ordinal=ordinals[fields["level"]],
            text=text[span.start : span.end],
        )
        ordinals[chunk.level] += 1
        chunks.append(chunk)
    return chunks
