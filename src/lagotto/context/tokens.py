"""Token counters for packs: the embedder's tokenizer, tiktoken, or a function."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from lagotto.documents import storable
from lagotto.errors import ConfigError, UnknownNameError
from lagotto.tokens import Tokenizer

TokenCounter = Callable[[str], int]
CounterLike = Tokenizer | TokenCounter | str


def token_counter(counter: CounterLike) -> TokenCounter:
    """A function that counts tokens, from a tokenizer, a function or `tiktoken:ENCODING`."""
    if isinstance(counter, str):
        return _named(counter)
    if isinstance(counter, Tokenizer):
        tokenizer = counter
        return lambda text: tokenizer.count([text])[0]
    return counter


def _named(name: str) -> TokenCounter:
    library, _, encoding = name.partition(":")
    if library != "tiktoken" or not encoding:
        raise UnknownNameError(
            f'unknown token counter "{name}"; write tiktoken:ENCODING, such as '
            "tiktoken:cl100k_base, a tokenizer or a function"
        )
    return _tiktoken(encoding)


def _tiktoken(encoding: str) -> TokenCounter:
    try:
        tiktoken = import_module("tiktoken")
    except ImportError as exc:
        raise ConfigError(
            f"tiktoken:{encoding} needs the tiktoken package; install it (pip install tiktoken)"
        ) from exc
    try:
        encoder = tiktoken.get_encoding(encoding)
    except (ValueError, OSError) as exc:  # no such encoding; its file can't be downloaded
        raise ConfigError(f"tiktoken has no encoding {encoding!r} at hand: {exc}") from exc
    return lambda text: len(encoder.encode(storable(text), disallowed_special=()))
