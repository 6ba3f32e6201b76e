from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lagotto.base import ingest as ingest_module
from lagotto.base.ingest import (
    BATCH_DOCUMENTS,
    MIN_CHANGES_TO_INDEX,
    QUEUED_BATCHES,
    AddReport,
    Ingest,
    Progress,
)
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Chunk, Document
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError, EmbeddingError, LagottoError
from lagotto.readers import ReadFailure
from lagotto.stores.base import Entry, Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.sqlite.store import SqliteStore
from tests.counting import CountingEmbedder
from tests.panics import PANICS, PanickingChunker, PanickingEmbedder


def document(number: int, **fields: object) -> Document:
    text = f"This is document number {number}."
    return Document.model_validate({"id": f"d{number:05}", "text": text, **fields})


def documents(count: int) -> list[Document]:
    return [document(number) for number in range(count)]


def ingest(
    store: Store,
    embedder: Embedder,
    *,
    chunker: str = "recursive:64/8",
    steps: list[Progress] | None = None,
) -> Ingest:
    return Ingest(
        store=store,
        chunker=CHUNKERS.create(chunker, tokenizer=embedder.tokenizer),
        vectors=ChunkEmbedder(embedder),
        on_progress=steps.append if steps is not None else None,
    )


async def run(
    store: Store,
    results: Iterable[Document | ReadFailure],
    embedder: CountingEmbedder,
    *,
    chunker: str = "recursive:64/8",
) -> tuple[AddReport, int]:
    """The report, and how many texts were embedded."""
    before = len(embedder.texts)
    report = await ingest(store, embedder, chunker=chunker).run(results)
    return report, len(embedder.texts) - before


def counts(report: AddReport) -> tuple[int, int, int]:
    return report.added, report.updated, report.unchanged


class TestIncremental:
    async def test_what_is_unchanged_is_skipped(self) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        report, embedded = await run(store, documents(300), embedder)
        assert (counts(report), embedded, report.chunks) == ((300, 0, 0), 300, 300)
        report, embedded = await run(store, documents(300), embedder)
        assert (counts(report), embedded, report.chunks) == ((0, 0, 300), 0, 0)

    async def test_what_changed_is_replaced(self) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        await run(store, documents(10), embedder)
        changed = document(3, text="Something else.")
        report, embedded = await run(store, [*documents(3), changed], embedder)
        assert (counts(report), embedded) == ((0, 1, 3), 1)
        assert await store.get("default", changed.id) == changed
        assert [chunk.text for chunk in await store.chunks("default", changed.id)] == [
            "Something else."
        ]

    async def test_other_metadata_is_not_embedded_again(self) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        await run(store, documents(10), embedder)
        changed = document(3, metadata={"year": 2024}, summary="Short.")
        report, embedded = await run(store, [changed], embedder)
        assert (counts(report), embedded) == ((0, 1, 0), 0)
        assert await store.get("default", changed.id) == changed

    @pytest.mark.parametrize(
        ("fields", "new"), [({"title": "A title"}, 1), ({"language": "de"}, 0)]
    )
    async def test_what_the_terms_depend_on_counts_as_content(
        self, fields: dict[str, object], new: int
    ) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        await run(store, documents(2), embedder)
        report, embedded = await run(store, [document(1, **fields)], embedder)
        assert (counts(report), embedded) == ((0, 1, 0), new)

    async def test_another_chunker_cuts_again(self) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        long = document(1, text="One sentence here. " * 40)
        await run(store, [long], embedder)
        report, embedded = await run(store, [long], embedder, chunker="recursive:16/0")
        assert counts(report) == (0, 1, 0)
        chunks = await store.chunks("default", long.id)
        assert embedded == len(chunks) > 3
        assert {chunk.chunker_id for chunk in chunks} == {"recursive:16/0"}

    async def test_the_last_of_the_same_id_stays(self) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        await run(store, [document(1, text="First."), document(1, text="Second.")], embedder)
        stored = await store.get("default", "d00001")
        assert stored is not None
        assert stored.text == "Second."

    async def test_the_same_id_in_another_collection_is_another_document(self) -> None:
        store, embedder = MemoryStore(), CountingEmbedder()
        twice = [document(1), document(1, collection="other")]
        assert counts((await run(store, twice, embedder))[0]) == (2, 0, 0)
        assert (await store.info()).collections == {"default": 1, "other": 1}

    async def test_nothing_at_all(self) -> None:
        report, embedded = await run(MemoryStore(), [], CountingEmbedder())
        assert (counts(report), embedded) == ((0, 0, 0), 0)


