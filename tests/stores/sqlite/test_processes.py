"""Several processes and threads on one base."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import DegradedError, StoreError
from lagotto.filters import And
from lagotto.indexes import overlay
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder
from tests.child_process import child, said, tell
from tests.stores.sqlite.bases import document, documents, opened

pytestmark = pytest.mark.slow

WRITER = """
import sys
from pathlib import Path
from tests.stores.sqlite.bases import document, opened

first, count = int(sys.argv[2]), int(sys.argv[3])
with opened(Path(sys.argv[1]), text_index=sys.argv[4]) as base:
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(count):
        base.add(document(first + turn), document(first, version=turn))
        if turn % 3 == 0:
            base.retrieve("anything")
        print(first + turn, flush=True)
"""

READER = """
import sys
from pathlib import Path
from tests.stores.sqlite.bases import opened

with opened(Path(sys.argv[1])) as base:
    print("ready", flush=True)
    while line := sys.stdin.readline().strip():
        new = base.retrieve(f"unique{line}x", mode="keyword", fuzzy={"mode": "off"})
        again = base.retrieve("unique0x", mode="keyword", fuzzy={"mode": "off"})
        near = base.retrieve("unique0x", mode="semantic", top_k=200)
        versions = {hit.metadata["version"] for hit in near if hit.document_id == "d000"}
        good = (
            {hit.document_id for hit in new} == {f"d{int(line):03}"}
            and {hit.document_id for hit in again} == {"d000"}
            and len(versions) == 1
        )
        print("good" if good else f"bad: {new} {again} {versions}", flush=True)
"""


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_one_writes_and_two_read(tmp_path: Path, text_index: str) -> None:
    path = tmp_path / "kb.db"
    with opened(path, text_index=text_index) as base:
        base.add(*documents(5))
    with (
        child(WRITER, path, 0, 15, text_index) as writer,
        child(READER, path) as one,
        child(READER, path) as two,
    ):
        for process in (writer, one, two):
            assert said(process) == "ready"
        tell(writer, "go")
        for _ in range(15):
            stored = said(writer)
            for reader in (one, two):
                tell(reader, stored)
            assert [said(one), said(two)] == ["good", "good"]


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_two_write_at_once(tmp_path: Path, text_index: str) -> None:
    path = tmp_path / "kb.db"
    with (
        child(WRITER, path, 0, 12, text_index) as one,
        child(WRITER, path, 100, 12, text_index) as two,
    ):
        assert [said(one), said(two)] == ["ready", "ready"]  # both made the base, or neither
        for process in (one, two):
            tell(process, "go")
        for turn in range(12):
            assert [said(one), said(two)] == [str(turn), str(100 + turn)]
        assert [one.wait(), two.wait()] == [0, 0]
    with opened(path) as base:
        numbers = [*range(12), *range(100, 112)]
        assert [item.id for item in base.documents()] == [f"d{number:03}" for number in numbers]
        for number in numbers:
            hits = base.retrieve(f"unique{number}x", mode="keyword", fuzzy={"mode": "off"})
            assert {hit.document_id for hit in hits} == {f"d{number:03}"}


SAVER = """
import logging, sys
from pathlib import Path
from lagotto.documents import Document
from tests.stores.sqlite.bases import opened

logging.basicConfig(stream=sys.stdout)
name, text = sys.argv[2], "some words here. " * 300
print("ready", flush=True)
sys.stdin.readline()
with opened(Path(sys.argv[1])) as base:
    for turn in range(3):
        numbers = [f"{name}{turn}x{number}" for number in range(12)]
        base.add(*(Document(id=number, text=f"{number} {text}") for number in numbers))
        hits = base.retrieve(numbers[3], mode="keyword", fuzzy={"mode": "off"})
        assert {hit.document_id for hit in hits} == {numbers[3]}, hits
        assert len(base.retrieve("some words", mode="semantic", top_k=90)) == 90
        base.remove(*numbers[6:])
