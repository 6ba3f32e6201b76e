"""The chunk cache of the store in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from lagotto.stores.base import CachedChunks, CacheKey, Entry


class MemoryChunkCache:
    """Keeps chunks as long as the store that it belongs to keeps their documents.

    `entries` are the store's documents.
    """

    def __init__(self, entries: Mapping[tuple[str, str], Entry]) -> None:
        self._entries = entries
        self._sets: dict[CacheKey, tuple[CachedChunks, float]] = {}

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        now = time.time()
        kept = {key: self._sets[key] for key in keys if key in self._sets}
        return {key: chunks for key, (chunks, expires) in kept.items() if expires > now}

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        expires = float("inf") if ttl is None else time.time() + ttl
        for key, chunks in entries.items():
            stored = self._entries.get((key.collection, key.document_id))
            if stored and stored.document.content_hash == key.content_hash:
                self._sets[key] = (chunks, expires)

    async def clear(self) -> int:
        count = len(self._sets)
        self._sets.clear()
        return count

    def forget(self, collection: str, document_id: str) -> None:
        """Let go of what belongs to a document."""
        for key in [key for key in self._sets if key[:2] == (collection, document_id)]:
            del self._sets[key]
