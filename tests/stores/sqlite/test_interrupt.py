"""A cancelled search or write does not wait for what is slow."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from lagotto.base import ingest
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import DeadlineExceeded
from lagotto.indexes import bm25, overlay
from lagotto.indexes.tantivy import index as tantivy_index
from lagotto.indexes.text_query import TextQuery
from lagotto.request_context import RequestContext
from lagotto.stores.base import Entry
from lagotto.stores.sqlite import fts5
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.terms import index_terms
from lagotto.testing.hash_embedder import HashEmbedder

FOR_EVER = """
WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count)
SELECT max(n) FROM count
"""


async def test_a_slow_statement_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(tables: fts5.Fts5Tables, query: TextQuery, *, among: object) -> None:
        tables.rows(FOR_EVER)
        raise AssertionError("that never ends")

    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=HashEmbedder(), text_index="fts5"
    ) as base:
        await base.add(Document(id="a", text="A truffle."))
        expected = await base.retrieve("truffle")
        with monkeypatch.context() as patched:
            patched.setattr(fts5, "_hits", slow)
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await base.retrieve("truffle", request=RequestContext(timeout=0.2))
            assert time.monotonic() - started < 60  # it would never end
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await base.retrieve("truffle")
        assert await base.retrieve("truffle") == expected


SHORT = Document(id="a", text="A truffle.")
LONG = Document(id="long", text="Many words of a long text. " * 4_000)


class SlowAnalysis:
    """Analyses texts, each of which takes a hundredth of a second."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str, language: str | None) -> list[str]:
        self.calls += 1
        time.sleep(0.01)
        return index_terms(text, language)


@asynccontextmanager
async def out_of_time(path: Path, slow: SlowAnalysis) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base whose first search ends at its deadline, long before the analysis does."""
    async with AsyncKnowledgeBase(path, embedder=HashEmbedder(), chunker="recursive:64/0") as base:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ingest, "MIN_CHANGES_TO_INDEX", 10_000)  # nothing is indexed by `add`
            await base.add(LONG)
        with pytest.raises(DeadlineExceeded):
            await base.retrieve("words", request=RequestContext(timeout=0.05))
        assert slow.calls < 200
        yield base


async def test_a_search_does_not_wait_for_an_index_that_lags_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It catches up in the background, whether the search that needs it goes on or not."""
    slow = SlowAnalysis()
    monkeypatch.setattr(overlay, "MOST_CHUNKS", 5)
    monkeypatch.setattr(tantivy_index, "index_terms", slow)
    async with out_of_time(tmp_path / "kb.db", slow) as base:
        assert await base.retrieve("words")
        assert slow.calls == (await base.info()).chunks > 300


async def test_a_search_that_reads_what_an_index_lacks_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowAnalysis()
    monkeypatch.setattr(bm25, "index_terms", slow)
    async with out_of_time(tmp_path / "kb.db", slow):
        assert slow.calls


@pytest.mark.parametrize("where", ["analysis", "lock", "statement"])
async def test_a_cancelled_write_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """While its texts are analysed, while it waits for another writer, while it writes."""
    slow = SlowAnalysis()
    store = SqliteStore(tmp_path / "kb.db", text_index="fts5")
    async with AsyncKnowledgeBase(store, embedder=HashEmbedder(), chunker="recursive:64/0") as base:
        await base.add(SHORT)
        writing, cleared = asyncio.Event(), list[Callable[[], object]]()
        if where == "analysis":
            monkeypatch.setattr(fts5, "index_terms", slow)
        elif where == "lock":
            other = sqlite3.connect(tmp_path / "kb.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            cleared.append(other.close)
        else:
            monkeypatch.setattr(
                "lagotto.stores.sql.write.number_entries",
                lambda connection, _: connection.exec_driver_sql(FOR_EVER, ()),
            )
        write = store.write

        async def watched(entries: list[Entry]) -> None:
            writing.set()
            await write(entries)

        monkeypatch.setattr(store, "write", watched)
        adding = asyncio.create_task(base.add(LONG))
        await writing.wait()
        await asyncio.sleep(0.1)
        adding.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await adding
        for clear in cleared:
            clear()
        monkeypatch.undo()
        assert slow.calls < 200
        assert [item.id for item in await base.documents()] == ["a"]
        await base.add(LONG)
        assert (await base.retrieve("words"))[0].document_id == "long"


async def test_other_writers_do_not_wait_for_the_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes most of the time of a write with FTS5; also where the language is unknown, and
    the main one of the collection stands in for it.
    """
    path, free = tmp_path / "kb.db", list[bool]()

    def watching(text: str, language: str | None) -> list[str]:
        with closing(sqlite3.connect(path, timeout=0)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                free.append(True)
            except sqlite3.OperationalError:
                free.append(False)
        return index_terms(text, language)

    async with AsyncKnowledgeBase(path, embedder=HashEmbedder(), text_index="fts5") as base:
        await base.add(SHORT)
        monkeypatch.setattr(fts5, "index_terms", watching)
        await base.add(Document(id="b", title="Title", text="Two.", language="en"))
        await base.add(Document(id="c", text="# Three\n\nand four", kind="markdown"))
        await base.add(Document(id="d", text="x1 y2"))
        unknown = await base.get("d")
    assert unknown is not None
    assert unknown.language is None
    assert len(free) >= 3
    assert all(free)


def test_a_writer_gets_the_lock_beside_one_that_writes_all_the_time(tmp_path: Path) -> None:
    """SQLite's own waiting grows to a tenth of a second, in which the other is back long since."""
    path = tmp_path / "kb.db"
    stop = threading.Event()

    def hog() -> None:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as other:
            while not stop.is_set():
                other.execute("BEGIN IMMEDIATE")
                time.sleep(0.05)
                other.execute("COMMIT")
                time.sleep(0.004)

    async def write() -> float:
        async with AsyncKnowledgeBase(path, embedder=HashEmbedder()) as base:
            thread = threading.Thread(target=hog)
            thread.start()
            try:
                started = time.monotonic()
                for number in range(5):
                    await base.add(Document(id=str(number), text="A truffle."))
                return time.monotonic() - started
            finally:
                stop.set()
                thread.join()

    assert asyncio.run(write()) < 20


async def test_a_change_does_not_wait_behind_searches_for_a_thread(tmp_path: Path) -> None:
    """All threads of the event loop are busy."""
    may_end = threading.Event()
    loop = asyncio.get_running_loop()
    store = SqliteStore(tmp_path / "kb.db")
    await store.open()
    with ThreadPoolExecutor(1) as executor:
        loop.set_default_executor(executor)
        busy = loop.run_in_executor(None, may_end.wait, 60)
        try:
            async with asyncio.timeout(30):
                assert await store.keyed_values.put("task", "a", {})
        finally:
            may_end.set()
            await busy
        assert await store.keyed_values.get("task", "a") is not None
        await store.close()
        loop.set_default_executor(ThreadPoolExecutor(4))
