from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.base import are_among

keys = st.lists(st.integers(0, 300) | st.integers(0, 2**62), max_size=30)


@given(keys, keys)
def test_sparse_and_dense_keys(some: list[int], others: list[int]) -> None:
    found = are_among(np.array(some, np.int64), np.array(others, np.int64))
    assert found.tolist() == [key in others for key in some]
