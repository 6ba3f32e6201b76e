from __future__ import annotations

import sys
from types import ModuleType

import pytest

from lagotto.context import token_counter
from lagotto.embedders.onnx import minilm
from lagotto.errors import ConfigError, UnknownNameError


def test_a_tokenizer_or_a_function_counts() -> None:
    assert token_counter(minilm().tokenizer)("the cat sat") == 3
    assert token_counter(len)("four") == 4


@pytest.mark.parametrize("name", ["tiktoken", "tiktoken:", "words", "gpt:x"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="write tiktoken:ENCODING"):
        token_counter(name)


def test_tiktoken_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigError, match="pip install tiktoken"):
        token_counter("tiktoken:cl100k_base")


class WordEncoding:
    """Stands in for an encoding of tiktoken, whose files are downloaded when first used."""

    def encode(self, text: str, *, disallowed_special: tuple[str, ...]) -> list[str]:
        assert disallowed_special == ()
        text.encode()
        return text.split()


def get_encoding(name: str) -> WordEncoding:
    if name != "words":
        raise ValueError(f"Unknown encoding {name}")
    return WordEncoding()


def test_tiktoken_counts_by_the_name_of_an_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tiktoken")
    monkeypatch.setattr(module, "get_encoding", get_encoding, raising=False)
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    assert token_counter("tiktoken:words")("<|endoftext|> and \ud800") == 3
    with pytest.raises(ConfigError, match="has no encoding 'other' at hand: Unknown"):
        token_counter("tiktoken:other")
