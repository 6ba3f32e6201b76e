"""The numbers of BM25, the same on every store."""

from __future__ import annotations

import math

K1, B = 1.2, 0.75


def idf(having: int, *, count: int) -> float:
    """How much a term tells that `having` of `count` chunks hold; more than 0 always."""
    return math.log(1 + (count - having + 0.5) / (having + 0.5))
