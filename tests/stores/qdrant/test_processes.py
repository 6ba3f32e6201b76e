"""Several processes with one base in a file, whose indexes are on a Qdrant server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lagotto.stores.sqlite.store import SqliteStore
from tests.stores.qdrant.followers import check_that_one_waits


@asynccontextmanager
async def opened(path: Path, address: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, text_index=address, vector_index=address)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_one_process_follows_at_a_time(
    tmp_path: Path, qdrant_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kb.db"
    async with opened(path, qdrant_address) as one, opened(path, qdrant_address) as other:
        await check_that_one_waits(one, other, monkeypatch)
        for index in one.search_indexes.open.by_role().values():
            index.delete()
