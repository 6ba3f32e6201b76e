from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.evals import interval


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=50))
def test_the_mean_is_inside(values: list[float]) -> None:
    mean, low, high = found = interval(values)
    assert low - 1e-9 <= mean <= high + 1e-9
    assert mean == pytest.approx(np.mean(values))
    assert interval(values) == found


def test_it_is_as_wide_as_the_normal_approximation() -> None:
    values = np.random.default_rng(3).normal(0.3, 0.2, 400).tolist()
    mean, low, high = interval(values)
    error = 1.96 * np.std(values) / 20
    assert low == pytest.approx(mean - error, abs=0.1 * error)
    assert high == pytest.approx(mean + error, abs=0.1 * error)
