"""Indexes whose rows can be told from their size, and the index as simply as can be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors
from lagotto.indexes.base import LogPosition
from lagotto.indexes.vectors.index import VectorMatrix
from lagotto.indexes.vectors.sketch import Tuning

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


SKETCHED = Tuning(exact_rows=100, candidates=20, per_hit=2)


def made(size: int) -> VectorMatrix:
    """An index whose rows can be told from its size."""
    index = VectorMatrix("m", dimension=16, tuning=SKETCHED)
    index.add(np.arange(size), unit_vectors(size, count=size, dimension=16))
    return index


def load(folder: Path, *, model_id: str = "m", dimension: int = 16) -> VectorMatrix:
    return VectorMatrix(model_id, dimension=dimension, tuning=SKETCHED, folder=folder)


def is_whole(index: VectorMatrix, *, sizes: set[int]) -> bool:
    """Whether all rows are those of `made`, and their number is `seq`."""
    assert index.saved == LogPosition(len(index.snapshot), 0)
    rows = unit_vectors(len(index.snapshot), count=len(index.snapshot), dimension=16)
    scores = [index.snapshot.scores(row, keys_of(key))[0] for key, row in enumerate(rows)]
    return len(index.snapshot) in sizes and bool(np.allclose(scores, 1, atol=1e-5))
