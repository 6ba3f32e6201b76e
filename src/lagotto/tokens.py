"""Counting tokens. One protocol for chunk sizes and budgets, whatever the tokenizer behind it."""

from __future__ import annotations

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
