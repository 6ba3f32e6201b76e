"""Counting tokens. One protocol for chunk sizes and budgets, whatever the tokenizer behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Tokenizer(Protocol):
    """Says how many tokens a text has and where they start.

    Contract: `count([t]) == [len(starts)]` for `[starts] = starts([t])`; starts are character
    offsets in ascending order; special tokens ([CLS] and the like) are not counted; any string is
    accepted, the empty one has no tokens; the same text always gives the same answer.
    """

    @property
    def id(self) -> str:
        """Names the vocabulary: two tokenizers of one id count alike."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        ...

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each text, the character offsets at which its tokens start."""
        ...


class ApproximateTokenizer:
    """Guesses, for models whose tokenizer is not at hand: pieces of words, numbers, signs.

    A token is up to six Latin letters, up to three digits, up to two letters of another script, or
    one other sign. On English that gives 10 to 15 % more than a real tokenizer finds.
    """

    _TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\W\d_]{1,2}|\S")

    @property
    def id(self) -> str:
        """Changes whenever the rule does."""
        return "approximate-1"

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, about."""
        return [sum(1 for _ in self._TOKEN.finditer(text)) for text in texts]

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each text, the character offsets at which its tokens start."""
        return [
            np.fromiter((match.start() for match in self._TOKEN.finditer(text)), dtype=np.int64)
            for text in texts
        ]
