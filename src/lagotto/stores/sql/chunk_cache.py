"""The cache of chunks made at query time, for every SQL store.

A row holds all chunks that one chunker made of one content of a document, with their vectors under
one model. It is deleted with its document (a document is written by replacing its row), and a row
that fails its checksum is not used. The text of a chunk is cut from its document; its id and
ordinal are computed.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

import numpy as np

from lagotto.documents import Chunk, Document, Span, chunk_id, iso
from lagotto.errors import StoreDamagedError, StoreError
from lagotto.stores.base import CachedChunks, CacheKey
from lagotto.stores.sql import statements
from lagotto.stores.sql.read import named_records
from lagotto.stores.sql.statements import Read, ReadConnection, Statement, WriteConnection
from lagotto.stores.sql.write import insert_rows

log = logging.getLogger(__name__)

T = TypeVar("T")

FORMAT = 4
"""Increased whenever the row format changes; rows of another format fail their checksum."""

CHUNK_FIELDS = (
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
    "context",
)
"""The fields of a chunk that are kept, in this order, followed by the index of its parent."""


_DELETE_ALL = Statement("DELETE FROM chunk_cache")
_DELETE_EXPIRED = Statement("DELETE FROM chunk_cache WHERE expires_at <= :now")
_DELETE_SET = Statement(
    "DELETE FROM chunk_cache WHERE document_key = :document_key AND content_hash = :content_hash "
    "AND chunker_id = :chunker_id AND model_id = :model_id"
)


class Write(Protocol):
    """Runs a function that changes what belongs to the documents named, or to any for None."""

    async def __call__(
        self, work: Callable[[WriteConnection], T], names: Collection[tuple[str, str]] | None, /
    ) -> T: ...


MADE_OF = CacheKey._fields[2:]
"""What tells the sets of a document from each other."""


class SqlChunkCache:
    """A ChunkCacheRepo in a table; `read` and `write` are the store's ways into its database."""

    def __init__(self, *, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        try:
            sets, bad = await self._read(lambda connection: load_sets(connection, keys))
        except StoreDamagedError as exc:
            log.warning("cached chunks can't be read, so they are rebuilt: %s", exc)
            return {}
        if bad:
            log.warning("%d sets of cached chunks are damaged; they are rebuilt", len(bad))
            await self._try(lambda connection: _replace_sets(connection, dict.fromkeys(bad)), bad)
        return sets

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        if entries:
            await self._try(lambda connection: _replace_sets(connection, entries, ttl=ttl), entries)

    async def clear(self) -> int:
        return await self._write(_DELETE_ALL.run, None)

    async def _try(
        self, work: Callable[[WriteConnection], None], keys: Collection[CacheKey]
    ) -> None:
        """Write if that is possible right now; a search doesn't fail for its cache."""
        try:
            await self._write(work, {(key.collection, key.document_id) for key in keys})
        except StoreError as exc:
            log.info("the chunk cache could not be written: %s", exc)


def load_sets(
    connection: ReadConnection, keys: Sequence[CacheKey]
) -> tuple[dict[CacheKey, CachedChunks], list[CacheKey]]:
    """What is kept and has not expired, of `keys`, and the keys of damaged rows."""
    now = iso(datetime.now(UTC))
    makers = {
        "chunkers": sorted({key.chunker_id for key in keys}),
        "models": sorted({key.model_id for key in keys}),
    }
    sets: dict[CacheKey, CachedChunks] = {}
    bad: list[CacheKey] = []
    wanted, names = set(keys), [key[:2] for key in keys]
    for record in named_records(connection, statements.CACHED_CHUNKS, names, **makers):
        key = CacheKey(record["collection"], record["id"], *(record[name] for name in MADE_OF))
        if key not in wanted:
            continue
        if (chunks := _cached_chunks(key, record)) is None:
            bad.append(key)
        elif record["expires_at"] is None or record["expires_at"] > now:
            sets[key] = chunks
    return sets, bad


def _replace_sets(
    connection: WriteConnection,
    entries: Mapping[CacheKey, CachedChunks | None],
    *,
    ttl: float | None = None,
) -> None:
    """Save sets whose documents still have this content, None to delete one, and expired ones."""
    now = datetime.now(UTC)
    expires = None if ttl is None else iso(now + timedelta(seconds=ttl))
    _DELETE_EXPIRED.run(connection, now=iso(now))
    records = named_records(connection, statements.DOCUMENT_KEYS, [key[:2] for key in entries])
    documents = {
        (record["collection"], record["id"], record["content_hash"]): record["key"]
        for record in records
    }
    rows = []
    for key, entry in entries.items():
        if (document := documents.get(key[:3])) is None:
            continue
        named = {"document_key": document, **{name: getattr(key, name) for name in MADE_OF}}
        _DELETE_SET.run(connection, **named)
        if entry is not None:
            rows.append(named | _row(key, entry, created_at=iso(now), expires_at=expires))
    insert_rows(connection, "chunk_cache", rows)


def _row(
    key: CacheKey, entry: CachedChunks, *, created_at: str, expires_at: str | None
) -> dict[str, Any]:
    indices = {chunk.id: index for index, chunk in enumerate(entry.chunks)}
    spans = [
        [*(getattr(chunk, field) for field in CHUNK_FIELDS), indices.get(chunk.parent_id or "")]
        for chunk in entry.chunks
    ]
    contents = {"dimension": entry.vectors.shape[1], "spans": spans}
    row = {
        "chunks": json.dumps(contents, ensure_ascii=False, separators=(",", ":")).encode(),
        "vectors": entry.vectors.astype("<f4").tobytes(),
        "created_at": created_at,
        "expires_at": expires_at,
    }
    return {**row, "checksum": _checksum(key, row)}


def _cached_chunks(key: CacheKey, row: Mapping[Any, Any]) -> CachedChunks | None:
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
        fields = dict(zip(CHUNK_FIELDS, values, strict=True))
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
