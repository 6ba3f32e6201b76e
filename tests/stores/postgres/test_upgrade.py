"""A base of an earlier version on a server is upgraded when it is opened, and answers as before."""

from __future__ import annotations

import psycopg
import pytest

from lagotto.embedders import EMBEDDERS
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.stores.sql.tables import SCHEMA_VERSION
from lagotto.testing.rebuild import DOCUMENTS, OLD, answers, document, hashed
from tests.stores.former_versions import undo

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2
"""
INDEXES = """
SELECT indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes
WHERE schemaname = current_schema() ORDER BY 1
"""
AGES = "SELECT created_at IS NULL, count(*) FROM embedding GROUP BY 1 ORDER BY 1"

Schema = list[list[tuple[str, ...]]]


def schema(connection: psycopg.Connection) -> Schema:
    """Columns and indexes of all tables."""
    return [connection.execute(each).fetchall() for each in (COLUMNS, INDEXES)]


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
            undated = [True] if version < 9 else []
            assert [row[0] for row in connection.execute(AGES)] == (undated or [False])
            await base.add(document(20))
            assert [row[0] for row in connection.execute(AGES)] == [False, *undated]
            assert {item.level for item in await base._store.check()} == {"ok"}
            for each in DOCUMENTS[:10]:
                for chunk in await base.chunks(each.id, collection=each.collection):
                    assert chunk.text == each.text[chunk.start : chunk.end]
        assert schema(connection) == expected
