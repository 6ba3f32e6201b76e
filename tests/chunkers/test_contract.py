"""Every chunker keeps the contract, whichever way its tokenizer counts."""

from __future__ import annotations

from lagotto._internal.tokens import ApproximateTokenizer
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document
from lagotto.embedders.onnx import minilm
from lagotto.testing.chunkers import ChunkerContract

WORDPIECE = minilm().tokenizer


class TestRecursive(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("recursive:16/4", tokenizer=WORDPIECE)
    size, overlap = 16, 4


class TestRecursiveWithALargeOverlap(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("recursive:40/20", tokenizer=WORDPIECE)
    size, overlap = 40, 20


class TestRecursiveCountedRoughly(ChunkerContract):
    tokenizer = ApproximateTokenizer()
    chunker = CHUNKERS.create("recursive:24/6", tokenizer=tokenizer)
    size, overlap = 24, 6


class TestSection(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("section:16/4", tokenizer=WORDPIECE)
    size, overlap = 16, 4


class TestSectionWithALargeOverlap(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("section:40/20", tokenizer=WORDPIECE)
    size, overlap = 40, 20


class TestSentence(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("sentence:16/4", tokenizer=WORDPIECE)
    size, overlap = 16, 4


class TestHeading(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("heading:16/4", tokenizer=WORDPIECE)
    size, overlap = 16, 4


class TestPage(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("page:16/0", tokenizer=WORDPIECE)
    size, overlap = 16, 0


class TestCode(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("code:16/4", tokenizer=WORDPIECE)
    size, overlap = 16, 4


class TestParentChild(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("parent-child:48/16/4", tokenizer=WORDPIECE)
    size, overlap = 48, 4


class TestDocument(ChunkerContract):
    tokenizer = WORDPIECE
    chunker = CHUNKERS.create("document", tokenizer=WORDPIECE)
    size, overlap = 10**9, 0

    def test_there_is_one_chunk(self) -> None:
        document = Document(text="# Title\n\nSome text. " * 500)
        (chunk,) = self.chunker.chunk(document)
        assert chunk.text == document.text
