"""A base of an earlier version on a server is upgraded when it is opened, and answers as before."""

from __future__ import annotations

import psycopg
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.embedders import EMBEDDERS
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.testing.former_versions import undo
from lagotto.testing.rebuild import DOCUMENTS, OLD, answers, document, hashed

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2
"""
INDEXES = """
SELECT indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes
WHERE schemaname = current_schema() ORDER BY 1
"""
AGES = "SELECT created_at IS NULL, count(*) FROM embedding GROUP BY 1 ORDER BY 1"

Schema = set[tuple[str, ...]]


def schema(connection: psycopg.Connection) -> Schema:
    """Columns and indexes of all tables."""
    return {row for each in (COLUMNS, INDEXES) for row in connection.execute(each)}


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
async def test_a_base_of_every_version_opens(location: str, version: int) -> None:
    EMBEDDERS.register("hashed", hashed)
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS[:10])
        before = await answers(base)
    with psycopg.connect(location, autocommit=True) as connection:
        expected = schema(connection)
        for statement in undo(version, "postgresql"):
            connection.execute(statement)
        assert schema(connection) != expected
        async with AsyncKnowledgeBase(location, **OLD) as base:
            assert await answers(base) == before
            assert (await base.add(*DOCUMENTS[:10])).unchanged == 10
            await base.add(document(20))
            assert [row[0] for row in connection.execute(AGES)] == [False]
            assert {item.level for item in await base._store.check()} == {"ok"}
            for each in DOCUMENTS[:10]:
                for chunk in await base.chunks(each.id, collection=each.collection):
                    assert chunk.text == each.text[chunk.start : chunk.end]
        assert schema(connection) == expected


async def test_tables_of_another_base_on_the_search_path_are_left_alone(location: str) -> None:
    """They are in `public`, where a base without a schema of its own is."""
    EMBEDDERS.register("hashed", hashed)
    async with AsyncKnowledgeBase(location, **OLD) as base:
        await base.add(*DOCUMENTS[:2])
    with psycopg.connect(location, autocommit=True) as connection:
        expected = schema(connection)
        for statement in undo(1, "postgresql"):
            connection.execute(statement)
        connection.execute("CREATE TABLE public.chunk_cache (another integer)")
        try:
            async with AsyncKnowledgeBase(location, **OLD) as base:
                assert await base.retrieve("oak")
        finally:
            connection.execute("DROP TABLE public.chunk_cache")
        assert schema(connection) == expected
