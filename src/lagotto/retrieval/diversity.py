"""Diversity: a limit per document, and maximal marginal relevance. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np

from lagotto.documents import Vectors
from lagotto.retrieval.fusion import Scores

Item = TypeVar("Item")


def cap(items: Iterable[Item], *, key: Callable[[Item], Hashable], most: int) -> list[Item]:
    """The items in their order, but of each key only the first `most`."""
    seen: Counter[Hashable] = Counter()
    kept = []
    for item in items:
        name = key(item)
        seen[name] += 1
        if seen[name] <= most:
            kept.append(item)
    return kept


def mmr(scores: Scores, vectors: Vectors, *, share: float, count: int) -> list[int]:
    """Indices of the `count` items to show, by maximal marginal relevance.

    The best score comes first; each next item has the greatest `share * score - (1 - share) *
    likeness`, where likeness is its greatest cosine with an item that was chosen before. Of equals
    the first is taken, so a share of 1 keeps a list that is sorted by score as it is. `vectors` has
    a row of length 1 per item.
    """
    rows = vectors.astype(np.float64)
    likeness = np.full(len(scores), -np.inf)
    gain = scores.astype(np.float64)
    order: list[int] = []
    while len(order) < min(count, len(scores)):
        index = int(np.argmax(gain))
        order.append(index)
        # Not a matrix product: there, the same row at another position may differ in its last bit.
        likeness = np.maximum(likeness, (rows * rows[index]).sum(axis=1))
        gain = share * scores - (1.0 - share) * likeness
        gain[order] = -np.inf
    return order
