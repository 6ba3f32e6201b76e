from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lagotto.chunkers import CHUNKERS, chunk_document
from lagotto.documents import Chunk, Document, Heading, Vectors, in_context
from lagotto.embedders import Embedder
from lagotto.embedders.base import Role
from lagotto.embedders.chunk_embedder import WINDOWS_AT_ONCE, ChunkEmbedder, Pooling
from lagotto.embedders.onnx import MINILM, OnnxEmbedder, from_folder
from lagotto.errors import ConfigError, EmbeddingError, ModelMismatchError
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.strategies import documents
from tests.embedders.tiny_model import DIMENSION, TABLE, WORDS, make_model

TINY_WINDOW = 24


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnnxEmbedder]:
    """A model of ten words, each with its own vector whatever stands around it."""
    folder = make_model(tmp_path_factory.mktemp("tiny"))
    (folder / "lagotto.json").write_text(
        f'{{"dimension": {DIMENSION}, "max_tokens": {TINY_WINDOW}, "pooling": "mean"}}'
    )
    embedder = from_folder(str(folder), threads=1)
    yield embedder
    asyncio.run(embedder.close())


def cut(document: Document, chunker: str, embedder: Embedder) -> list[Chunk]:
    return CHUNKERS.create(chunker, tokenizer=embedder.tokenizer).chunk(document)


async def vectors_of(
    document: Document, chunker: str, embedder: Embedder, *, pooling: Pooling = "chunk"
) -> tuple[list[Chunk], Vectors]:
    chunks = cut(document, chunker, embedder)
    (vectors,) = await ChunkEmbedder(embedder, pooling=pooling).embed([(document, chunks)])
    return chunks, vectors


def word_mean(text: str) -> Vectors:
    """The unit mean of the words' own vectors."""
    total = sum(TABLE[WORDS.index(word)].astype(np.float64) for word in text.split())
    return np.asarray(total / np.linalg.norm(total), np.float32)


COLOURS = " ".join(["red", "green", "blue", "dog"] * 30)


class TestPlain:
    async def test_chunks_are_embedded_under_title_and_headings(self) -> None:
        text = "Top\n\nFirst words.\n\nSub\n\nSecond words."
        document = Document(
            title="Book",
            text=text,
            headings=(
                Heading(start=0, end=len(text), level=1, title="Top"),
                Heading(start=text.index("Sub"), end=len(text), level=2, title="Sub"),
            ),
        )
        embedder = HashEmbedder()
        chunks, vectors = await vectors_of(document, "heading:8/0", embedder)
        assert [chunk.heading_path for chunk in chunks] == [("Top",), ("Top", "Sub")]
        texts = [f"Book > Top\n\n{chunks[0].text}", f"Book > Top > Sub\n\n{chunks[1].text}"]
        np.testing.assert_allclose(vectors, await embedder.embed(texts, role="document"), atol=1e-6)

    async def test_without_headers_the_text_alone_counts(self) -> None:
        embedder = HashEmbedder()
        document = Document(title="Book", text="Some words.")
        chunks = cut(document, "recursive", embedder)
        (vectors,) = await ChunkEmbedder(embedder, headers=False).embed([(document, chunks)])
        alone = await embedder.embed(["Some words."], role="document")
        np.testing.assert_allclose(vectors, alone, atol=1e-6)

    async def test_parents_have_no_vectors(self) -> None:
        document = Document(text="One sentence here. " * 40)
        chunks, vectors = await vectors_of(document, "parent-child:64/16/0", HashEmbedder())
        assert len(vectors) == sum(chunk.level == "child" for chunk in chunks) < len(chunks)

    async def test_a_chunk_larger_than_the_window_is_the_mean_of_its_parts(
        self, tiny: OnnxEmbedder
    ) -> None:
        halves = "red " * 40 + "dog " * 40
        _, ((whole,)) = await vectors_of(Document(text=halves), "document", tiny)
        truncated = (await tiny.embed([halves], role="document"))[0]
        red, dog = word_mean("red"), word_mean("dog")
        assert whole @ dog > 0.3 + truncated @ dog
        assert abs(whole @ red - whole @ dog) < 0.3

    async def test_several_documents_at_once_are_as_each_alone(self) -> None:
        embedder = HashEmbedder()
        texts = ("First. " * 30, "", "Second. " * 50)
        works = [
            (document, cut(document, "recursive:16/0", embedder))
            for document in (Document(title="T", text=text) for text in texts)
        ]
        vectors = ChunkEmbedder(embedder)
        together = await vectors.embed(works)
        assert [len(rows) for rows in together] == [len(chunks) for _, chunks in works]
        for rows, work in zip(together, works, strict=True):
            np.testing.assert_array_equal(rows, (await vectors.embed([work]))[0])
        assert await vectors.embed([]) == []


