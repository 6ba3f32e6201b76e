"""A cancelled search does not wait for a slow statement."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from sqlalchemy import Connection

from lagotto.documents import Document
from lagotto.errors import DeadlineExceeded
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import TextQuery
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.request_context import RequestContext
from lagotto.stores.sqlite import fts5_index
from lagotto.testing.hash_embedder import HashEmbedder

FOR_EVER = """
WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count)
SELECT max(n) FROM count
"""


async def test_a_slow_statement_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(connection: Connection, query: TextQuery, k: int, among: object) -> Hits:
        connection.exec_driver_sql(FOR_EVER)
        raise AssertionError("that never ends")

    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=HashEmbedder(), text_index="fts5"
    ) as base:
        await base.add(Document(id="a", text="A truffle."))
        expected = await base.retrieve("truffle")
        with monkeypatch.context() as patched:
            patched.setattr(fts5_index, "_search", slow)
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await base.retrieve("truffle", request=RequestContext(timeout=0.2))
            assert time.monotonic() - started < 5
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await base.retrieve("truffle")
        assert await base.retrieve("truffle") == expected
