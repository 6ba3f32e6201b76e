"""The contract of chunk caches, as tests: inherit, say how to make your store, and run pytest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given, settings

from lagotto.documents import Document
from lagotto.filters import Eq
from lagotto.stores.base import CachedChunks, CacheKey, ChunkCacheRepo, Entry, Store
from lagotto.testing.stores import entry
from lagotto.testing.strategies import SLOW, documents

CHUNKERS_TRIED = ("recursive:16/4", "parent-child:48/16/4", "document")

DOCUMENT = Document(
    id="lake",
    title="Lake",
    language="en",
    text="# Lake\n\nThe lake is deep. " + "Seals and fish live in it. " * 12,
)


async def derived(document: Document, *, chunker: str) -> tuple[CacheKey, CachedChunks]:
    """What would be kept of a document."""
    derivation = await entry(document, chunker_id=chunker)
    key = CacheKey(*document.ref, document.content_hash, chunker, derivation.model_id)
    return key, CachedChunks(derivation.chunks, derivation.vectors)


async def stored(document: Document) -> Entry:
    """A document as it is written to a store: as one chunk."""
    return await entry(document, chunker_id="document")


def same(one: CachedChunks, two: CachedChunks) -> bool:
    """Whether two sets are equal in every field and number."""
    return list(one.chunks) == list(two.chunks) and np.array_equal(one.vectors, two.vectors)


class ChunkCacheContract:
    """What `lagotto.stores.base.ChunkCacheRepo` promises. A subclass makes empty, open stores."""

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        """An empty store with a chunk cache, open."""
        raise NotImplementedError
        yield

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """A store with DOCUMENT in it."""
        async with self.make() as store:
            await store.write([await stored(DOCUMENT)])
            yield store

    async def saved(
        self, store: Store, *, ttl: float | None = None
    ) -> tuple[CacheKey, CachedChunks]:
        """A set of chunks of DOCUMENT, cached."""
        key, value = await derived(DOCUMENT, chunker="recursive:16/4")
        await cache_of(store).save({key: value}, ttl=ttl)
        return key, value

    async def test_what_is_saved_comes_back(self, store: Store) -> None:
        sets = dict([await derived(DOCUMENT, chunker=name) for name in CHUNKERS_TRIED])
        await cache_of(store).save(sets, ttl=None)
        loaded = await cache_of(store).load(list(sets))
        assert loaded.keys() == sets.keys()
        assert all(same(loaded[key], value) for key, value in sets.items())

    @settings(SLOW, max_examples=25)
    @given(documents())
    async def test_chunks_of_any_document_come_back(self, document: Document) -> None:
        document = document.model_copy(update={"id": "any"})
        async with self.make() as store:
            await store.write([await stored(document)])
            for name in CHUNKERS_TRIED:
                key, value = await derived(document, chunker=name)
                await cache_of(store).save({key: value}, ttl=None)
                assert same((await cache_of(store).load([key]))[key], value)

    async def test_another_chunker_model_or_content_is_another_entry(self, store: Store) -> None:
        key, _ = await self.saved(store)
        others = [key._replace(**{name: "another"}) for name in CacheKey._fields]
        assert list(await cache_of(store).load([*others, key])) == [key]

    async def test_a_second_save_replaces_the_first(self, store: Store) -> None:
        key, value = await self.saved(store)
        other = CachedChunks(value.chunks, -value.vectors)
        await cache_of(store).save({key: other}, ttl=None)
        assert same((await cache_of(store).load([key]))[key], other)
        assert await cache_of(store).clear() == 1

    async def test_entries_expire(self, store: Store) -> None:
        key, value = await self.saved(store, ttl=3600)
        assert key in await cache_of(store).load([key])
        await cache_of(store).save({key: value}, ttl=0.001)
        await asyncio.sleep(0.02)
        assert await cache_of(store).load([key]) == {}

    async def test_entries_go_with_their_content(self, store: Store) -> None:
        key, _ = await self.saved(store)
        changed = Document(id=DOCUMENT.id, text="Only a pond.")
        await store.write([await stored(changed)])
        assert await cache_of(store).load([key]) == {}
        await store.write([await stored(DOCUMENT)])
        assert await cache_of(store).load([key]) == {}

    async def test_entries_go_with_their_document(self, store: Store) -> None:
        await self.saved(store)
        await store.delete(Eq("document_id", DOCUMENT.id))
        assert await cache_of(store).clear() == 0

    async def test_what_belongs_to_no_document_is_not_kept(self, store: Store) -> None:
        changed = DOCUMENT.model_copy(update={"content_hash": "former"})
        nobody = DOCUMENT.model_copy(update={"id": "nobody"})
        sets = dict([await derived(item, chunker="document") for item in (changed, nobody)])
        await cache_of(store).save(sets, ttl=None)
        assert await cache_of(store).load(list(sets)) == {}
        assert await cache_of(store).clear() == 0

    async def test_clearing_forgets_everything_and_no_document(self, store: Store) -> None:
        sets = dict([await derived(DOCUMENT, chunker=name) for name in CHUNKERS_TRIED])
        await cache_of(store).save(sets, ttl=None)
        assert await cache_of(store).clear() == len(sets)
        assert await cache_of(store).load(list(sets)) == {}
        assert await store.get(DOCUMENT.collection, DOCUMENT.id) == DOCUMENT

    async def test_nothing_at_all(self, store: Store) -> None:
        await cache_of(store).save({}, ttl=None)
        assert await cache_of(store).load([]) == {}


def cache_of(store: Store) -> ChunkCacheRepo:
    """The cache of a store that has one."""
    assert store.chunk_cache is not None
    return store.chunk_cache
