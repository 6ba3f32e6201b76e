"""Every store keeps the contract."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.stores import StoreContract


class TestMemory(StoreContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        yield MemoryStore()


@pytest.mark.slow
class _Sqlite(StoreContract):
    text_index: ClassVar[str]

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "kb.db", text_index=self.text_index)
            await store.open()
            try:
                yield store
            finally:
                await store.close()


class TestTantivy(_Sqlite):
    text_index = "tantivy"


class TestFts5(_Sqlite):
    text_index = "fts5"
