from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lagotto.documents import Vectors
from lagotto.retrieval.fusion import Scores
from lagotto.retrieval.stages import cap, mmr


def units(*rows: tuple[float, ...]) -> Vectors:
    vectors = np.array(rows, np.float32)
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


@st.composite
def any_list(draw: st.DrawFn) -> tuple[Scores, Vectors]:
    """Scores in falling order, some equal, and vectors, some of them twice."""
    count = draw(st.integers(1, 12))
    scores = draw(arrays.arrays(np.float64, count, elements=st.floats(0, 1, width=16)))
    chance = np.random.default_rng(draw(st.integers(0, 1000)))
    vectors = units(*chance.normal(size=(4, 5)))[chance.integers(0, 4, count)]
    return -np.sort(-scores), vectors


class TestCap:
    def test_the_first_of_each_stay_in_their_order(self) -> None:
        assert cap("banana band", key=str, most=2) == list("banan bd")

    @given(items=st.lists(st.integers(0, 5)), most=st.integers(1, 4))
    def test_no_more_than_most_and_none_without_need(self, items: list[int], most: int) -> None:
        kept = cap(items, key=lambda item: item % 3, most=most)
        rest = iter(items)
        assert all(item in rest for item in kept)
        wanted = Counter(item % 3 for item in items)
        assert Counter(item % 3 for item in kept) == {k: min(n, most) for k, n in wanted.items()}


class TestMmr:
    def test_numbers_worked_out_by_hand(self) -> None:
        # Cosines: 0 and 1 are alike (0.8), 2 has nothing in common with 0 and 0.6 with 1.
        vectors = units((1, 0), (0.8, 0.6), (0, 1))
        scores = np.array([0.9, 0.8, 0.5])
        # After 0: 0.35 * 0.8 - 0.65 * 0.8 = -0.24 for 1, 0.35 * 0.5 - 0 = 0.175 for 2.
        assert mmr(scores, vectors, share=0.35, count=3) == [0, 2, 1]
        # After 0: 0.8 * 0.8 - 0.2 * 0.8 = 0.48 for 1, 0.8 * 0.5 = 0.4 for 2.
        assert mmr(scores, vectors, share=0.8, count=3) == [0, 1, 2]

    @pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
    def test_nothing_to_choose_from(self, share: float) -> None:
        assert mmr(np.empty(0), np.empty((0, 3), np.float32), share=share, count=5) == []

    @given(given=any_list(), count=st.integers(1, 15))
    def test_a_share_of_1_keeps_the_order(self, given: tuple[Scores, Vectors], count: int) -> None:
        scores, vectors = given
        order = mmr(scores, vectors, share=1.0, count=count)
        assert order == list(range(min(count, len(scores))))

    @given(given=any_list(), share=st.floats(0, 1), count=st.integers(1, 12))
    def test_a_shorter_list_is_the_start_of_a_longer_one(
        self, given: tuple[Scores, Vectors], share: float, count: int
    ) -> None:
        scores, vectors = given
        order = mmr(scores, vectors, share=share, count=len(scores))
        assert sorted(order) == list(range(len(scores)))
        assert mmr(scores, vectors, share=share, count=count) == order[:count]

    @given(given=any_list(), share=st.floats(0, 1))
    def test_every_choice_is_the_best_that_was_left(
        self, given: tuple[Scores, Vectors], share: float
    ) -> None:
        scores, vectors = given
        cosines = vectors.astype(np.float64) @ vectors.astype(np.float64).T
        order = mmr(scores, vectors, share=share, count=len(scores))
        for place in range(1, len(order)):
            before, left = order[:place], order[place:]
            gains = [share * scores[i] - (1 - share) * cosines[i, before].max() for i in left]
            assert gains[0] == pytest.approx(max(gains))

    @given(given=any_list(), share=st.floats(0, 0.99))
    def test_of_equals_the_first_comes_first(
        self, given: tuple[Scores, Vectors], share: float
    ) -> None:
        scores, vectors = given
        order = mmr(np.full(len(scores), 0.5), vectors, share=share, count=len(scores))
        for vector in np.unique(vectors, axis=0):
            same = set(np.flatnonzero((vectors == vector).all(axis=1)))
            places = [place for place in order if place in same]
            assert places == sorted(places)
