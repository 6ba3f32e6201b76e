from __future__ import annotations

import numpy as np
import pytest

from lagotto.indexes.base import top_k
from lagotto.indexes.vectors.sketch import dots
from tests.indexes.vectors.brute import keys_of, unit_vectors


def test_a_score_depends_on_its_row_only() -> None:
    rows = unit_vectors(0, count=500, dimension=100)
    query = unit_vectors(1, count=1, dimension=100)[0]
    alone = np.array([np.vecdot(row, query) for row in rows])
    shifted = np.empty(rows.size + 1, dtype=np.float32)[1:].reshape(rows.shape)
    shifted[:] = rows
    assert (dots(rows, query) == alone).all()
    assert (dots(shifted, query) == alone).all()


@pytest.mark.parametrize("step", [2, 7])
def test_gathering_gives_the_same_scores_as_scanning(step: int) -> None:
    rows = unit_vectors(2, count=40_000, dimension=8)
    some = np.arange(0, 40_000, step)[::-1]
    assert (dots(rows, rows[0], some) == dots(rows, rows[0])[some]).all()


def test_ties_are_broken_by_key_also_at_the_end_of_the_list() -> None:
    scores = np.array([0.5, 0.9, 0.5, 0.5, 0.1], dtype=np.float32)
    hits = top_k(keys_of(9, 8, 7, 3, 1), scores, 3)
    assert hits.keys.tolist() == [8, 3, 7]
