from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.base import NO_HITS, Hits, are_among, depths, merge_hits, top_k, union

keys = st.lists(st.integers(0, 300) | st.integers(0, 2**62), max_size=30)


@given(keys, keys)
def test_sparse_and_dense_keys(some: list[int], others: list[int]) -> None:
    found = are_among(np.array(some, np.int64), np.array(others, np.int64))
    assert found.tolist() == [key in others for key in some]


def hits(**scores: float) -> Hits:
    """Keys, each behind a letter, with their scores."""
    named = [int(name[1:]) for name in scores]
    return Hits(np.array(named, np.int64), np.array([*scores.values()], np.float32))


@pytest.mark.parametrize(
    ("k", "wanted"), [(0, []), (1, [4]), (2, [4, 2]), (3, [4, 2, 7]), (4, [4, 2, 7, 1]), (9, None)]
)
def test_the_best_of_lists_have_ties_in_the_order_of_keys(k: int, wanted: list[int] | None) -> None:
    lists = [hits(k7=0.5, k1=0.1), hits(k4=0.9, k2=0.5)]
    assert merge_hits(lists, k=k).keys.tolist() == (wanted or [4, 2, 7, 1][:k])
    others = hits(k0=1.0, k4=0.2)
    assert union([each.keys for each in (*lists, others)]).tolist() == [0, 1, 2, 4, 7]


def test_scores_of_some_keys() -> None:
    found = hits(k7=0.5, k1=0.25)
    asked = np.array([9, 1, 0, 7], np.int64)
    assert found.scores_of(asked).tolist() == [0, 0.25, 0, 0.5]
    ascending = top_k(found.keys, -found.scores, 2)
    assert ascending.scores_of(asked, ascending=True).tolist() == [0, -0.25, 0, -0.5]
    assert NO_HITS.scores_of(asked).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("first", "last", "looked"), [(5, 5, []), (5, 6, [5]), (5, 20, [5]), (5, 21, [5, 20])]
)
def test_each_look_is_four_times_as_deep(first: int, last: int, looked: list[int]) -> None:
    assert list(depths(first, last)) == looked
