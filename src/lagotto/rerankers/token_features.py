"""How the tokens of a passage answer to those of a query, by their vectors in context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vectors
from lagotto.rerankers.linear import Features

STRETCH = 32
"""Tokens in a row: about a sentence."""

NAMES = ("maxsim", "stretch")

Matrix = NDArray[np.floating[Any]]


class Model(Protocol):
    """Which model vectors come from, and which alphabets it has learned; none means all."""

    @property
    def model_id(self) -> str:
        """Names the vectors."""
        ...

    @property
    def alphabets(self) -> tuple[str, ...]:
        """As Unicode names letters."""
        ...


class Tokens(Protocol):
    """Where each token of a text lies, and its vector; special tokens have empty spans."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where tokens start."""
        ...

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where tokens end."""
        ...

    @property
    def vectors(self) -> Vectors:
        """One row per token."""
        ...


@runtime_checkable
class TokenEmbedder(Protocol):
    """What an embedder must offer here: the vectors of tokens, before they become one."""

    @property
    def info(self) -> Model:
        """The model."""
        ...

    async def token_vectors(
        self, texts: Sequence[str], *, role: Literal["query", "document"] = "document"
    ) -> Sequence[Tokens]:
        """For each text, the vector of each of its tokens."""
        ...


def token_features(query: Tokens, passages: Sequence[Tokens]) -> Features:
    """One row per passage, in the order of `NAMES`; zeros where there are no tokens.

    `maxsim` is the mean, over the query's tokens, of the cosine with the most similar token of the
    passage; `stretch` the cosine of the query with the most similar tokens in a row.
    """
    wanted = _words(query)
    rows = [(_maxsim(wanted, given), _stretch(wanted, given)) for given in map(_words, passages)]
    return np.array(rows, dtype=np.float64).reshape(len(passages), len(NAMES))


def _words(tokens: Tokens) -> Vectors:
    """The vectors of tokens that stand for something in the text."""
    return tokens.vectors[tokens.ends > tokens.starts]


def _maxsim(wanted: Vectors, given: Vectors) -> float:
    if not len(wanted) or not len(given):
        return 0.0
    return float((_unit(wanted) @ _unit(given).T).max(axis=1).mean())


def _stretch(wanted: Vectors, given: Vectors) -> float:
    if not len(wanted) or not len(given):
        return 0.0
    length = min(STRETCH, len(given))
    sums = np.cumsum(np.vstack([np.zeros_like(given[:1]), given]), axis=0)
    stretches = sums[length:] - sums[:-length]
    return float((_unit(stretches) @ _unit(wanted.mean(axis=0, keepdims=True)).T).max())


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = vectors / np.maximum(lengths, 1e-12)
    return unit
