"""What a search finds prepared, and what it has to read itself."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.filters import And
from lagotto.stores.sqlite import database
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.stores import entry, text_ids
from tests.stores.sqlite.bases import document, made, sqlite_store


def is_prepared(store: SqliteStore) -> bool:
    """Whether the next search need not read anything before it begins."""
    with ExitStack() as stack:
        return store._views.at_once(And(), stack) is not None


async def test_a_write_prepares_the_next_search_of_its_base(tmp_path: Path) -> None:
    """If there was one before: a base that only writes has nothing to prepare."""
    path = tmp_path / "kb.db"
    async with sqlite_store(path) as store, sqlite_store(path) as other:
        await store.write([await entry(Document(id="a", text="An oak."))])
        assert not is_prepared(store)
        assert await text_ids(store, "oak") == ["a"]
        await store.write([await entry(Document(id="b", text="A truffle."))])
        assert is_prepared(store)
        assert await text_ids(store, "truffle") == ["b"]
        await other.write([await entry(Document(id="c", text="A hazel."))])
        assert not is_prepared(store)
        assert not is_prepared(other)
        assert await text_ids(store, "hazel") == ["c"]


CHANGES = """
import sys
from pathlib import Path
from tests.stores.sqlite.bases import document, opened
with opened(Path(sys.argv[1])) as base:
    base.add(document(1, version=2), document(9))
    base.add(document(1, version=2).model_copy(update={"metadata": {"version": 3}}))
    base.remove("d002")
    print(len(base.documents()), "sqlalchemy" in sys.modules)
"""


def test_a_process_that_changes_a_base_imports_no_sqlalchemy(tmp_path: Path) -> None:
    """Its import takes ten times as long as the change."""
    made(tmp_path / "kb.db", count=5)
    command = [sys.executable, "-c", CHANGES, str(tmp_path / "kb.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5", "False"]


async def test_a_long_log_is_shortened_after_indexing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while somebody reads from it."""
    monkeypatch.setattr(database, "LARGEST_LOG", 1)
    log = tmp_path / "kb.db-wal"
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await entry(document(1))])
        with store.reading() as connection:
            assert database.schema_version(connection)  # the first statement begins to read
            await store.write([await entry(document(2))])
            await store.update_indexes()
            assert log.stat().st_size > 0
        await store.update_indexes()
        assert log.stat().st_size == 0
        assert await text_ids(store, "unique2x") == ["d002"]
