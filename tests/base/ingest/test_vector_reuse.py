"""Only what changed is embedded, and a run that is stopped loses little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from lagotto.base import ingest as module
from lagotto.base.ingest import UNFINISHED, Ingest
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document, Vectors
from lagotto.embedders import Role
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import EmbeddingError
from lagotto.filters import And
from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.sqlite.store import SqliteStore
from tests.counting import CountingEmbedder

WORDS = ["harbour", "wall", "stone", "tide", "ferry", "bridge", "crane", "rope", "sail", "oar"]


def paragraphs(count: int) -> list[str]:
    return [
        f"Paragraph {number} tells of the {WORDS[number % 10]} and of number {number}, at length. "
        f"It has a second sentence on the {WORDS[number // 10 % 10]} as well."
        for number in range(count)
    ]


def long_document(texts: Sequence[str]) -> Document:
    return Document(id="long", title="The harbour", text="\n\n".join(texts))


def ingest(store: Store, embedder: CountingEmbedder, chunker: str = "recursive:40/0") -> Ingest:
    return Ingest(
        store=store,
        chunker=CHUNKERS.create(chunker, tokenizer=embedder.tokenizer),
        vectors=ChunkEmbedder(embedder),
    )


async def stored_vectors(store: Store, name: str = "long") -> Vectors:
    async with store.view(And()) as view:
        (found,) = (await view.stored([("default", name)])).values()
        return await view.vectors(found.keys)


class ReuseContract:
    """What holds in every store."""

    async def test_a_copy_is_not_embedded_again(self, store: Store) -> None:
        """Under another id, in another collection: what counts is the text under its title."""
        embedder, document = CountingEmbedder(), long_document(paragraphs(20))
        await ingest(store, embedder).run([document])
        embedder.texts.clear()
        copies = [{"id": "copy"}, {"collection": "other"}, {"id": "titled", "title": "The sea"}]
        for changes in copies:
            await ingest(store, embedder).run(
                [
                    Document(
                        **{"title": document.title, "text": document.text, "id": "long"} | changes
                    )
                ]
            )
            assert bool(embedder.texts) == ("title" in changes)
        vectors = await stored_vectors(store)
        assert np.array_equal(await stored_vectors(store, "copy"), vectors)
        assert not np.array_equal(await stored_vectors(store, "titled"), vectors)

    async def test_one_changed_paragraph_of_a_hundred(self, store: Store) -> None:
        embedder, texts = CountingEmbedder(), paragraphs(100)
        await ingest(store, embedder).run([long_document(texts)])
        assert len(embedder.texts) >= 100
        embedder.texts.clear()
        texts[50] = "This one is new, and it is a little shorter than it was."
        await ingest(store, embedder).run([long_document(texts)])
        assert 1 <= len(embedder.texts) <= 3
        again = CountingEmbedder()
        other = MemoryStore()
        await other.open()
        await ingest(other, again).run([long_document(texts)])
        np.testing.assert_allclose(
            await stored_vectors(store), await stored_vectors(other), atol=1e-6
        )

    async def test_another_title_is_another_text(self, store: Store) -> None:
        embedder = CountingEmbedder()
        first = long_document(paragraphs(3))
        await ingest(store, embedder).run([first])
        embedder.texts.clear()
        renamed = Document(id="long", title="The lighthouse", text=first.text)
        await ingest(store, embedder).run([renamed])
        assert len(embedder.texts) == len(await store.chunks("default", "long"))

    async def test_a_large_document_goes_on_from_its_vectors(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "KEEP_SECONDS", 0.0)
        monkeypatch.setattr(module, "STEP_SECONDS", 0.0)  # so a step is one chunk

        def stop(so_far: int) -> None:
            if so_far > 80:
                raise EmbeddingError("stopped")

        stopped = CountingEmbedder(before=stop)
        with pytest.raises(EmbeddingError):
            await ingest(store, stopped).run([long_document(paragraphs(100))])
        assert (await store.info()).documents == 0
        embedder = CountingEmbedder()
        await ingest(store, embedder).run([long_document(paragraphs(100))])
        total = len(await store.chunks("default", "long"))
        assert len(embedder.texts) == total - len(stopped.texts)
        assert await store.keyed_values.items(UNFINISHED) == []
        whole = await ChunkEmbedder(embedder).embed(
            [(long_document(paragraphs(100)), await store.chunks("default", "long"))]
        )
        np.testing.assert_allclose(await stored_vectors(store), whole[0], atol=1e-6)


class TestMemory(ReuseContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        await store.open()
        yield store
        await store.close()


class TestSqlite(ReuseContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(tmp_path / "kb.db")
        await store.open()
        yield store
        await store.close()


async def test_a_rebuild_embeds_only_other_spans(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    short = [Document(id=str(number), text=text) for number, text in enumerate(paragraphs(20))]
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=embedder, chunker="recursive:40/0"
    ) as base:
        await base.add(*short, long_document(paragraphs(20)))
        embedder.texts.clear()
        await base.rebuild(chunker="recursive:80/0")
        chunks = await base.store.chunks("default", "long")
        assert len(embedder.texts) == len(chunks)
        assert (await base.retrieve("paragraph ferry", top_k=1))[0].document_id


async def test_a_moved_and_a_copied_file_are_not_embedded_again(tmp_path: Path) -> None:
    embedder, folder = CountingEmbedder(), tmp_path / "files"
    folder.mkdir()
    (folder / "a.md").write_text("# Harbour\n\n" + "\n\n".join(paragraphs(9)))
    async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=embedder) as base:
        await base.sync(folder)
        embedder.texts.clear()
        (folder / "a.md").rename(folder / "b.md")
        (folder / "c.md").write_bytes((folder / "b.md").read_bytes())
        report = await base.sync(folder)
        assert (report.added, report.removed) == (2, 1)
        assert embedder.texts == []


async def test_late_pooling_embeds_everything_again(tmp_path: Path) -> None:
    vectors = ChunkEmbedder(CountingEmbedder())
    document = Document(id="a", text="A text.")
    chunker = CHUNKERS.create("recursive:40/0", tokenizer=vectors.embedder.tokenizer)
    assert vectors.text_of(document, chunker.chunk(document)[0]) == "A text."
    vectors._pooling = "late"
    assert vectors.text_of(document, chunker.chunk(document)[0]) is None


class SlowEmbedder(CountingEmbedder):
    """Takes its time, and says how many documents were stored before each call."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.stored: list[int] = []

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        await asyncio.sleep(0.02)
        self.stored.append((await self._store.info()).documents)
        return await super().embed(texts, role=role)


async def test_documents_are_stored_as_they_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_STEP", 4)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.02)
    store = MemoryStore()
    await store.open()
    embedder = SlowEmbedder(store)
    texts = [Document(id=str(number), text=text) for number, text in enumerate(paragraphs(40))]
    report = await ingest(store, embedder).run(texts)
    assert report.added == 40
    assert len(embedder.stored) >= 4
    assert 4 in embedder.stored or 8 in embedder.stored
    assert embedder.stored == sorted(embedder.stored)
