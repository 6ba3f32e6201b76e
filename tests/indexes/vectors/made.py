"""Indexes whose rows can be told from their size."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lagotto.indexes.base import LogPosition
from lagotto.indexes.vectors import Tuning, VectorMatrix
from tests.indexes.vectors.brute import keys_of, unit_vectors

SKETCHED = Tuning(exact_rows=100, candidates=20, per_hit=2)


def made(size: int) -> VectorMatrix:
    """An index whose rows can be told from its size."""
    index = VectorMatrix("m", dimension=16, tuning=SKETCHED)
    index.add(np.arange(size), unit_vectors(size, count=size, dimension=16))
    return index


def load(folder: Path, *, model_id: str = "m", dimension: int = 16) -> VectorMatrix | None:
    return VectorMatrix.load(folder, model_id=model_id, dimension=dimension, tuning=SKETCHED)


def is_whole(index: VectorMatrix | None, *, sizes: set[int]) -> bool:
    """Whether all rows are those of `made`, and their number is `seq`."""
    assert index is not None
    assert index.saved == LogPosition(len(index.snapshot), 0)
    rows = unit_vectors(len(index.snapshot), count=len(index.snapshot), dimension=16)
    scores = [index.snapshot.scores(row, keys_of(key))[0] for key, row in enumerate(rows)]
    return len(index.snapshot) in sizes and bool(np.allclose(scores, 1, atol=1e-5))
