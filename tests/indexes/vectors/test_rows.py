from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.vectors.rows import RowLookup
from tests.indexes.vectors.made import keys_of

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
