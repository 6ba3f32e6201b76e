"""A store whose searches hold for one generation of the base, and fail once it was rebuilt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from lagotto.documents import Chunk, Document
from lagotto.filters import Filter
from lagotto.indexes.base import Finding
from lagotto.stores.base import (
    BaseConfig,
    Capabilities,
    ChunkCache,
    Entry,
    Staging,
    Store,
    StoreInfo,
    Version,
    View,
)
from lagotto.stores.config import rebuilt


class PinnedStore:
    """Wraps a store; a view of another generation than `generation` is a RebuiltError.

    A query is embedded by the model of one generation, and must never be compared with vectors of
    another one, whenever the switch happens.
    """

    def __init__(self, store: Store, *, generation: int) -> None:
        self._store = store
        self._generation = generation

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    @property
    def chunk_cache(self) -> ChunkCache | None:
        return self._store.chunk_cache

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[View]:
        async with self._store.view(where) as view:
            if view.generation != self._generation:
                raise rebuilt(self.location)
            yield view

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    async def write(self, entries: Sequence[Entry]) -> None:
        await self._store.write(entries)

    async def delete(self, where: Filter) -> list[str]:
        return await self._store.delete(where)

    async def update(self, documents: Sequence[Document]) -> None:
        await self._store.update(documents)

    async def versions(self, collection: str, ids: Sequence[str]) -> dict[str, Version]:
        return await self._store.versions(collection, ids)

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self._store.get(collection, document_id)

    def documents(self, where: Filter) -> AsyncIterator[Document]:
        return self._store.documents(where)

    async def chunks(self, collection: str, document_id: str) -> list[Chunk]:
        return await self._store.chunks(collection, document_id)

    async def info(self) -> StoreInfo:
        return await self._store.info()

    async def config(self) -> BaseConfig:
        return await self._store.config()

    def staging(self, config: BaseConfig) -> AbstractAsyncContextManager[Staging]:
        return self._store.staging(config)

    async def check(self) -> list[Finding]:
        return await self._store.check()
