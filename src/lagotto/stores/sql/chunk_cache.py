"""The cache of chunks made at query time, for every SQL store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from lagotto.errors import StoreDamagedError, StoreError
from lagotto.stores.base import CachedChunks, CacheKey

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger(__name__)

T = TypeVar("T")


class Read(Protocol):
    """Runs a function over a Connection in a transaction of its own; failures are StoreErrors."""

    async def __call__(self, work: Callable[[Connection], T], /) -> T: ...


class Write(Protocol):
    """The same for one that changes what belongs to the documents named, or to any for None."""

    async def __call__(
        self, work: Callable[[Connection], T], names: Collection[tuple[str, str]] | None, /
    ) -> T: ...


class SqlChunkCache:
    """A ChunkCacheRepo in a table; `read` and `write` are the store's ways into its database."""

    def __init__(self, *, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        from lagotto.stores.sql.cached_chunks import delete_sets, load_sets

        try:
            found, bad = await self._read(lambda connection: load_sets(connection, keys))
        except StoreDamagedError as exc:
            log.warning("cached chunks can't be read, so they are rebuilt: %s", exc)
            return {}
        if bad:
            log.warning("%d sets of cached chunks are damaged; they are rebuilt", len(bad))
            await self._try(lambda connection: delete_sets(connection, bad), bad)
        return found

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        from lagotto.stores.sql.cached_chunks import save_sets

        if entries:
            await self._try(lambda connection: save_sets(connection, entries, ttl=ttl), entries)

    async def clear(self) -> int:
        from lagotto.stores.sql.cached_chunks import delete_all

        return await self._write(delete_all, None)

    async def _try(self, work: Callable[[Connection], None], keys: Collection[CacheKey]) -> None:
        """Write if that is possible right now; a search doesn't fail for its cache."""
        try:
            await self._write(work, {(key.collection, key.document_id) for key in keys})
        except StoreError as exc:
            log.info("the chunk cache could not be written: %s", exc)
