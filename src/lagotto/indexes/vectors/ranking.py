"""Exact scores and their order; every result of a search is scored here.

A score is computed with `np.vecdot`, one row at a time, so that it depends only on the row and the
query, not on the rows beside it or on how it was found. So equal rows have equal scores, and ties
can be broken by key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.indexes.filter_keys import ChunkKeys
from lagotto.indexes.hits import Hits, kth_greatest, top_k

Positions = NDArray[np.intp]
Scores = NDArray[np.float32]

GATHERED = 4096
"""Rows copied at a time; they should fit into the processor's cache."""

PRODUCTS = 4_000_000
"""Scores held at a time when many queries are answered at once."""


def dots(rows: Vectors, query: Vector, positions: Positions | None = None) -> Scores:
    """The inner product of `query` with every row, or with those at `positions`."""
    if positions is None or 3 * len(positions) > len(rows):  # sequential reads are faster
        scores: Scores = np.vecdot(rows, query)
        return scores if positions is None else scores.take(positions)
    scores = np.empty(len(positions), dtype=np.float32)
    for start in range(0, len(positions), GATHERED):
        some = slice(start, start + GATHERED)
        scores[some] = np.vecdot(rows.take(positions[some], axis=0), query)
    return scores


def best_of_each(keys: ChunkKeys, rows: Vectors, queries: Vectors, *, k: int) -> Iterator[Hits]:
    """The result of `top_k` for each query; a matrix product selects the rows to score exactly.

    The last bits of a matrix product depend on its shape. `slack` is more than twice the rounding
    error of a product of unit vectors, so no row is missed.
    """
    slack = rows.shape[1] * 2.0**-22
    step = max(1, PRODUCTS // max(1, len(rows)))
    for start in range(0, len(queries), step):
        some = queries[start : start + step]
        for query, products in zip(some, some @ rows.T, strict=True):
            if len(products) <= k:
                yield top_k(keys, dots(rows, query), k)
            else:
                close = np.flatnonzero(products >= kth_greatest(products, k) - slack)
                yield top_k(keys[close], dots(rows, query, close), k)
