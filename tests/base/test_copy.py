from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lagotto.base.copy
from lagotto.base.copy import CopyReport, copy_base
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.embedders import EMBEDDERS
from lagotto.errors import ModelMismatchError, StoreDamagedError, StoreError
from lagotto.filters import And, Eq
from lagotto.stores.base import Entry, Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.registry import create_store
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import DOCUMENTS, entries, entry
from tests.stores.sqlite.bases import run_sql

KINDS = ("memory", "tantivy", "fts5")

LONG = Document(
    id="long",
    title="Sentences",
    language="en",
    text=" ".join(f"Sentence number {number}." for number in range(60)),
    metadata={"nested": {"deep": [1, 2.5, "x", None]}, "when": datetime(2024, 5, 1, tzinfo=UTC)},
    created_at=datetime(2020, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    updated_at=datetime(2021, 1, 1, tzinfo=UTC),
)
EMPTY = Document(id="empty", text="", title="Nothing")
ALL = (*DOCUMENTS, LONG, EMPTY)


def place(folder: Path, kind: str, name: str) -> Store:
    if kind == "memory":
        return MemoryStore()
    return create_store(folder / f"{name}.db", text_index=kind)


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def fill(store: Store) -> None:
    """Flat chunks, parents with children, and a document without any."""
    await store.write(await entries())
    await store.write([await entry(LONG, chunker_id="parent-child:64/16/0"), await entry(EMPTY)])


async def filled() -> MemoryStore:
    store = MemoryStore()
    await fill(store)
    return store


async def answers(store: Store) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    async with AsyncKnowledgeBase(store, embedder=HashEmbedder(dimension=32)) as base:
        for query in ("trained truffle dog", "number 17", "озеро", "romagnollo"):
            for mode in ("hybrid", "keyword", "semantic"):
                hits = await base.retrieve(query, mode=mode, top_k=20)
                found += [(hit.chunk_id, hit.rank, f"{hit.score:.5f}") for hit in hits]
    return found


async def contents(store: Store) -> list[object]:
    """Everything but the vectors."""
    names = [(item.collection, item.id) async for item in store.documents(And())]
    return [(await store.get(*name), await store.chunks(*name)) for name in names]


@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
async def test_a_copy_is_the_same(tmp_path: Path, source_kind: str, target_kind: str) -> None:
    source, target = place(tmp_path, source_kind, "a"), place(tmp_path, target_kind, "b")
    async with opened(source), opened(target):
        await fill(source)
        report = await copy_base(source, target)
        chunks = (await source.info()).chunks
        assert report == CopyReport(
            documents=len(ALL), copied=len(ALL), chunks=chunks, verified=len(ALL),
            seconds=report.seconds,
        )  # fmt: skip
        assert await contents(target) == await contents(source)
        ours, theirs = await source.info(), await target.info()
        # of two chunkers it names either
        own = {"location", "bytes_on_disk", "text_index", "vector_index", "indexes", "chunker_id"}
        assert theirs.model_dump(exclude=own) == ours.model_dump(exclude=own)
        assert not [found for found in await target.check() if found.level == "problem"]
    assert await answers(target) == await answers(source)
    async with opened(target):  # with indexes that have caught up
        assert not [found for found in await target.check() if found.level != "ok"]


async def test_a_copy_keeps_what_the_base_was_made_with(tmp_path: Path) -> None:
    EMBEDDERS.register("hashed", lambda name: HashEmbedder(model_id=name))
    path = tmp_path / "a.db"
    async with AsyncKnowledgeBase(path, embedder="hashed:m", chunker="sentence:24/4") as base:
        await base.add(Document(id="a", text="Truffles grow near oaks."))
    source, target = place(tmp_path, "tantivy", "a"), place(tmp_path, "fts5", "b")
    async with opened(source), opened(target):
        await copy_base(source, target)
        config = await target.config()
    assert (config.embedder, config.model_id, config.pooling) == ("hashed:m", "m", "chunk")
    assert (config.chunker_id, config.text_index) == ("sentence:24/4", "fts5")


async def test_metadata_given_for_paths_is_copied_and_an_empty_base(tmp_path: Path) -> None:
    async with (
        opened(place(tmp_path, "tantivy", "a")) as source,
        opened(place(tmp_path, "memory", "b")) as target,
    ):
        assert (await copy_base(source, target)).documents == 0
        await fill(source)
        await source.source_files.set_path_metadata("default", {"/notes": {"topic": "oaks"}})
        await copy_base(source, target)
        assert await target.source_files.path_metadata("default") == {"/notes": {"topic": "oaks"}}


async def test_vectors_are_the_same_bit_by_bit(tmp_path: Path) -> None:
    source, target = place(tmp_path, "memory", "a"), place(tmp_path, "tantivy", "b")
    (query,) = await HashEmbedder(dimension=32).embed(["any"], role="query")
    async with opened(source), opened(target):
        await fill(source)
        await copy_base(source, target)
        found = []
        for store in (source, target):
            async with store.view(And()) as view:
                keys = (await view.semantic(query, k=100)).keys
                ids = [passage.chunk.id for passage in await view.passages(keys)]
                rows = await view.vectors(keys)
                found.append({name: row.tobytes() for name, row in zip(ids, rows, strict=True)})
        assert found[0] == found[1]


async def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    source, target = place(tmp_path, "memory", "a"), _Recording()
    await fill(source)
    await copy_base(source, target)
    again = await copy_base(source, target)
    assert (again.copied, again.unchanged, again.chunks) == (0, len(ALL), 0)
    assert again.verified == len(ALL)
    changed = DOCUMENTS[0].model_copy(update={"metadata": {"year": 1999}})
    await source.update([changed])
    target.written.clear()
    third = await copy_base(source, target)
    assert (third.copied, third.unchanged) == (1, len(ALL) - 1)
    assert target.written == ["truffle"]
    assert await target.get("default", "truffle") == changed


async def test_an_interrupted_copy_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagotto.base.copy, "BATCH_DOCUMENTS", 2)
    source, target = await filled(), _Recording(fail_at=3)
    with pytest.raises(StoreError, match="enough"):
        await copy_base(source, target)
    assert (await target.config()).unfinished_copy_of == source.location
    first = list(target.written)
    assert first
    report = await copy_base(source, target)
    assert (await target.config()).unfinished_copy_of is None
    assert report.unchanged == len(first)
    assert report.copied == len(ALL) - len(first)
    assert len(target.written) == len(set(target.written)) + 1  # two are called dog
    assert await contents(target) == await contents(source)


