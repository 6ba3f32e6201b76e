from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.vectors.rows import RowLookup
from tests.indexes.vectors.brute import keys_of

DENSE = st.integers(-5, 30)
SPARSE = st.integers(-(2**62), 2**62) | DENSE


@given(
    st.lists(DENSE, max_size=30) | st.lists(SPARSE, max_size=30),
    st.lists(SPARSE, max_size=10),
    st.lists(st.integers(0, 29), max_size=10),
)
def test_every_key_is_found_where_it_was_put_last(
    keys: list[int], others: list[int], picks: list[int]
) -> None:
    wanted = others + [keys[pick] for pick in picks if pick < len(keys)]
    last = {key: place for place, key in enumerate(keys)}
    found = RowLookup(keys_of(*keys)).find(keys_of(*wanted))
    assert found.tolist() == [last.get(key, -1) for key in wanted]


def test_dense_and_thinned_out_keys_are_found_alike() -> None:
    dense = np.arange(1000, 2000)
    sparse = dense * 1000
    wanted = np.array([0, 1000, 1500, 1999, 2000])
    assert RowLookup(dense).find(wanted).tolist() == [-1, 0, 500, 999, -1]
    assert RowLookup(sparse).find(wanted * 1000).tolist() == [-1, 0, 500, 999, -1]
