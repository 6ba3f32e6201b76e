"""BM25: one formula for every store, and for chunks that no index holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.text_query import Term

Numbers = TypeVar("Numbers", float, NDArray[np.float64])

K1, B, K3 = 1.2, 0.75, 8.0


def idf(having: int, *, count: int) -> float:
    """Inverse document frequency of a term that `having` of `count` chunks hold; always above 0."""
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


def term_weight(counts: Numbers, lengths: Numbers, *, mean: float, idf: Numbers | float) -> Numbers:
    """The BM25 score of a term that occurs `counts` times in chunks of `lengths` terms.

    `mean` is the average length. One number or arrays, which must broadcast.
    """
    return idf * counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean))


def repeated(times: int) -> float:
    """The weight of a word that a query repeats `times` times, by BM25's saturation; 1 for once.

    A long question repeats what it is about.
    """
    return (K3 + 1) * times / (K3 + times)


def text_score(
    words: Sequence[Sequence[Term]],
    idfs: Sequence[float],
    counts: Mapping[str, int],
    *,
    length: int,
    mean: float,
) -> float:
    """The BM25 score of a chunk of `length` terms, given how often it holds each of them.

    `idfs` are those of the words, whichever of a word's alternatives the chunk holds.
    """
    return sum(
        max(
            (
                term.weight * term_weight(float(counts[term.text]), length, mean=mean, idf=idf)
                for term in word
                if counts.get(term.text)
            ),
            default=0.0,
        )
        for word, idf in zip(words, idfs, strict=True)
    )