async def test_batches_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagotto.base.copy, "BATCH_CHUNKS", 5)
    source, target = await filled(), _Recording()
    seen: list[CopyReport] = []
    await copy_base(source, target, progress=seen.append)
    long = len(await source.chunks("default", "long"))
    assert max(size for size in target.sizes if size != long) <= 5
    assert [item.verified for item in seen] == sorted(item.verified for item in seen)
    assert seen[-1].verified == seen[-1].copied == seen[0].documents == len(ALL)
    assert len(seen) > 5


@pytest.mark.parametrize(("kind", "model", "dimension"), [("tantivy", "another-model", 32),
                                                         ("memory", "hash", 16)])  # fmt: skip
async def test_a_target_of_another_model_is_refused(
    tmp_path: Path, kind: str, model: str, dimension: int
) -> None:
    source, target = await filled(), place(tmp_path, kind, "b")
    alien = await entry(Document(id="own", text="My own."))
    problem = rf"of hash \(dimension 32\).* of {model} \(dimension {dimension}\)"
    async with opened(target):
        vectors = alien.vectors[:, :dimension]
        await target.write([Entry(alien.document, alien.chunks, vectors, model)])
        with pytest.raises(ModelMismatchError, match=problem):
            await copy_base(source, target)
        assert (await target.info()).documents == 1


async def test_other_documents_of_the_target_stay() -> None:
    source, target = await filled(), MemoryStore()
    await target.write([await entry(Document(id="own", text="My own."))])
    assert (await copy_base(source, target)).verified == len(ALL)
    assert (await target.info()).documents == len(ALL) + 1


@pytest.mark.parametrize("part", ["contents", "chunks", "vectors", None])
async def test_a_difference_is_named(part: str | None) -> None:
    source, target = await filled(), _Altering(part)
    problem = f"differs in its {part}" if part else "is missing in the target"
    with pytest.raises(StoreError, match=f"'ru' of the collection 'default' {problem}"):
        await copy_base(source, target)


async def test_a_source_without_some_vectors_is_an_error(tmp_path: Path) -> None:
    source = place(tmp_path, "tantivy", "a")
    async with opened(source):
        await fill(source)
    run_sql(tmp_path / "a.db", "DELETE FROM embedding WHERE chunk_key = 3")
    async with opened(source):
        with pytest.raises(StoreDamagedError, match="the chunk 3 has no vector"):
            await copy_base(source, MemoryStore())


