"""Contract tests for tokenizers: inherit and provide a `tokenizer` fixture."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto._internal.tokens import Tokenizer

AWKWARD_TEXTS = (
    "",
    " ",
    "\n\t\r",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfffy",
    "\ufffd",
    "e\u0301a\u0308",
    "ﬁ ½ ẛ̣ ㍿",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "漢字かな交じり文",
    "مرحبا بالعالم",
    "[CLS] [SEP] [PAD] <s> </s> <|endoftext|>",
    "a" * 10_000,
    "word " * 10_000,
)
"""Texts that tokenizers and embedders are known to fail on."""


class TokenizerContract:
    """The contract of `lagotto._internal.tokens.Tokenizer`."""

    def test_is_a_tokenizer(self, tokenizer: Tokenizer) -> None:
        assert isinstance(tokenizer, Tokenizer)
        assert tokenizer.id
        assert tokenizer.id == tokenizer.id.strip()

    def test_counts_words(self, tokenizer: Tokenizer) -> None:
        few, many, none = tokenizer.count(["one two", "one two three four five six", ""])
        assert 2 <= few < many
        assert none == 0

    def test_no_texts(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.count([]) == []
        assert tokenizer.starts([]) == []

    def test_awkward_texts(self, tokenizer: Tokenizer) -> None:
        self.check(tokenizer, list(AWKWARD_TEXTS))

    @settings(
        deadline=None,
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
        ],
    )
    @given(texts=st.lists(st.text(st.characters(codec=None)), max_size=4))
    def test_any_texts(self, tokenizer: Tokenizer, texts: list[str]) -> None:
        self.check(tokenizer, texts)

    def check(self, tokenizer: Tokenizer, texts: list[str]) -> None:
        """Check these texts, in one call and one by one."""
        counts, starts = tokenizer.count(texts), tokenizer.starts(texts)
        assert counts == [len(item) for item in starts]
        assert counts == [tokenizer.count([text])[0] for text in texts]
        for text, offsets in zip(texts, starts, strict=True):
            assert offsets.dtype == "int64"
            assert offsets.tolist() == sorted(offsets.tolist())
            assert all(0 <= offset < len(text) for offset in offsets)
            assert offsets.tolist() == tokenizer.starts([text])[0].tolist()
