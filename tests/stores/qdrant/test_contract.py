"""A base in a file with its indexes on a Qdrant server keeps the contract of stores."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lagotto.stores.base import Store
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.stores import StoreContract

pytestmark = pytest.mark.slow


class TestSqliteAndQdrant(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, qdrant_address: str) -> None:
        self.address = qdrant_address

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kb.db"
            store = SqliteStore(path, text_index=self.address, vector_index=self.address)
            await store.open()
            try:
                yield store
            finally:
                for index in store.search_indexes.open.by_role().values():
                    index.delete()
                await store.close()
