"""Documents by collection and id, however many others there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event

from lagotto.documents import Chunk
from lagotto.stores.base import CacheKey
from lagotto.stores.sql.chunk_cache import load_sets
from lagotto.stores.sql.read import (
    keys_by_name,
    read_neighbours,
    read_parents,
    read_sources,
    read_stored,
)
from tests.stores.sqlite.bases import made

NAMES = [("default", "d001"), ("default", "d007"), ("other", "d002")]
CHUNK = Chunk(
    id="c",
    collection="default",
    document_id="d001",
    chunker_id="x",
    ordinal=1,
    start=0,
    end=1,
    text="O",
    token_count=1,
    parent_id="p",
)
CHUNKS = [CHUNK, CHUNK.model_copy(update={"document_id": "d007"})]
CACHED = [CacheKey(*name, "h", "c", "m") for name in NAMES]

READS: dict[str, Callable[[Connection], object]] = {
    "sources": lambda connection: read_sources(connection, NAMES),
    "keys": lambda connection: keys_by_name(connection, NAMES),
    "chunks": lambda connection: read_stored(connection, NAMES),
    "parents": lambda connection: read_parents(connection, CHUNKS),
    "neighbours": lambda connection: read_neighbours(connection, CHUNKS, near=1, across=0),
    "cache": lambda connection: load_sets(connection, CACHED),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "kb.db"
    made(path)
    return path


@pytest.mark.parametrize("name", READS)
def test_no_read_by_name_goes_through_all_documents(base: Path, name: str) -> None:
    engine = create_engine(f"sqlite:///{base}")
    statements: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        statements.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        READS[name](connection)
        event.remove(engine, "before_cursor_execute", note)
        plans = [
            str(row[3])
            for statement, values in statements
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
    engine.dispose()
    assert any(plan.startswith("SEARCH") for plan in plans)
    scans = [plan for plan in plans if plan.startswith("SCAN")]
    assert not [plan for plan in scans if "CONSTANT" not in plan and "json_each" not in plan]


def test_an_id_counts_in_its_own_collection_only(base: Path) -> None:
    engine = create_engine(f"sqlite:///{base}")
    with engine.connect() as connection:
        assert set(keys_by_name(connection, NAMES)) == set(NAMES[:2])
        assert keys_by_name(connection, []) == {}
    engine.dispose()
