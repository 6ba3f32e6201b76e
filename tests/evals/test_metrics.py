"""Worked numbers, by hand."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.evals import interval, ndcg, recall, reciprocal_rank

RELEVANCE = {"a": 2, "b": 1, "c": 0, "d": -1}


def test_ndcg_is_the_gain_by_the_best_possible() -> None:
    best = 2 + 1 / log2(3)
    assert ndcg(["a", "b"], RELEVANCE, depth=10) == 1
    assert ndcg(["x", "b", "a"], RELEVANCE, depth=10) == pytest.approx(
        (1 / log2(3) + 2 / log2(4)) / best
    )
    assert ndcg(["x", "b", "a"], RELEVANCE, depth=2) == pytest.approx((1 / log2(3)) / best)
    assert ndcg(["b", "a"], RELEVANCE, depth=1) == pytest.approx(1 / 2)


def test_what_is_not_relevant_gains_nothing() -> None:
    assert ndcg(["c", "d", "x"], RELEVANCE, depth=10) == 0
    assert ndcg(["d", "a", "b"], RELEVANCE, depth=10) == ndcg(["c", "a", "b"], RELEVANCE, depth=10)


def test_recall_counts_relevant_documents() -> None:
    assert recall(["b", "c", "a"], RELEVANCE, depth=2) == 1 / 2
    assert recall(["b", "c", "a"], RELEVANCE, depth=3) == 1


def test_reciprocal_rank_is_that_of_the_first() -> None:
    assert reciprocal_rank(["c", "b", "a"], RELEVANCE, depth=10) == 1 / 2
    assert reciprocal_rank(["c", "b", "a"], RELEVANCE, depth=1) == 0
    assert reciprocal_rank([], RELEVANCE, depth=10) == 0


def test_nothing_relevant_is_nothing_found() -> None:
    for metric in (ndcg, recall, reciprocal_rank):
        assert metric(["a"], {"a": 0}, depth=10) == 0


@given(st.permutations("abcdefgh"), st.integers(1, 8))
def test_metrics_are_from_0_to_1_and_best_in_order(ranking: list[str], depth: int) -> None:
    relevance = {"a": 3, "b": 2, "c": 1}
    for metric in (ndcg, recall, reciprocal_rank):
        best = metric(sorted(ranking), relevance, depth=depth)
        assert 0 <= metric(ranking, relevance, depth=depth) <= best <= 1


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