async def test_writes_meanwhile_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagotto.base.copy, "BATCH_DOCUMENTS", 2)
    source, target = place(tmp_path, "tantivy", "a"), MemoryStore()
    async with opened(source):
        await fill(source)
        begun = asyncio.Event()

        def progress(done: CopyReport) -> None:
            if done.copied:
                begun.set()

        copying = asyncio.create_task(copy_base(source, target, progress=progress))
        await begun.wait()
        await source.delete(Eq("document_id", "truffle"))
        assert (await copying).verified == len(ALL)
        assert await target.get("default", "truffle") is not None


COPY = """
import os, signal, sys
import lagotto.base.copy
from lagotto.cli import main

steps = 0

def step():
    global steps
    if steps == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    steps += 1

def copy_base(*stores, progress):
    step()  # the target has been created
    return _copy_base(*stores, progress=lambda report: step())

lagotto.base.copy.BATCH_DOCUMENTS = 2
_copy_base, lagotto.base.copy.copy_base = lagotto.base.copy.copy_base, copy_base
sys.exit(main(["copy", sys.argv[1], sys.argv[2]]))
"""


async def check_killed_copies(source: Path, target: str | Path, *, kill_at: Sequence[int]) -> None:
    """Kill a copy at these steps: the target is refused until a copy of it is complete."""
    for step in (*kill_at, -1):
        command = [sys.executable, "-c", COPY, str(source), str(target), str(step)]
        done = await asyncio.to_thread(subprocess.run, command)
        if step < 0:
            assert done.returncode == 0
            break
        assert done.returncode == -signal.SIGKILL
        with pytest.raises(StoreError, match=r"unfinished copy of .*a\.db.*lagotto copy"):
            async with AsyncKnowledgeBase(target, embedder=HashEmbedder(dimension=32)):
                pass
        async with opened(create_store(target)) as partial:
            assert "unfinished copy" in " ".join(
                found.what for found in await partial.check() if found.level == "problem"
            )
            with pytest.raises(StoreError, match="is an unfinished copy of"):
                await copy_base(partial, MemoryStore())
    async with opened(create_store(source)) as ours, opened(create_store(target)) as theirs:
        assert await contents(theirs) == await contents(ours)
        assert not [found for found in await theirs.check() if found.level == "problem"]
    async with AsyncKnowledgeBase(target, embedder=HashEmbedder(dimension=32)) as base:
        assert (await base.info()).documents == len(ALL)


async def test_a_killed_copy_is_not_a_base(tmp_path: Path) -> None:
    async with opened(place(tmp_path, "tantivy", "a")) as source:
        await fill(source)
    await check_killed_copies(tmp_path / "a.db", tmp_path / "b.db", kill_at=(0, 3, 9))


async def test_a_base_with_documents_stays_open_while_others_are_copied_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lagotto.base.copy, "BATCH_DOCUMENTS", 2)
    source, target = await filled(), _Recording(fail_at=2)
    await target.write([await entry(Document(id="own", text="My own."))])
    with pytest.raises(StoreError, match="enough"):
        await copy_base(source, target)
    assert (await target.config()).unfinished_copy_of is None


class _Recording(MemoryStore):
    """Remembers what is written to it, and fails once if it is told to."""

    def __init__(self, *, fail_at: int = 0) -> None:
        super().__init__()
        self.written: list[str] = []
        self.sizes: list[int] = []
        self._fail_at = fail_at

    async def write(self, entries: Sequence[Entry], **options: Any) -> None:
        if len(self.sizes) + 1 == self._fail_at:
            self._fail_at = 0
            raise StoreError("enough")
        await super().write(entries, **options)
        self.written += [item.document.id for item in entries]
        self.sizes.append(sum(len(item.chunks) for item in entries))


class _Altering(MemoryStore):
    """Writes one document otherwise than it was told."""

    def __init__(self, part: str | None) -> None:
        super().__init__()
        self._part = part

    async def write(self, entries: Sequence[Entry], **options: Any) -> None:
        for item in entries:
            for changed in self._changed(item):
                await super().write([changed], **options)

    def _changed(self, item: Entry) -> list[Entry]:
        if item.document.id != "ru":
            return [item]
        document, chunks, vectors = item.document, list(item.chunks), item.vectors
        if self._part is None:
            return []
        if self._part == "contents":
            document = document.model_copy(update={"text": document.text.upper()})
        elif self._part == "chunks":
            chunks[0] = chunks[0].model_copy(update={"token_count": 1})
        else:
            vectors = np.roll(vectors, 1, axis=1)
        return [Entry(document, chunks, vectors, item.model_id)]
