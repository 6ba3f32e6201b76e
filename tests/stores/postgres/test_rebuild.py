"""Rebuilding a base on a server: in the same tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.embedders import EMBEDDERS
from lagotto.prefs import FtsPrefs, RetrievalPrefs
from lagotto.stores.postgres import vector_index
from lagotto.stores.sql import generations
from lagotto.testing.rebuild import (
    DOCUMENTS,
    OLD,
    RebuildContract,
    answers,
    fresh_answers,
    hashed,
)
from tests.stores.postgres.schemas import own_database, own_schema, sql


class TestRebuild(RebuildContract):
    """`location` is an empty schema."""


@pytest.mark.parametrize("own", [own_schema, own_database])
async def test_nothing_is_left_of_former_generations(
    server_url: str,
    own: Callable[[str], AbstractContextManager[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in the schema in which the extensions are, as most have it."""
    EMBEDDERS.register("hashed", hashed)
    monkeypatch.setattr(vector_index, "GRAPH_FROM", 10)
    monkeypatch.setattr(generations, "SETS_AT_ONCE", 7)
    with own(server_url) as location:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            for dimension in (32, 16):
                await base.rebuild(embedder=f"hashed:new/{dimension}")
            assert await answers(base) == await fresh_answers(
                {"embedder": "hashed:new/16"}, DOCUMENTS
            )
        for table in ("chunk_set", "chunk", "embedding", "segment", "posting", "indexed"):
            assert sql(location, f"SELECT DISTINCT generation FROM {table}") == [(2,)], table
        made = sql(
            location,
            "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() "
            "AND indexname LIKE 'embedding_graph%' UNION SELECT conname FROM pg_constraint "
            "WHERE conrelid = 'embedding'::regclass AND contype = 'c' ORDER BY 1",
        )
        assert made == [("dimension_of_generation_2",), ("embedding_graph_2",)]


async def test_rights_are_kept(location: str) -> None:
    EMBEDDERS.register("hashed", hashed)
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS[:3])
        sql(location, "GRANT SELECT ON document, chunk TO pg_monitor")
        await base.rebuild(embedder="hashed:new/32")
        for table, expected in (("document", True), ("chunk", True), ("setting", False)):
            rights = f"SELECT has_table_privilege('pg_monitor', '{table}', 'SELECT')"
            assert sql(location, rights) == [(expected,)]


async def test_a_rebuild_repairs_what_a_check_advises_it_for(location: str) -> None:
    EMBEDDERS.register("hashed", hashed)
    native = RetrievalPrefs(fts=FtsPrefs(rank_func="ts_rank"))
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS)
        before = await answers(base)
        await base.retrieve("dogs", prefs=native)  # builds the index of words
        sql(location, "UPDATE segment SET chunks = chunks - 1")
        sql(location, "DELETE FROM chunk_text WHERE chunk_key % 2 = 0")
        sql(location, "DELETE FROM chunk_words WHERE chunk_key % 2 = 0")
        advised = {item.advice for item in await base.store.check() if item.level != "ok"}
        assert advised == {"run `lagotto rebuild`"}
        await base.rebuild()
        assert {item.level for item in await base.store.check()} == {"ok"}
        assert await answers(base) == before