print("done", flush=True)
"""


def test_two_make_the_base_and_its_indexes_at_once(tmp_path: Path) -> None:
    """So many chunks that both save vectors, and so many removed that both make the text again."""
    path = tmp_path / "kb.db"
    with child(SAVER, path, "one") as one, child(SAVER, path, "two") as two:
        assert [said(one), said(two)] == ["ready", "ready"]
        for process in (one, two):
            tell(process, "go")
        assert [said(one), said(two)] == ["done", "done"]
    with opened(path) as base:
        assert base.info().documents == 2 * 3 * 6
        found = base.retrieve("some words", mode="semantic", top_k=5_000)
        assert len(found) == base.info().chunks


async def test_a_process_that_keeps_the_indexes_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then what the text index lacks is searched without it, as long as that is little."""
    store = SqliteStore(tmp_path / "kb.db", busy_timeout=0.2)
    async with AsyncKnowledgeBase(store, embedder=HashEmbedder()) as base:
        await base.add(*documents(3))
        with store.indexes.lock(timeout=1):
            for mode in ("hybrid", "keyword"):
                found = await base.retrieve("unique1x", mode=mode)
                assert found[0].document_id == "d001"
            await until(lambda: store.updater.problem is not None)
            found = await base.retrieve("unique1x")
            assert found[0].document_id == "d001"
            (note,) = found.degraded
            assert "the text index is 3 changes behind, which are searched without it" in note
            with pytest.raises(DegradedError, match="try again when it has finished"):
                await base.retrieve("unique1x", strict=True)
            monkeypatch.setattr(overlay, "MOST_CHUNKS", 1)
            store._views.clear()
            (note,) = (await base.retrieve("unique1x")).degraded
            assert "the text index is 3 changes behind, which are not searched for words" in note
        await base.add(*documents(5))
        assert (await base.retrieve("unique4x"))[0].document_id == "d004"
        await until(lambda: store.updater.problem is None)
        with store.indexes.lock(timeout=1):
            await base.remove("d001")
            await base.add(documents(7)[6])
            monkeypatch.setattr(overlay, "MOST_CHUNKS", 100)
            found = await base.retrieve("only", mode="keyword", top_k=50)
            assert {hit.document_id for hit in found} == {"d000", "d002", "d003", "d004", "d006"}
        await base.add(documents(8)[7])
        await base.retrieve("unique7x")
        await until(lambda: store.updater.problem is None)
        assert not (await base.retrieve("unique6x")).degraded


async def until(true: Callable[[], bool]) -> None:
    """Wait for what happens in the background."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_threads_share_a_base(tmp_path: Path) -> None:
    with opened(tmp_path / "kb.db") as base:
        base.add(*documents(10))

        def write(first: int) -> None:
            for number in range(first, first + 8):
                base.add(document(number))
                base.add(document(3, version=number))
            base.remove(f"d{first:03}")

        def read() -> None:
            for number in range(20):
                hits = base.retrieve(f"unique{number % 10}x", mode="keyword", fuzzy={"mode": "off"})
                assert [hit.document_id for hit in hits] == [f"d{number % 10:03}"]

        jobs: list[Callable[[], None]] = [
            partial(write, 100),
            partial(write, 200),
            read,
            read,
            read,
        ]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
        expected = {*range(10), *range(101, 108), *range(201, 208)}
        assert {item.id for item in base.documents()} == {f"d{n:03}" for n in expected}


async def test_many_searches_at_once(tmp_path: Path) -> None:
    """More than there are connections in a pool, or threads."""
    base = AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder())
    async with base:
        await base.add(*documents(10))
        found = await asyncio.gather(
            *(base.retrieve(f"unique{number % 10}x", top_k=1) for number in range(60))
        )
    assert [hits[0].document_id for hits in found] == [f"d{n % 10:03}" for n in range(60)]


async def test_a_search_keeps_its_state(tmp_path: Path) -> None:
    """What others write and search meanwhile does not show."""
    store = SqliteStore(tmp_path / "kb.db")
    base = AsyncKnowledgeBase(store, embedder=HashEmbedder())
    (vector,) = await HashEmbedder().embed(["unique3x"], role="query")
    async with base:
        await base.add(*documents(10))
        async with store.view(And()) as view:
            before = await view.semantic(vector, k=100)
            await base.add(*(document(number, version=2) for number in range(10)))
            await base.add(Document(id="new", text="The marhs.", metadata={"version": 2}))
            assert {hit.metadata["version"] for hit in await base.retrieve("unique3x")} == {2}
            after = await view.semantic(vector, k=100)
            assert after.keys.tolist() == before.keys.tolist()
            terms = await view.corrections(["unique3x", "marhs", "version1"])
            assert (terms[0], terms[2]) == ((), ())
            assert [term.text for term in terms[1]] == ["marsh"]
            passages = await view.passages(after.keys)
            assert {item.document.metadata["version"] for item in passages} == {1}


async def test_cancelled_searches_leave_the_base_usable(tmp_path: Path) -> None:
    base = AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder())
    async with base:
        for turn in range(15):
            await base.add(*(document(number, version=turn) for number in range(5)))
            task = asyncio.create_task(base.retrieve("unique3x"))
            await asyncio.sleep(0.002 * turn)
            task.cancel()
            await asyncio.wait([task])
        assert (await base.retrieve("unique3x"))[0].metadata["version"] == 14


def test_a_base_closed_by_another_thread(tmp_path: Path) -> None:
    base = opened(tmp_path / "kb.db")
    base.add(*documents(5))

    def search() -> None:
        while True:
            base.retrieve("unique3x")

    with ThreadPoolExecutor(3) as pool:
        searches = [pool.submit(search) for _ in range(3)]
        base.retrieve("unique1x")
        base.close()
        errors = [each.exception(timeout=30) for each in searches]
    assert all(isinstance(error, StoreError) and "closed" in str(error) for error in errors)


def test_the_facade_works_inside_a_running_loop(tmp_path: Path) -> None:
    async def inside() -> int:
        with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as base:
            base.add(*documents(3))
            return len(base.retrieve("unique1x"))

    assert asyncio.run(inside()) > 0
