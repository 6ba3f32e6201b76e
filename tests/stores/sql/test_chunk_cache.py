"""Every store's chunk cache keeps the contract; a damaged one is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from lagotto.stores.base import CachedChunks, CacheKey, Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.chunk_cache import DOCUMENT, ChunkCacheContract, derived, same, stored
from tests.stores.sqlite.bases import fetch, sqlite_store


class TestMemory(ChunkCacheContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        yield MemoryStore()


class TestSqlite(ChunkCacheContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        async with sqlite_store() as store:
            yield store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store with DOCUMENT and its chunks in the cache."""
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await stored(DOCUMENT)])
        await store.chunk_cache.save(dict([await made()]), ttl=3600)
        yield store


async def made() -> tuple[CacheKey, CachedChunks]:
    return await derived(DOCUMENT, chunker="parent-child:48/16/4")


def change(store: SqliteStore, statement: str) -> None:
    with closing(sqlite3.connect(store.path)) as file, file:
        assert file.execute(statement).rowcount == 1


def rows(store: SqliteStore) -> int:
    return len(fetch(store.path, "SELECT 1 FROM chunk_cache"))


@pytest.mark.parametrize(
    "damage",
    [
        "vectors = substr(vectors, 1, length(vectors) - 4)",
        "vectors = zeroblob(length(vectors))",
        "vectors = 'text'",
        "chunks = replace(CAST(chunks AS TEXT), '0', '1')",
        "chunks = CAST(replace(CAST(chunks AS TEXT), '0', '1') AS BLOB)",
        "chunks = X'00'",
        "checksum = 'none'",
        "expires_at = '9999-01-01T00:00:00.000000Z'",
        "created_at = '1999-01-01T00:00:00.000000Z'",
    ],
)
async def test_a_damaged_row_is_dropped_and_can_be_made_again(
    store: SqliteStore, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(store, f"UPDATE chunk_cache SET {damage}")
    key, kept = await made()
    assert await store.chunk_cache.load([key]) == {}
    assert "damaged" in caplog.text
    assert rows(store) == 0
    await store.chunk_cache.save({key: kept}, ttl=None)
    assert same((await store.chunk_cache.load([key]))[key], kept)


@pytest.mark.parametrize("column", ["checksum", "created_at", "expires_at"])
async def test_a_row_that_is_no_text_is_made_again(
    store: SqliteStore, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(store, f"UPDATE chunk_cache SET {column} = CAST(X'FFFEFD' AS TEXT)")
    key, kept = await made()
    assert await store.chunk_cache.load([key]) == {}
    assert "they are rebuilt" in caplog.text
    await store.chunk_cache.save({key: kept}, ttl=None)
    assert same((await store.chunk_cache.load([key]))[key], kept)


@pytest.mark.parametrize(
    "changed", ["'Short.'", "replace(text, 'fish', 'eels'), content_hash = 'new'"]
)
async def test_a_row_of_another_text_is_not_used(store: SqliteStore, changed: str) -> None:
    """Texts are cut from the document as it is now, not from the one that was split."""
    change(store, f"UPDATE document SET text = {changed}")
    key, _ = await made()
    assert await store.chunk_cache.load([key]) == {}


async def test_expired_rows_go_with_the_next_save(store: SqliteStore) -> None:
    change(store, "UPDATE chunk_cache SET expires_at = '1999-01-01T00:00:00.000000Z'")
    await store.chunk_cache.save(dict([await derived(DOCUMENT, chunker="document")]), ttl=None)
    assert rows(store) == 1


async def test_other_metadata_keeps_the_cache(store: SqliteStore) -> None:
    await store.update([DOCUMENT.model_copy(update={"metadata": {"year": 2024}})])
    key, kept = await made()
    assert same((await store.chunk_cache.load([key]))[key], kept)


async def test_a_search_does_not_wait_for_another_writer(store: SqliteStore) -> None:
    key, kept = await derived(DOCUMENT, chunker="document")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        await store.chunk_cache.save({key: kept}, ttl=None)
        assert await store.chunk_cache.load([key]) == {}
        file.execute("ROLLBACK")
    await store.chunk_cache.save({key: kept}, ttl=None)
    assert key in await store.chunk_cache.load([key])


async def test_a_base_that_cannot_be_written_to_keeps_nothing(store: SqliteStore) -> None:
    change(store, "DELETE FROM chunk_cache")
    with closing(sqlite3.connect(store.path)) as file:
        file.execute(
            "CREATE TRIGGER full BEFORE INSERT ON chunk_cache BEGIN SELECT raise(ABORT, 'no'); END"
        )
    key, kept = await made()
    await store.chunk_cache.save({key: kept}, ttl=None)
    assert await store.chunk_cache.load([key]) == {}
