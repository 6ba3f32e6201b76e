"""Exact scores of chunks that a server proposed, and whether others may be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lagotto.indexes.hits import Hits, kth_greatest, top_k


class ExactRanking:
    """The best `k` of what has been scored; `bound` times a product is no less than the score."""

    def __init__(self, k: int, *, bound: float) -> None:
        self._k = k
        self._bound = bound
        self._scored: dict[int, float] = {}
        self._seen: set[int] = set()

    def __len__(self) -> int:
        return len(self._scored)

    def unseen(self, keys: Sequence[int]) -> list[int]:
        """Those of `keys` that have not been added."""
        return [key for key in keys if key not in self._seen]

    def add(self, keys: Sequence[int], scores: Mapping[int, float]) -> None:
        """Add proposals, of which only those with a score are hits."""
        self._seen.update(keys)
        self._scored.update(scores)

    def is_sure(self, product: float) -> bool:
        """Whether no chunk of this product or less can be one of the best."""
        if len(self._scored) < self._k:
            return False
        scores = np.fromiter(self._scored.values(), np.float32, len(self._scored))
        return bool(kth_greatest(scores, self._k) > self._bound * product)

    def hits(self) -> Hits:
        """The best so far."""
        keys = np.fromiter(self._scored, np.int64, len(self._scored))
        scores = np.fromiter(self._scored.values(), np.float32, len(self._scored))
        return top_k(keys, scores, self._k)
