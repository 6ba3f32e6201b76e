"""The store on a server keeps every contract that a store can keep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from lagotto.filters import And
from lagotto.indexes.base import TextSnapshot, VectorSnapshot
from lagotto.stores.base import Store
from lagotto.testing.chunk_cache import ChunkCacheContract
from lagotto.testing.indexes import (
    MemoryChangeLog,
    TextIndexContract,
    VectorIndexContract,
    replay,
    stored_keys,
)
from lagotto.testing.stores import StoreContract
from tests.retrieval import test_late as late
from tests.stores.postgres.schemas import own_store


class OnPostgres:
    @pytest.fixture(autouse=True)
    def _server(self, server_url: str) -> None:
        self.server_url = server_url

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        async with own_store(self.server_url) as store:
            yield store


class TestStore(OnPostgres, StoreContract):
    pass


class TestChunkCache(OnPostgres, ChunkCacheContract):
    pass


class TestPostings(OnPostgres, TextIndexContract):
    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        async with own_store(self.server_url) as store:
            await replay(log, store)
            async with store.view(And()) as view:
                yield view._text, await stored_keys(log, view)


class TestPgVectors(OnPostgres, VectorIndexContract):
    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[VectorSnapshot, Mapping[int, int]]]:
        async with own_store(self.server_url) as store:
            await replay(log, store)
            async with store.view(And()) as view:
                assert view._vectors is not None
                yield view._vectors, await stored_keys(log, view)


class TestLateEvidence(OnPostgres, late.TestEvidence):
    pass


class TestLateCache(OnPostgres, late.TestCache):
    pass


class TestLateStrategies(OnPostgres, late.TestStrategies):
    pass
