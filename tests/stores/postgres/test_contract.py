"""The store on a server keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lagotto.stores.base import Store
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.stores import StoreContract
from tests.stores.postgres.schemas import own_schema


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, server_url: str) -> None:
        self.server_url = server_url

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        with own_schema(self.server_url) as location:
            store = PostgresStore(location)
            await store.open()
            try:
                yield store
            finally:
                await store.close()
