from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from lagotto.documents import storable
from lagotto.embedders.onnx import MINILM, TOKENIZER
from lagotto.errors import NativeEmbeddingError, WeightsError
from lagotto.models import tokenizer
from lagotto.models.tokenizer import ApproximateTokenizer, HfTokenizer
from lagotto.testing.embedders import TokenizerContract

PATH = MINILM.find() / TOKENIZER
HF = HfTokenizer(PATH)
REFERENCE = Library.from_file(str(PATH))
REFERENCE.no_padding()


class TestMiniLMTokenizer(TokenizerContract):
    @pytest.fixture
    def tokenizer(self) -> HfTokenizer:
        return HF


def test_special_tokens_are_not_counted_and_nothing_is_cut() -> None:
    assert HF.count(["hello world", "word " * 1000]) == [2, 1000]


def test_starts_are_character_offsets() -> None:
    text = "Größe: 👍 the Naïve\0dog"
    found = [text[start] for start in HF.starts([text])[0]]
    assert found == ["G", "ö", "ß", ":", "👍", "t", "N", "d"]


def test_the_id_is_that_of_the_rules_not_of_the_file(tmp_path: Path) -> None:
    parts = json.loads(PATH.read_text(encoding="utf-8"))
    same = tmp_path / "same.json"
    same.write_text(json.dumps({**parts, "truncation": None, "padding": None}))
    other = tmp_path / "other.json"
    parts["normalizer"]["lowercase"] = False
    other.write_text(json.dumps(parts))
    assert HfTokenizer(same).id == HF.id
    assert HfTokenizer(other).id != HF.id


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"model": 3}'])
def test_a_file_that_is_no_tokenizer(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(WeightsError, match=r"can't load the tokenizer .*tokenizer\.json"):
        HfTokenizer(path)


def panicking(tmp_path: Path, **parts: object) -> Path:
    """A tokenizer file with parts that make the library panic."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(PATH.read_text(encoding="utf-8")), **parts}))
    return path


def test_a_file_that_makes_the_library_panic(tmp_path: Path) -> None:
    path = panicking(tmp_path, normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})
    with pytest.raises(WeightsError, match="can't load the tokenizer"):
        HfTokenizer(path)


def test_a_panic_at_a_text_is_an_error(tmp_path: Path) -> None:
    odd = HfTokenizer(panicking(tmp_path, pre_tokenizer={"type": "FixedLength", "length": 0}))
    for use in (odd.count, odd.starts, partial(odd.model_inputs, max_tokens=8)):
        with pytest.raises(NativeEmbeddingError, match="the tokenizer failed: chunk size"):
            use(["a text"])


PIECES = st.sampled_from(
    [
        "the ",
        "truffle",
        " ",
        "[SEP]",
        "[MASK] ",
        "字",
        "x" * 120,
        "!",
        "e\u0301",
        "👍",
        "\n",
        "\ud800",
    ]
)


@given(st.lists(PIECES, max_size=120).map("".join), st.integers(4, 20))
@example("a" * 100_000, 16)
@example("字" * 10_000, 16)
@example(" " * 10_000 + "late", 16)
@example("[MASK]" * 5_000, 16)
def test_a_long_text_is_cut_to_the_same_tokens_as_by_the_library(text: str, limit: int) -> None:
    REFERENCE.enable_truncation(limit)
    expected = REFERENCE.encode(storable(text))
    found = HF.model_inputs([text], max_tokens=limit)[0]
    assert found.ids == expected.ids
    assert found.offsets == expected.offsets


SEPARATORS = st.sampled_from(
    ["\n\n", "\t", "\r", "\x0b", "\x1c", "\x85", "\u3000", "\u2028", "\u0301"]
)


@given(st.lists(PIECES | SEPARATORS, max_size=60).map("".join))
@example("one\n\ntwo\n\n\nthree\n\n")
@example("one\x1ctwo\x85three\u2028four")
def test_a_text_has_the_tokens_of_the_library(text: str) -> None:
    REFERENCE.no_truncation()
    expected = REFERENCE.encode(storable(text), add_special_tokens=False)
    assert HF.count([text]) == HF.count([text]) == [len(expected.ids)]
    assert HF.starts([text])[0].tolist() == [start for start, _ in expected.offsets]


def test_counts_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "WORDS_CACHED", 3)
    monkeypatch.setattr(tokenizer, "PARAGRAPHS_CACHED", 1)
    fresh = HfTokenizer(PATH)
    text = "one two three four five\n\n" * 500
    assert fresh.count([text, text]) == [2_500, 2_500]
    assert len(fresh._words) <= 3
    assert not fresh._paragraphs
    fresh.count(["a" * (tokenizer.LONGEST_CACHED + 1)])
    assert not fresh._words


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