class TestReport:
    async def test_failures_are_listed(self) -> None:
        failure = ReadFailure(source="x.pdf", reason="it is empty", error="EmptySourceError")
        report, _ = await run(MemoryStore(), [document(1), failure], CountingEmbedder())
        assert report.failures == (failure,)
        assert str(report).endswith("1 failed:\n  x.pdf: it is empty (EmptySourceError)")
        assert str(report).startswith("1 added, 0 updated, 0 unchanged (1 chunk, ")

    async def test_a_document_that_cannot_be_chunked_is_not_counted_as_added(self) -> None:
        class Failing:
            id = "failing"

            def chunk(self, document: Document) -> list[Chunk]:
                raise RuntimeError("no idea")

        worker = Ingest(
            store=MemoryStore(), chunker=Failing(), vectors=ChunkEmbedder(CountingEmbedder())
        )
        report = await worker.run([document(1)])
        assert counts(report) == (0, 0, 0)
        assert [str(failure) for failure in report.failures] == [
            "d00001: chunking failed (no idea) (RuntimeError)"
        ]

    async def test_a_panic_of_native_code_fails_one_document(self) -> None:
        works = [document(0), document(1, text=PANICS), document(2)]
        vectors = ChunkEmbedder(CountingEmbedder())
        worker = Ingest(store=MemoryStore(), chunker=PanickingChunker(), vectors=vectors)
        report = await worker.run(works)
        assert counts(report) == (2, 0, 0)
        assert [(item.source, item.error) for item in report.failures] == [
            ("d00001", "NativeError")
        ]

    async def test_a_panic_while_embedding_fails_one_document(self) -> None:
        works = [document(0), document(1, text=PANICS), document(2)]
        store = MemoryStore()
        report, _ = await run(store, works, PanickingEmbedder())
        assert counts(report) == (2, 0, 0)
        assert (await store.info()).documents == report.chunks == 2
        assert [(item.source, item.error) for item in report.failures] == [
            ("d00001", "NativeEmbeddingError")
        ]
        report, _ = await run(store, works[1:2], PanickingEmbedder())
        assert [item.source for item in report.failures] == ["d00001"]

    @pytest.mark.parametrize("text_index", ["tantivy", "fts5", None])
    async def test_a_language_of_an_earlier_version_costs_its_stems(
        self, tmp_path: Path, text_index: str | None
    ) -> None:
        """Document refuses it, but can be made without validation; and bases may hold it."""
        odd = document(1).model_copy(update={"language": "é"})
        store = SqliteStore(tmp_path / "kb.db", text_index=text_index) if text_index else None
        async with AsyncKnowledgeBase(store or MemoryStore(), embedder=CountingEmbedder()) as base:
            report = await base.add(document(0), odd, document(2))
            assert counts(report) == (3, 0, 0)
            for mode in ("hybrid", "semantic", "keyword"):
                assert len(await base.retrieve("document number", mode=mode)) == 3
            with pytest.raises(ConfigError, match="'é' is not a language tag"):
                await base.add(document(3), language="é")

    async def test_a_text_that_makes_the_splitter_panic_is_chunked(self) -> None:
        for chunker in ("recursive:64/8", "sentence:16/0", "section"):
            report, _ = await run(
                MemoryStore(), [document(1, text=PANICS)], CountingEmbedder(), chunker=chunker
            )
            assert counts(report) == (1, 0, 0)

    @pytest.mark.parametrize("value", [object(), "\ud800", 10**400])
    async def test_a_document_that_cannot_be_serialised_fails_alone(
        self, tmp_path: Path, value: object
    ) -> None:
        """Document refuses such values, but can be made without validation."""
        store = SqliteStore(tmp_path / "kb.db")
        await store.open()
        bad = document(1).model_copy(update={"metadata": {"bad": value}})
        report, _ = await run(store, [document(0), bad, document(2)], CountingEmbedder())
        assert counts(report) == (2, 0, 0)
        assert report.chunks == (await store.info()).documents == 2
        assert [failure.source for failure in report.failures] == ["d00001"]
        await run(store, [document(1)], CountingEmbedder())
        report, _ = await run(store, [document(0), bad, document(2)], CountingEmbedder())
        assert counts(report) == (0, 0, 2)
        assert [failure.source for failure in report.failures] == ["d00001"]
        await store.close()

    async def test_progress_only_grows_and_is_stored(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "kb.db")
        await store.open()
        steps: list[Progress] = []
        stored: list[int] = []

        def note(step: Progress) -> None:
            steps.append(step)
            stored.append(_count(tmp_path))

        embedder = CountingEmbedder()
        worker = Ingest(
            store=store,
            chunker=CHUNKERS.create("recursive:64/8", tokenizer=embedder.tokenizer),
            vectors=ChunkEmbedder(embedder),
            on_progress=note,
        )
        failure = ReadFailure(source="x", reason="no", error="ReadError")
        await worker.run([*documents(400), failure, document(0, metadata={"a": 1})])
        await store.close()
        assert len(steps) > 2
        for before, after in itertools.pairwise(steps):
            assert before.added <= after.added
            assert before.chunks <= after.chunks
            assert before.documents <= after.documents
            assert before.read <= after.read
            assert before.found <= after.found
            assert before.embedded <= after.embedded
            assert before.seconds <= after.seconds
        assert all(count >= step.added for count, step in zip(stored, steps, strict=True))
        assert (steps[-1].added, steps[-1].updated, steps[-1].failed) == (400, 1, 1)
        assert all(step.chunks <= step.embedded <= step.found for step in steps)
        assert steps[-1].read == 402
        assert steps[-1].embedded == steps[-1].found == steps[-1].chunks

    async def test_a_large_document_is_embedded_step_by_step(self, tmp_path: Path) -> None:
        steps: list[int] = []
        async with AsyncKnowledgeBase(tmp_path / "kb.db", chunker="recursive:8/0") as base:
            text = " ".join(f"word{number}" for number in range(900))
            await base.add(Document(text=text), progress=lambda step: steps.append(step.embedded))
        assert len(set(steps)) > 4
        assert steps == sorted(steps)


