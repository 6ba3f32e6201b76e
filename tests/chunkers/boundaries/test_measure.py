from __future__ import annotations

import asyncio

import numpy as np
import pytest

from lagotto._internal.tokens import Tokenizer
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.parts import Choice, create_parts
from lagotto.chunkers import CHUNKERS
from lagotto.chunkers.boundaries import LETTERS_PER_TOKEN, measuring_tokenizer
from lagotto.documents import Document
from lagotto.embedders.base import EmbedderInfo
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.embedders.onnx import minilm
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.stores.base import BaseConfig
from lagotto.testing.chunkers import ChunkerContract
from lagotto.testing.embedders import TokenizerContract
from lagotto.testing.hash_embedder import HashEmbedder

WORDPIECE = minilm().tokenizer
MEASURING = measuring_tokenizer(WORDPIECE, ("LATIN",))
RUSSIAN = "Омуль живёт в озере Байкал, и ловить его нельзя с октября семнадцатого года. " * 40
ENGLISH = "Trout live in the lake, and nobody may catch them there after October seventeenth. " * 40


def pieces(text: str) -> list[str]:
    (starts,) = MEASURING.starts([text])
    return [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


class TestContract(TokenizerContract):
    @pytest.fixture
    def tokenizer(self) -> Tokenizer:
        return MEASURING


class TestChunker(ChunkerContract):
    tokenizer = MEASURING
    chunker = CHUNKERS.create("recursive:16/4", tokenizer=MEASURING)
    size, overlap = 16, 4


def test_words_of_other_alphabets_count_by_their_letters() -> None:
    assert WORDPIECE.count(["Когда"]) == [5]
    assert pieces("Когда") == ["Когд", "а"]
    assert pieces("-а омуль, б") == ["-", "а ", "омул", "ь", ", ", "б"]
    assert pieces("Αθήνα a") == ["Αθήν", "α ", "a"]
    assert LETTERS_PER_TOKEN == 4


def test_signs_on_letters_belong_to_their_words() -> None:
    assert pieces("हिन्दी") == ["हिन्", "दी"]


def test_the_models_own_alphabet_counts_as_before() -> None:
    texts = [ENGLISH, "naïve Ångström, e\u0301tude", "a-b 12.5 %", ""]
    assert MEASURING.count(texts) == WORDPIECE.count(texts)
    for ours, theirs in zip(MEASURING.starts(texts), WORDPIECE.starts(texts), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("text", ["日本語のテキスト", "한국어", "漢字かな交じり文"])
def test_a_syllable_is_a_token(text: str) -> None:
    assert MEASURING.count([text]) == WORDPIECE.count([text])


def test_a_model_of_all_alphabets_measures_by_its_tokens() -> None:
    tokenizer = ApproximateTokenizer()
    assert measuring_tokenizer(tokenizer, ()) is tokenizer
    assert MEASURING.id != WORDPIECE.id


def test_chunks_have_about_as_many_words_in_any_alphabet() -> None:
    chunker = create_parts(Choice(), BaseConfig(), location="").chunker
    words = [
        len(chunker.chunk(Document(id="a", text=text))[0].text.split())
        for text in (RUSSIAN, ENGLISH)
    ]
    assert words[0] > words[1] / 2


class OfLatin(HashEmbedder):
    """Knows one alphabet."""

    @property
    def info(self) -> EmbedderInfo:
        return super().info.model_copy(update={"alphabets": ("LATIN",)})


async def test_chunks_made_at_query_time_are_measured_alike() -> None:
    async with AsyncKnowledgeBase(":memory:", embedder=OfLatin()) as base:
        await base.add(Document(id="a", text=RUSSIAN, language="ru"))
        spans = [
            {(hit.start, hit.end) for hit in await base.retrieve("омуль", chunking=chunking)}
            for chunking in ({"strategy": "precomputed"}, {"strategy": "late"})
        ]
    assert len(spans[0]) > 1
    assert spans[0] == spans[1]


def test_the_model_reads_every_word_of_a_chunk_larger_than_its_window() -> None:
    embedder = minilm()
    chunker = CHUNKERS.create("recursive:256/0", tokenizer=MEASURING)
    document = Document(id="a", text=RUSSIAN)
    chunks = chunker.chunk(document)[:1]
    assert chunks[0].token_count <= 256
    assert WORDPIECE.count([chunks[0].text])[0] > 2 * 256
    read: list[str] = []

    class Reading:
        info, tokenizer = embedder.info, embedder.tokenizer

        async def embed(
            self, texts: list[str], *, role: str
        ) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
            read.extend(texts)
            return np.eye(embedder.info.dimension, dtype=np.float32)[: len(texts)]

    asyncio.run(ChunkEmbedder(Reading()).embed([(document, chunks)]))  # type: ignore[arg-type]
    assert "".join(read) == chunks[0].text
    assert max(WORDPIECE.count(read)) <= (embedder.info.max_tokens or 0)
