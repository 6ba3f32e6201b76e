"""What a search finds prepared, and what it has to read itself."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from lagotto.documents import Document
from lagotto.filters import And
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.stores import entry, text_ids
from tests.stores.sqlite.bases import sqlite_store


def is_prepared(store: SqliteStore) -> bool:
    """Whether the next search need not read anything before it begins."""
    with ExitStack() as stack:
        return store._views.cached(And(), stack) is not None


async def test_a_write_prepares_the_next_search_of_its_base(tmp_path: Path) -> None:
    """If there was one before: a base that only writes has nothing to prepare."""
    path = tmp_path / "kb.db"
    async with sqlite_store(path) as store, sqlite_store(path) as other:
        await prepared(store, other)


async def prepared(store: SqliteStore, other: SqliteStore) -> None:
    await store.write([await entry(Document(id="a", text="An oak."))])
    assert not is_prepared(store)
    assert await text_ids(store, "oak") == ["a"]
    await store.write([await entry(Document(id="b", text="A truffle."))])
    assert is_prepared(store)
    assert await text_ids(store, "truffle") == ["b"]
    await other.write([await entry(Document(id="c", text="A hazel."))])
    assert not is_prepared(store)
    assert not is_prepared(other)
    assert await text_ids(store, "hazel") == ["c"]
