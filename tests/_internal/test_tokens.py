from __future__ import annotations

import pytest

from lagotto._internal.tokens import ApproximateTokenizer
from lagotto.testing.embedders import TokenizerContract


class TestApproximateTokenizer(TokenizerContract):
    @pytest.fixture
    def tokenizer(self) -> ApproximateTokenizer:
        return ApproximateTokenizer()


def test_pieces_of_words_numbers_and_signs() -> None:
    text = "Unbelievable: 12345 поле 字!"
    starts = ApproximateTokenizer().starts([text])[0].tolist()
    ends = [*starts[1:], len(text)]
    pieces = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    assert pieces == ["Unbeli", "evable", ":", "123", "45", "по", "ле", "字", "!"]
