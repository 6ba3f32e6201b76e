from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto._internal.tokens import Tokenizer
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.parts import Choice, create_parts
from lagotto.chunkers import CHUNKERS
from lagotto.chunkers.boundaries import (
    LETTERS_PER_TOKEN,
    QUOTATION_BATCH,
    Boundaries,
    measuring_tokenizer,
    sentence_starts,
)
from lagotto.documents import Document
from lagotto.embedders.base import EmbedderInfo
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.embedders.onnx import MINILM
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.stores.base import BaseConfig
from lagotto.testing.chunkers import ChunkerContract
from lagotto.testing.embedders import TokenizerContract
from lagotto.testing.hash_embedder import HashEmbedder

LENGTH = 60_000


def pieces(text: str) -> list[str]:
    return [piece for _, piece in Boundaries(text)._batches()]


@pytest.mark.parametrize("mark", [*"“”„«»‹›「」‘’(（'`", "``", "' ", "'“\"", "(!", "(a) "])
def test_sentences_among_many_marks_are_sought_in_short_pieces(mark: str) -> None:
    """The time that sentencex takes grows with the square of their number."""
    text = mark * (LENGTH // len(mark))
    assert max(map(len, pieces(text))) <= QUOTATION_BATCH
    assert "".join(pieces(text)).strip() == text.strip()


def test_pieces_end_behind_sentences() -> None:
    text = "He said “yes (maybe)”. Then it’s over. " * 2_000
    found = pieces(text)
    assert len(found) > 10
    assert all(piece.rstrip().endswith(".") for piece in found)
    whole = Boundaries(text).of("sentence").tolist()
    assert {text[offset - 2 : offset] for offset in whole if offset} == {". "}


def test_apostrophes_inside_words_are_none() -> None:
    assert len(pieces("It's the dog's nose that doesn't tire. " * 2_000)) == 1


def test_no_sentences_are_sought_in_megabytes_of_line_ends() -> None:
    """A dict for each of them would take gigabytes."""
    text = "One.\n" + "\n" * 2_000_000 + "Two.\n" + "\n" * 2_000_000
    assert " ".join(pieces(text)).split() == ["One.", "Two."]
    assert sum(map(len, pieces(text))) < 20


SPACES = [char for char in map(chr, range(0x3001)) if char.isspace() and char != "\n"]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: f"U+{ord(space):04X}")
def test_any_white_space_may_stand_before_a_full_stop(space: str) -> None:
    """sentencex panics at most of them behind a single letter."""
    assert sentence_starts(f"plan A{space}. Because it is.", "en") == [0, 9]


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n", "\n\r\r\n", "\r\n\r\n\r\n"])
def test_offsets_behind_line_ends_of_any_kind_are_exact(gap: str) -> None:
    text = gap.join(["One is here. Two is here.", "Three is here. Four is here."] * 3)
    found = Boundaries(text).of("sentence").tolist()
    starts = {offset for offset in found if text[offset : offset + 1].isalpha()}
    words = ("One", "Two", "Three", "Four")
    assert starts == {at for word in words for at in _occurrences(text, word)}


def _occurrences(text: str, word: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(word, at)]


SIGNS = "\n.!?aAé1日。！“”()[]\u200b\u0301😀"
PIECES = [*SPACES, *SIGNS, "\n\n", "Dr.", "z.B.", "II. ", "[1]", "a@b.c"]


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["en", "de", "ja", "ru"]))
def test_sentences_of_any_text_start_inside_it_in_order(pieces: list[str], language: str) -> None:
    text = "".join(pieces)
    found = sentence_starts(text, language)
    assert found == sorted(found)
    assert all(0 <= offset < len(text) for offset in found)


WORDPIECE = MINILM().tokenizer
MEASURING = measuring_tokenizer(WORDPIECE, ("LATIN",))
RUSSIAN = "Омуль живёт в озере Байкал, и ловить его нельзя с октября семнадцатого года. " * 40
ENGLISH = "Trout live in the lake, and nobody may catch them there after October seventeenth. " * 40


def tokens_of(text: str) -> list[str]:
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
    assert tokens_of("Когда") == ["Когд", "а"]
    assert tokens_of("-а омуль, б") == ["-", "а ", "омул", "ь", ", ", "б"]
    assert tokens_of("Αθήνα a") == ["Αθήν", "α ", "a"]
    assert LETTERS_PER_TOKEN == 4


def test_signs_on_letters_belong_to_their_words() -> None:
    assert tokens_of("हिन्दी") == ["हिन्", "दी"]


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
    embedder = MINILM()
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