def _count(folder: Path) -> int:
    """How many documents another process would see."""

    async def count() -> int:
        store = SqliteStore(folder / "kb.db")
        await store.open()
        try:
            return (await store.info()).documents
        finally:
            await store.close()

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(count())))
    thread.start()
    thread.join()
    return found[0]


class _SlowStore(MemoryStore):
    """Writes nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()

    async def write(self, entries: Sequence[Entry], **options: Any) -> None:
        await self.may_write.wait()
        await super().write(entries, **options)


class TestIndexing:
    async def test_an_ingest_leaves_little_to_index(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "kb.db")
        await store.open()
        await ingest(store, CountingEmbedder()).run(documents(MIN_CHANGES_TO_INDEX + 50))
        for index in (await store.info()).indexes:
            assert index.changes - index.applied_seq < MIN_CHANGES_TO_INDEX
        await store.close()


class TestInterrupted:
    async def test_reads_only_a_few_batches_ahead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ingest_module, "FIRST_STEP", BATCH_DOCUMENTS)  # no batch is parted
        read = 0

        def endless() -> Iterator[Document]:
            nonlocal read
            while True:
                read += 1
                yield document(read)

        store = _SlowStore()
        task = asyncio.create_task(ingest(store, CountingEmbedder()).run(endless()))
        stages, queues = 3, 2
        most = BATCH_DOCUMENTS * (stages + queues * QUEUED_BATCHES)
        while read < most:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)  # for one that reads on
        assert read == most
        task.cancel()
        store.may_write.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_cancelled_run_goes_on_where_it_ended(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "kb.db")
        await store.open()
        embedder = CountingEmbedder()
        enough = asyncio.Event()
        first = Ingest(
            store=store,
            chunker=CHUNKERS.create("recursive:64/8", tokenizer=embedder.tokenizer),
            vectors=ChunkEmbedder(embedder),
            on_progress=lambda step: enough.set() if step.added >= 256 else None,
        )
        task = asyncio.create_task(first.run(documents(1_000)))
        await enough.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stored = (await store.info()).documents
        assert stored == first.report().added
        assert 256 <= stored < 1_000
        report, embedded = await run(store, documents(1_000), embedder)
        assert counts(report) == (1_000 - stored, 0, stored)
        assert embedded == 1_000 - stored
        assert (await store.info()).documents == 1_000
        await store.close()

    async def test_an_error_of_the_embedder_comes_out_as_it_is(self) -> None:
        def fail(so_far: int) -> None:
            if so_far >= 256:
                raise EmbeddingError("the model is gone")

        store = MemoryStore()
        with pytest.raises(EmbeddingError, match="the model is gone"):
            await ingest(store, CountingEmbedder(before=fail)).run(documents(1_000))
        stored = (await store.info()).documents
        assert stored % BATCH_DOCUMENTS == 0
        report, embedded = await run(store, documents(1_000), CountingEmbedder())
        assert embedded == report.added == 1_000 - stored

    async def test_an_error_of_the_source_comes_out_as_it_is(self) -> None:
        def broken() -> Iterator[Document]:
            yield from documents(200)
            raise LagottoError("the disk is gone")

        with pytest.raises(LagottoError, match="the disk is gone"):
            await ingest(MemoryStore(), CountingEmbedder()).run(broken())

    async def test_an_error_of_the_callback_comes_out_as_it_is(self) -> None:
        def stop(step: Progress) -> None:
            raise KeyError(step.source)

        embedder = CountingEmbedder()
        worker = Ingest(
            store=MemoryStore(),
            chunker=CHUNKERS.create("recursive:64/8", tokenizer=embedder.tokenizer),
            vectors=ChunkEmbedder(embedder),
            on_progress=stop,
        )
        with pytest.raises(KeyError):
            await worker.run(documents(1))

    async def test_no_task_is_left_over(self) -> None:
        def fail(_: int) -> None:
            raise EmbeddingError("no")

        with pytest.raises(EmbeddingError):
            await ingest(MemoryStore(), CountingEmbedder(before=fail)).run(documents(1_000))
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_documents_in_a_language_that_the_embedder_does_not_know_are_noted() -> None:
    async with AsyncKnowledgeBase(":memory:") as base:
        english = Document(id="en", text="The dog finds truffles in the woods.", language="en")
        russian = Document(id="ru", text="Собака ищет трюфели в лесу.", language="ru")
        assert (await base.add(english)).notes == ()
        (note,) = (await base.add(english, russian)).notes
        assert note.startswith("1 new document in ru (100%): all-MiniLM-L6-v2 was trained on en")
        assert "`lagotto rebuild --embedder multilingual`" in note
        assert (await base.add(english, russian)).notes == ()
