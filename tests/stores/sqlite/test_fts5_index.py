"""FTS5 keeps the contract of text indexes, as a search in a base sees it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from lagotto.filters import And
from lagotto.indexes.base import TextSnapshot
from lagotto.stores.sqlite.fts5_index import Fts5Text
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.change_log import MemoryChangeLog
from lagotto.testing.indexes import TextIndexContract, replay, stored_keys


class TestFts5(TextIndexContract):
    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "kb.db", text_index="fts5")
            await store.open()
            await replay(log, store)
            async with store.view(And()) as view:
                assert isinstance(view._text, Fts5Text)
                yield view._text, await stored_keys(log, view)
            await store.close()
