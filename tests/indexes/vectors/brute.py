"""The index as simply as can be, to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors

Keys = NDArray[np.int64]


def unit_vectors(seed: int, *, count: int, dimension: int) -> Vectors:
    """Random directions."""
    random = np.random.default_rng(seed)
    return normalised(random.standard_normal((count, dimension)).astype(np.float32))


def normalised(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def keys_of(*numbers: int) -> Keys:
    return np.array(numbers, dtype=np.int64)


def ranked(
    rows: dict[int, Vector], query: Vector, k: int, allowed: Keys | None = None
) -> list[tuple[int, float]]:
    """The best `k` by a loop over all rows: greatest score first, ties by key."""
    eligible = rows if allowed is None else set(rows) & set(allowed.tolist())
    scored = [(key, float(np.vecdot(rows[key], query))) for key in eligible]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k]
