"""The cache of chunks made at query time, for every SQL store.

A row holds all chunks that one chunker made of one content of a document, with their vectors under
one model. It is deleted with its document (a document is written by replacing its row), and a row
that fails its checksum is not used. The text of a chunk is cut from its document.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from lagotto.documents import Chunk, iso
from lagotto.errors import StoreDamagedError, StoreError
from lagotto.stores.base import CachedChunks, CacheKey
from lagotto.stores.sql import statements
from lagotto.stores.sql.read import Name, references
from lagotto.stores.sql.statements import ReadConnection, Statement, Transaction, WriteConnection
from lagotto.stores.sql.write import insert_rows

log = logging.getLogger(__name__)

FORMAT = 5
"""Increased whenever the row format changes, or a default of Chunk; rows of another one fail their
checksum."""

CACHE_TIMEOUT = 0.05
"""Seconds that a search waits for other writers before it does without caching its chunks."""

IN_KEY = {"collection", "document_id", "chunker_id", "text"}
"""The fields of a chunk that are not kept: the key of its set has them, or its document."""

_DELETE_ALL = Statement("DELETE FROM chunk_cache")
_DELETE_EXPIRED = Statement("DELETE FROM chunk_cache WHERE expires_at <= :now")
_DELETE_SET = Statement(
    "DELETE FROM chunk_cache WHERE document_key = :document_key AND content_hash = :content_hash "
    "AND chunker_id = :chunker_id AND model_id = :model_id"
)


Replacements = Mapping[CacheKey, CachedChunks | None]
"""Sets to save; None for one to delete."""

MADE_OF = CacheKey._fields[2:]
"""What tells the sets of a document from each other."""


@dataclass(frozen=True, slots=True)
class SqlChunkCache:
    """A ChunkCacheRepo in a table; `read` and `write` are the store's ways into its database.

    A write changes what belongs to the documents named, or to any for None.
    """

    read: Transaction
    write: Callable[[Callable[[WriteConnection], Any], Collection[Name] | None], Awaitable[Any]]

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        try:
            sets, bad = await self.read(lambda connection: load_sets(connection, keys))
        except StoreDamagedError as exc:
            log.warning("cached chunks can't be read, so they are rebuilt: %s", exc)
            return {}
        if bad:
            log.warning("%d sets of cached chunks are damaged; they are rebuilt", len(bad))
            await self._replace(dict.fromkeys(bad), ttl=None)
        return sets

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        if entries:
            await self._replace(entries, ttl=ttl)

    async def clear(self) -> int:
        return int(await self.write(_DELETE_ALL.run, None))

    async def _replace(self, entries: Replacements, *, ttl: float | None) -> None:
        """Write if that is possible right now; a search doesn't fail for its cache."""
        work = partial(_replace_sets, entries=entries, ttl=ttl)
        try:
            await self.write(work, {key[:2] for key in entries})
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
    wanted, refs = set(keys), references(key[:2] for key in keys)
    for record in statements.CACHED_CHUNKS.records(connection, refs=refs, **makers):
        key = CacheKey(record["collection"], record["id"], *(record[name] for name in MADE_OF))
        if key not in wanted:
            continue
        if (chunks := _cached_chunks(key, record)) is None:
            bad.append(key)
        elif record["expires_at"] is None or record["expires_at"] > now:
            sets[key] = chunks
    return sets, bad


def _replace_sets(connection: WriteConnection, entries: Replacements, *, ttl: float | None) -> None:
    """Save sets whose documents still have this content, and delete expired ones."""
    now = datetime.now(UTC)
    expires = None if ttl is None else iso(now + timedelta(seconds=ttl))
    _DELETE_EXPIRED.run(connection, now=iso(now))
    refs = references(key[:2] for key in entries)
    documents = {
        tuple(content): document
        for *content, document in statements.DOCUMENT_KEYS.rows(connection, refs=refs)
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
    chunks = [
        chunk.model_dump(mode="json", exclude=IN_KEY, exclude_defaults=True)
        for chunk in entry.chunks
    ]
    contents = {"dimension": entry.vectors.shape[1], "chunks": chunks}
    row = {
        "chunks": json.dumps(contents, ensure_ascii=False, separators=(",", ":")).encode(),
        "vectors": entry.vectors.astype("<f4").tobytes(),
        "created_at": created_at,
        "expires_at": expires_at,
    }
    return {**row, "checksum": _checksum(key, row)}


def _cached_chunks(key: CacheKey, row: Mapping[str, Any]) -> CachedChunks | None:
    """The chunks of a row that includes its document's `text`; None if the row is damaged."""
    if not isinstance(row["chunks"], bytes) or not isinstance(row["vectors"], bytes):
        return None
    if row["checksum"] != _checksum(key, row):
        return None
    contents, text = json.loads(row["chunks"]), row["text"]
    if any(fields["end"] > len(text) for fields in contents["chunks"]):
        return None
    own = {name: getattr(key, name) for name in ("collection", "document_id", "chunker_id")}
    chunks = [
        Chunk(**own, **fields, text=text[fields["start"] : fields["end"]])
        for fields in contents["chunks"]
    ]
    vectors = np.frombuffer(row["vectors"], "<f4").astype(np.float32)
    findable = sum(chunk.level != "parent" for chunk in chunks)
    return CachedChunks(chunks, vectors.reshape(findable, contents["dimension"]))


def _checksum(key: CacheKey, row: Mapping[str, Any]) -> str:
    total = hashlib.blake2b(digest_size=16)
    sizes = (len(row["chunks"]), len(row["vectors"]))
    total.update(json.dumps([FORMAT, *key, row["created_at"], row["expires_at"], *sizes]).encode())
    total.update(row["chunks"])
    total.update(row["vectors"])
    return total.hexdigest()
