"""BM25: one formula for every store, and for chunks that no index holds."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = TypeVar("Numbers", float, NDArray[np.float64])

K1, B = 1.2, 0.75


def idf(having: int, *, count: int) -> float:
    """Inverse document frequency of a term that `having` of `count` chunks hold; always above 0."""
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


def term_weight(counts: Numbers, lengths: Numbers, *, mean: float, idf: Numbers | float) -> Numbers:
    """The BM25 score of a term that occurs `counts` times in chunks of `lengths` terms.

    `mean` is the average length. One number or arrays, which must broadcast.
    """
    return idf * counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean))
