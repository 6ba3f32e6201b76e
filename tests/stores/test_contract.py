"""Every store keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.testing.stores import StoreContract
from tests.stores.sqlite.bases import sqlite_store


class TestMemory(StoreContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        yield MemoryStore()


@pytest.mark.slow
class _Sqlite(StoreContract):
    text_index: ClassVar[str]

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        async with sqlite_store(text_index=self.text_index) as store:
            yield store


class TestTantivy(_Sqlite):
    text_index = "tantivy"


class TestFts5(_Sqlite):
    text_index = "fts5"
