"""Rebuilding a base on a server: beside it, and then a switch that only renames."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.embedders import EMBEDDERS
from lagotto.errors import StoreError
from lagotto.prefs import FtsPrefs, RetrievalPrefs
from lagotto.testing.rebuild import DOCUMENTS, OLD, RebuildContract, answers, hashed
from tests.stores.postgres.schemas import own_database


class TestRebuild(RebuildContract):
    """`location` is an empty schema."""


class TestRebuildOfAWholeDatabase(RebuildContract):
    """A base in the schema in which the extensions are, as most have it."""

    @pytest.fixture
    def location(self, server_url: str) -> Iterator[str]:
        with own_database(server_url) as location:
            yield location


async def test_another_schema_of_that_name_is_left_alone(location: str) -> None:
    EMBEDDERS.register("hashed", hashed)
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS[:3])
        with psycopg.connect(location, autocommit=True) as connection:
            (name,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            connection.execute(f"CREATE SCHEMA {name}_rebuild")
            connection.execute(f"CREATE TABLE {name}_rebuild.thesis (chapter text)")
            with pytest.raises(StoreError, match=f"{name}_rebuild"):
                await base.rebuild(embedder="hashed:new/32")
            assert connection.execute(f"SELECT count(*) FROM {name}_rebuild.thesis").fetchone()
            connection.execute(f"DROP SCHEMA {name}_rebuild CASCADE")
        assert (await base.rebuild(embedder="hashed:new/32")).done == 3


async def test_rights_are_kept(location: str) -> None:
    EMBEDDERS.register("hashed", hashed)
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS[:3])
        with psycopg.connect(location, autocommit=True) as connection:
            connection.execute("GRANT SELECT ON document, chunk TO pg_monitor")
            await base.rebuild(embedder="hashed:new/32")
            rights = "SELECT has_table_privilege('pg_monitor', %s, 'SELECT')"
            for table, expected in (("document", True), ("chunk", True), ("setting", False)):
                assert connection.execute(rights, (table,)).fetchone() == (expected,)


async def test_a_rebuild_repairs_what_a_check_advises_it_for(location: str) -> None:
    EMBEDDERS.register("hashed", hashed)
    native = RetrievalPrefs(fts=FtsPrefs(rank_func="ts_rank"))
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS)
        before = await answers(base)
        await base.retrieve("dogs", prefs=native)  # builds the index of words
        with psycopg.connect(location, autocommit=True) as connection:
            connection.execute("UPDATE segment SET chunks = chunks - 1")
            connection.execute("DELETE FROM chunk_text WHERE chunk_key % 2 = 0")
            connection.execute("DELETE FROM chunk_words WHERE chunk_key % 2 = 0")
        advised = {item.advice for item in await base.store.check() if item.level != "ok"}
        assert advised == {"run `lagotto rebuild`"}
        await base.rebuild()
        assert {item.level for item in await base.store.check()} == {"ok"}
        assert await answers(base) == before
