"""Rebuilding, on the stores that need no server; PostgreSQL has its own module."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document
from lagotto.errors import StoreError
from lagotto.indexes.tantivy.index import TantivyIndex
from lagotto.stores.memory import MemoryStore
from lagotto.stores.sql import generations
from lagotto.stores.sqlite.database import SqliteConnection
from lagotto.stores.sqlite.fts5 import fts5_generations
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.stores.sqlite.write import SqliteStaging
from lagotto.testing.rebuild import DOCUMENTS, OLD, RebuildContract, Stop, answers
from tests.panics import PANICS, PanickingChunker

pytestmark = pytest.mark.slow


def generations_in(file: Path) -> set[int]:
    """The generations that have rows."""
    tables = ("chunk_set", "chunk", "embedding", "history", "removal")
    with closing(sqlite3.connect(file)) as connection:
        found = [connection.execute(f"SELECT DISTINCT generation FROM {name}") for name in tables]
        return {generation for rows in found for (generation,) in rows}


class TestMemory(RebuildContract):
    durable = False

    @pytest.fixture
    def location(self) -> Any:
        return MemoryStore()


class TestTantivy(RebuildContract):
    choices = (*RebuildContract.choices[:-1], {"text_index": "fts5"}, {"text_index": "tantivy"}, {})

    @pytest.fixture
    def location(self, tmp_path: Path) -> Path:
        return tmp_path / "kb.db"

    async def test_nothing_is_left_over(self, location: Path) -> None:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            await answers(base)
            await base.rebuild(embedder="hashed:new/32")
            await answers(base)
            store = base.store
            assert isinstance(store, SqliteStore)
            assert len(list(store.indexes.path.glob("text-*"))) == 1
            assert {item.level for item in await store.check()} == {"ok"}
        assert generations_in(location) == {1}

    async def test_what_a_killed_rebuild_left_is_deleted_by_the_next(
        self, location: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It had switched, and not yet deleted the former generation."""
        monkeypatch.setattr(generations, "SETS_AT_ONCE", 7)
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            with monkeypatch.context() as patched:
                patched.setattr(SqliteStaging, "drop_former", AsyncMock(side_effect=[None, Stop]))
                with pytest.raises(Stop):
                    await base.rebuild(embedder="hashed:new/32")
        assert generations_in(location) == {0, 1}
        async with AsyncKnowledgeBase(location) as base:
            before = await answers(base)
            notes = [item.what for item in await base.store.check() if item.level == "note"]
            assert [what for what in notes if "from before a rebuild" in what]
            await base.rebuild()
            assert {item.level for item in await base.store.check()} == {"ok"}
            assert await answers(base) == before
        assert generations_in(location) == {2}

    async def test_replaced_indexes_are_closed(
        self, location: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a process that another one's rebuild surprises; their folders stay deleted."""
        monkeypatch.setattr("lagotto.indexes.vectors.index.WORTH_SAVING", 1)
        async with (
            AsyncKnowledgeBase(location, **OLD) as base,
            AsyncKnowledgeBase(location) as other,
        ):
            await base.add(*DOCUMENTS)
            await answers(other)
            store = other.store
            assert isinstance(store, SqliteStore)
            await asyncio.to_thread(store.updater.finish)  # or it would make an index again
            text, vectors = store.search_indexes.open
            await base.rebuild(embedder="hashed:new/32")
            assert await answers(other) == await answers(base)
            assert (text._index, vectors._rows) == (None, None)  # type: ignore[union-attr]
        folders = {path.name.partition("-")[0] for path in store.indexes.indexes()}
        assert len(store.indexes.indexes()) == len(folders) == 2

    async def test_an_update_of_the_former_index_does_not_bring_it_back(
        self, location: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, catch_up = threading.Event(), TantivyIndex.catch_up
        begun.set()

        def slow(index: TantivyIndex, changes: Any) -> None:
            if not begun.is_set():
                begun.set()
                time.sleep(1)  # longer than the rebuild takes
            catch_up(index, changes)

        monkeypatch.setattr(TantivyIndex, "catch_up", slow)
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            await answers(base)
            await base.rebuild(embedder="hashed:new/32")
            begun.clear()
            await base.add(Document(id="late", text="one more"))
            store = base.store
            assert isinstance(store, SqliteStore)
            store.updater.request()
            assert await asyncio.to_thread(begun.wait, 5)  # has the index of this generation
            await base.rebuild(embedder="hashed:newer/32")
            await asyncio.to_thread(store.updater.finish)
            assert len(list(store.indexes.path.glob("text-*"))) == 1

    async def test_the_first_search_finds_the_indexes_built(
        self, location: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS)
            await answers(base)
            await base.rebuild(embedder="hashed:new/32")
            applied: list[object] = []
            monkeypatch.setattr(
                "lagotto.indexes.tantivy.index.TantivyWriter.apply",
                lambda *args, **kwargs: applied.append(args),
            )
            await answers(base)
            assert not applied

    async def test_a_document_that_can_not_be_made_again_is_named(
        self, location: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(CHUNKERS._registered, "panicking", lambda *_: PanickingChunker())
        async with AsyncKnowledgeBase(location, **OLD) as base:
            await base.add(*DOCUMENTS, Document(id="odd", text=PANICS))
            before = await answers(base)
            with pytest.raises(StoreError, match="can't be rebuilt with odd: chunking failed"):
                await base.rebuild(chunker="panicking")
            assert await answers(base) == before


class TestFts5(RebuildContract):
    @pytest.fixture
    async def location(self, tmp_path: Path) -> Path:
        async with AsyncKnowledgeBase(tmp_path / "kb.db", **OLD, text_index="fts5"):
            pass
        return tmp_path / "kb.db"

    async def test_a_rebuild_repairs_a_damaged_text_index(self, location: Path) -> None:
        async with AsyncKnowledgeBase(location) as base:
            await base.add(*DOCUMENTS)
            before = await answers(base)
        with closing(sqlite3.connect(location)) as connection, connection:
            connection.execute("DELETE FROM chunk_terms WHERE rowid % 2 = 0")
        async with AsyncKnowledgeBase(location) as base:
            (problem,) = [item for item in await base.store.check() if item.level != "ok"]
            assert problem.advice == "run `lagotto rebuild`"
            await base.rebuild()
            assert {item.level for item in await base.store.check()} == {"ok"}
            assert await answers(base) == before

    async def test_the_words_of_former_chunks_go_before_these(
        self, location: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process may die while it deletes the former generation."""

        drop, calls = generations._drop_former, iter(range(2))

        def dies_the_second_time(*args: Any, **options: Any) -> Any:
            if next(calls):  # the first is before the rebuild
                raise StoreError("the process died")
            return drop(*args, **options)

        monkeypatch.setattr(generations, "_drop_former", dies_the_second_time)
        async with AsyncKnowledgeBase(location) as base:
            await base.add(*DOCUMENTS)
            with pytest.raises(StoreError, match="the process died"):
                await base.rebuild()
            current = (await base.store.config()).generation
        with closing(sqlite3.connect(location)) as connection:
            assert fts5_generations(SqliteConnection(connection)) == [current]
