"""The cache of chunks that were made at query time, for every SQL store.

A row holds all chunks that one chunker made of one content of a document, with their vectors under
one model. It goes with its document (a document is written by replacing its row), and it is never
trusted: see `cache_rows`. Plain functions over a Connection, as in `writing`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from sqlalchemy import Connection, delete, insert, select, tuple_

from lagotto.documents import iso
from lagotto.errors import StoreDamagedError, StoreError
from lagotto.stores.base import CachedChunks, CacheKey
from lagotto.stores.sql.chunk_cache_rows import cache_row, cached_chunks
from lagotto.stores.sql.tables import ChunkCacheRow, DocumentRow
from lagotto.stores.sql.write import AT_ONCE

log = logging.getLogger(__name__)

T = TypeVar("T")

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


class Read(Protocol):
    """Runs a function over a Connection in a transaction of its own; failures are StoreErrors."""

    async def __call__(self, work: Callable[[Connection], T], /) -> T: ...


class Write(Protocol):
    """The same for one that changes what belongs to the documents named, or to any for None."""

    async def __call__(
        self, work: Callable[[Connection], T], names: Collection[tuple[str, str]] | None, /
    ) -> T: ...


class SqlChunkCache:
    """A ChunkCache in a table; `read` and `write` are the store's ways into its database."""

    def __init__(self, *, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        try:
            found, bad = await self._read(lambda connection: load_sets(connection, keys))
        except StoreDamagedError as exc:
            log.warning("cached chunks can't be read, so they are made again: %s", exc)
            return {}
        if bad:
            log.warning("%d sets of cached chunks are damaged; they are made again", len(bad))
            await self._try(lambda connection: delete_sets(connection, bad), bad)
        return found

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        if entries:
            await self._try(lambda connection: save_sets(connection, entries, ttl=ttl), entries)

    async def clear(self) -> int:
        return await self._write(
            lambda connection: connection.execute(delete(ChunkCacheRow)).rowcount, None
        )

    async def _try(self, work: Callable[[Connection], None], keys: Collection[CacheKey]) -> None:
        """Write if that is possible right now; a search doesn't fail for its cache."""
        try:
            await self._write(work, {(key.collection, key.document_id) for key in keys})
        except StoreError as exc:
            log.info("the chunk cache could not be written: %s", exc)


def load_sets(
    connection: Connection, keys: Sequence[CacheKey]
) -> tuple[dict[CacheKey, CachedChunks], list[CacheKey]]:
    """What is kept and has not expired, of `keys`, and the keys of damaged rows."""
    now = iso(datetime.now(UTC))
    found: dict[CacheKey, CachedChunks] = {}
    bad: list[CacheKey] = []
    for start in range(0, len(keys), AT_ONCE):
        statement = (
            select(*_KEY.clauses, DocumentRow.text, *_CONTENTS)
            .select_from(ChunkCacheRow)
            .join(DocumentRow, DocumentRow.key == ChunkCacheRow.document_key)
            .where(DocumentRow.content_hash == ChunkCacheRow.content_hash)
            .where(_KEY.in_(keys[start : start + AT_ONCE]))
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
    """Keep sets whose documents still have that content; what has expired goes."""
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
    """Forget sets."""
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


def _current_documents(
    connection: Connection, keys: Mapping[CacheKey, object]
) -> dict[tuple[str, ...], int]:
    """Keys of the documents that still have the content, by collection, id and content."""
    named = tuple_(DocumentRow.collection, DocumentRow.id, DocumentRow.content_hash)
    wanted = sorted({key[:3] for key in keys})
    found: dict[tuple[str, ...], int] = {}
    for start in range(0, len(wanted), AT_ONCE):
        statement = select(*named.clauses, DocumentRow.key).where(
            named.in_(wanted[start : start + AT_ONCE])
        )
        found |= {tuple(row[:3]): row.key for row in connection.execute(statement)}
    return found
