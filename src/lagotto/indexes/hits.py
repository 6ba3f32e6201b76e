"""Chunk keys with their scores, and the one order in which they are ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.filter_keys import ChunkKeys


@dataclass(frozen=True, slots=True)
class Hits:
    """Chunk keys with their scores, best first."""

    keys: ChunkKeys
    scores: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.float32))


def top_k(keys: ChunkKeys, scores: NDArray[np.float32], k: int) -> Hits:
    """The `k` greatest scores with their keys, greatest first, ties by key."""
    if k < 1:
        return NO_HITS
    if len(scores) > k:
        enough = np.flatnonzero(scores >= kth_greatest(scores, k))
        keys, scores = keys[enough], scores[enough]
    order = np.lexsort((keys, -scores))[:k]
    return Hits(keys[order], scores[order])


def kth_greatest(scores: NDArray[np.float32], k: int) -> np.float32:
    """The k-th greatest of at least `k` scores."""
    index = len(scores) - k
    kth: np.float32 = np.partition(scores, index)[index]
    return kth


def merge_hits(found: Sequence[Hits], *, k: int) -> Hits:
    """The best `k` of several lists that have no key in common."""
    keys = np.concatenate([hits.keys for hits in found])
    return top_k(keys, np.concatenate([hits.scores for hits in found]), k)
