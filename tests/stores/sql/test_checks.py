"""What `lagotto check` says about the rows of a base."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.filters import And
from lagotto.stores.sql import checks
from lagotto.stores.sql.generations import NEXT, NextGeneration
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.chunk_cache import DOCUMENT, derived, stored
from lagotto.testing.stores import entry
from tests.stores.sqlite.bases import run_sql, sqlite_store


async def found(store: SqliteStore) -> str:
    return "\n".join(f"{each.level}: {each.what}" for each in await store.check())


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, ": default/d0"), (5, ", default/d4"), (6, ", default/d4, and 1 more")],
)
async def test_a_finding_names_five_documents(tmp_path: Path, count: int, named: str) -> None:
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await entry(Document(id=f"d{n}", text="word")) for n in range(count)])
        run_sql(store.path, "DELETE FROM embedding")
        assert f"problem: {count} chunks have no vector" in await found(store)
        assert f"{named}\n" in f"{await found(store)}\n"


async def test_cached_chunks_that_have_expired(tmp_path: Path) -> None:
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await stored(DOCUMENT)])
        await store.chunk_cache.save(dict([await derived(DOCUMENT, chunker="document")]), ttl=60)
        assert "expired" not in await found(store)
        assert "problem" not in await found(store)
        run_sql(store.path, "UPDATE chunk_cache SET expires_at = '1999-01-01T00:00:00.000000Z'")
        assert "note: 1 sets of cached chunks have expired" in await found(store)


async def test_more_removals_than_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await entry(Document(id=f"d{n}", text="word")) for n in range(2)])
        await store.delete(And())
        monkeypatch.setattr(checks, "MANY_REMOVALS", 3)
        assert "removed" not in await found(store)
        monkeypatch.setattr(checks, "MANY_REMOVALS", 2)
        assert "note: 2 removed chunks are still in the change log" in await found(store)
        await store.write([await entry(Document(id=f"e{n}", text="word")) for n in range(3)])
        assert "removed" not in await found(store)


async def test_chunks_of_other_generations(tmp_path: Path) -> None:
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await entry(Document(id=f"d{n}", text="word")) for n in range(3)])
        assert "rebuild" not in await found(store)
        assert "no stored text" not in await found(store)
        config = (await store.config()).model_copy(update={"generation": 7})
        made = NextGeneration(config=config, rules="").model_dump_json()
        run_sql(store.path, f"INSERT INTO setting VALUES ('{NEXT}', '{made}')")
        assert "note: there is an unfinished rebuild (0 chunks)" in await found(store)
        run_sql(store.path, "UPDATE chunk SET generation = 7 WHERE ordinal = 0")
        assert "note: there is an unfinished rebuild (3 chunks)" in await found(store)
        assert "from before a rebuild" not in await found(store)
        run_sql(store.path, f"DELETE FROM setting WHERE name = '{NEXT}'")
        assert "note: there are 3 chunks from before a rebuild" in await found(store)


@pytest.mark.parametrize("change", ["title = 'other'", "fingerprint = 'other'", "text = 'other'"])
async def test_a_document_is_compared_with_its_hashes(tmp_path: Path, change: str) -> None:
    async with sqlite_store(tmp_path / "kb.db") as store:
        await store.write([await entry(Document(id="d", title="a", text="word " * 900))])
        assert "hashes" not in await found(store)
        run_sql(store.path, f"UPDATE document SET {change}")
        assert "problem: documents are not what their hashes say: default/d" in await found(store)
