"""The tokenizer contract, and offsets of a text in tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import checkpoint


@runtime_checkable
class Tokenizer(Protocol):
    """Counts and locates the tokens of texts.

    Contract: `count([t]) == [len(starts)]` for `[starts] = starts([t])`; starts are character
    offsets in ascending order; special tokens such as [CLS] are not counted; any string is
    accepted, and the empty one has no tokens; the same text always gives the same result.
    """

    @property
    def id(self) -> str:
        """Identifies the vocabulary: tokenizers with the same id give the same counts."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each text, the character offsets at which its tokens start."""


CHARACTERS_PER_TOKEN = 16
"""The maximum length of a chunk, per token of its size.

White space has no tokens, and for WordPiece a megabyte without a space is one unknown word. Natural
text has 2 to 7 characters per token and never reaches this limit.
"""

_SPACE = re.compile(r"\s")
PIECE = 4096
"""Characters; a text of more is tokenized in pieces of at least this length."""
_BATCH = 64
"""Pieces that are tokenized in one call, which can't be interrupted."""


class TokenRuler:
    """Token offsets of one text; distances are exact between words, approximate within a word."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self._length = len(text)
        offsets: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        pieces = _pieces(text)
        offset = 0
        while batch := list(islice(pieces, _BATCH)):
            checkpoint()
            for piece, starts in zip(batch, tokenizer.starts(batch), strict=True):
                offsets.append(starts + offset)
                offset += len(piece)
        self._starts = np.concatenate(offsets)

    def forward(self, start: int, tokens: int) -> int:
        """The largest end such that `start` to end has at most `tokens` tokens."""
        index = int(np.searchsorted(self._starts, start)) + tokens
        end = int(self._starts[index]) if index < len(self._starts) else self._length
        return min(end, start + tokens * CHARACTERS_PER_TOKEN)

    def backward(self, end: int, tokens: int) -> int:
        """The smallest start such that start to `end` has at most `tokens` tokens."""
        index = int(np.searchsorted(self._starts, end)) - tokens
        start = int(self._starts[index]) if index > 0 and tokens else 0 if tokens else end
        return max(start, end - tokens * CHARACTERS_PER_TOKEN)

    def between(self, start: int, end: int) -> int:
        """The number of tokens that start in `start` to `end`."""
        first, last = np.searchsorted(self._starts, (start, end))
        return int(last - first)


def _pieces(text: str) -> Iterator[str]:
    """Split the text at white space: tokenizers are much faster on many short strings."""
    start = 0
    while start < len(text):
        after = _SPACE.search(text, start + PIECE, start + 2 * PIECE)
        end = after.start() if after else start + 2 * PIECE
        yield text[start:end]
        start = end
