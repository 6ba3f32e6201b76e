"""Every chunker keeps the contract, whichever way its tokenizer counts."""

from __future__ import annotations

import pytest

from lagotto._internal.tokens import Tokenizer
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document
from lagotto.embedders.onnx import MINILM
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.testing.chunkers import ChunkerContract

WORDPIECE = MINILM().tokenizer


@pytest.mark.parametrize(
    ("name", "tokenizer", "size", "overlap"),
    [
        ("recursive:16/4", WORDPIECE, 16, 4),
        ("recursive:40/20", WORDPIECE, 40, 20),
        ("recursive:24/6", ApproximateTokenizer(), 24, 6),
        ("auto:40/8", WORDPIECE, 40, 8),
        ("prose:16/4", WORDPIECE, 16, 4),
        ("section:16/4", WORDPIECE, 16, 4),
        ("section:40/20", WORDPIECE, 40, 20),
        ("sentence:16/4", WORDPIECE, 16, 4),
        ("heading:16/4", WORDPIECE, 16, 4),
        ("page:16/0", WORDPIECE, 16, 0),
        ("code:16/4", WORDPIECE, 16, 4),
        ("parent-child:48/16/4", WORDPIECE, 48, 4),
        ("document", WORDPIECE, 10**9, 0),
    ],
)
class TestChunkers(ChunkerContract):
    @pytest.fixture(autouse=True)
    def _chunker(self, name: str, tokenizer: Tokenizer, size: int, overlap: int) -> None:
        self.tokenizer = tokenizer
        self.chunker = CHUNKERS.create(name, tokenizer=tokenizer)
        self.size, self.overlap = size, overlap


def test_a_document_is_one_chunk() -> None:
    document = Document(text="# Title\n\nSome text. " * 500)
    (chunk,) = CHUNKERS.create("document", tokenizer=WORDPIECE).chunk(document)
    assert chunk.text == document.text