class TestLate:
    async def test_a_chunk_is_the_mean_of_its_own_tokens(self, tiny: OnnxEmbedder) -> None:
        chunks, vectors = await vectors_of(
            Document(text=COLOURS), "recursive:8/0", tiny, pooling="late"
        )
        assert len(chunks) == 15
        for chunk, vector in zip(chunks, vectors, strict=True):
            np.testing.assert_allclose(vector, word_mean(chunk.text), atol=1e-5)

    async def test_the_title_is_read_but_not_pooled(self, tiny: OnnxEmbedder) -> None:
        document = Document(title="passage query", text=COLOURS)
        chunks, vectors = await vectors_of(document, "recursive:8/4", tiny, pooling="late")
        for chunk, vector in zip(chunks, vectors, strict=True):
            np.testing.assert_allclose(vector, word_mean(chunk.text), atol=1e-5)

    async def test_more_windows_than_are_read_at_once(self, tiny: OnnxEmbedder) -> None:
        text = " ".join(["red green blue dog"] * (3 * WINDOWS_AT_ONCE))
        chunks, vectors = await vectors_of(
            Document(text=text), "recursive:8/0", tiny, pooling="late"
        )
        assert len(chunks) > WINDOWS_AT_ONCE
        np.testing.assert_allclose(vectors[-1], word_mean(chunks[-1].text), atol=1e-5)

    @pytest.mark.parametrize("title", [None, "dog"])
    async def test_a_text_of_one_chunk_has_its_plain_embedding(
        self, tiny: OnnxEmbedder, title: str | None
    ) -> None:
        document = Document(title=title, text="red green blue")
        _, late = await vectors_of(document, "recursive:16/0", tiny, pooling="late")
        plain = await tiny.embed([in_context(title, document.text)], role="document")
        np.testing.assert_allclose(late, plain, atol=1e-5)

    async def test_what_stands_around_a_chunk_makes_a_difference(self) -> None:
        embedder = MINILM()
        sentence = "It was cancelled after five seasons."
        topics = ("Stargate Atlantis is a television series.", "Our train leaves at noon.")
        found = []
        for topic in topics:
            document = Document(text=f"{topic} {sentence}")
            chunks, vectors = await vectors_of(document, "sentence:10/0", embedder, pooling="late")
            assert chunks[-1].text == sentence
            found.append(vectors[-1])
        plain = await embedder.embed([sentence, "Stargate Atlantis"], role="document")
        await embedder.close()
        assert found[0] @ found[1] < 0.95
        assert found[0] @ plain[1] > max(found[1] @ plain[1], plain[0] @ plain[1])

    @pytest.mark.slow
    @settings(
        max_examples=40,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(document=documents())
    def test_every_chunk_of_any_document_has_a_vector(
        self, tiny: OnnxEmbedder, document: Document
    ) -> None:
        for chunker in ("recursive:8/4", "recursive:40/8", "parent-child:48/16/4", "document"):
            chunks, vectors = asyncio.run(vectors_of(document, chunker, tiny, pooling="late"))
            assert vectors.shape == (sum(item.level != "parent" for item in chunks), DIMENSION)
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)

    def test_an_embedder_without_token_vectors_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"HashEmbedder \(hash\) has no token vectors"):
            ChunkEmbedder(HashEmbedder(), pooling="late")


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("pooling", ["chunk", "late"])
async def test_a_document_that_is_only_a_title(
    tiny: OnnxEmbedder, pooling: Pooling, headers: bool
) -> None:
    document = Document(title="red dog", text=" ")
    chunker = CHUNKERS.create("parent-child:48/16/4", tokenizer=tiny.tokenizer)
    chunks = chunk_document(chunker, document)
    assert [(chunk.level, chunk.text, chunk.end) for chunk in chunks] == [("flat", "", 0)]
    maker = ChunkEmbedder(tiny, pooling=pooling, headers=headers)
    (vectors,) = await maker.embed([(document, chunks)])
    title = await tiny.embed(["red dog"], role="document")
    np.testing.assert_allclose(vectors, title, atol=1e-5)


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(ConfigError, match="pooling is 'max'"):
        ChunkEmbedder(HashEmbedder(), pooling="max")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pooling", "headers", "suffix"),
    [("chunk", True, ""), ("late", True, "+late"), ("late", False, "+late+bare")],
)
def test_other_ways_give_other_model_ids(
    tiny: OnnxEmbedder, pooling: Pooling, headers: bool, suffix: str
) -> None:
    vectors = ChunkEmbedder(tiny, pooling=pooling, headers=headers)
    assert vectors.model_id == tiny.info.model_id + suffix
    assert vectors.with_headers(True).model_id == tiny.info.model_id + suffix.removesuffix("+bare")


class Careless(HashEmbedder):
    """An embedder that breaks its contract in one way."""

    def __init__(self, spoil: Callable[[Vectors], Vectors]) -> None:
        super().__init__()
        self._spoil = spoil

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return self._spoil(await super().embed(texts, role=role))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda rows: rows[:-1], EmbeddingError, "returned 1 vectors for 2 texts"),
        (lambda rows: rows[:, :-1], ModelMismatchError, "returned vectors of shape"),
        (lambda rows: rows * np.float32("nan"), EmbeddingError, "NaN"),
    ],
)
async def test_an_embedder_that_breaks_its_contract_is_refused(
    spoil: Callable[[Vectors], Vectors], error: type[EmbeddingError], message: str
) -> None:
    texts = [Document(text="one"), Document(text="two")]
    works = [(document, cut(document, "recursive", HashEmbedder())) for document in texts]
    with pytest.raises(error, match=message):
        await ChunkEmbedder(Careless(spoil)).embed(works)
