from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.results import Leg
from lagotto.retrieval.fusion import FUSIONS, Candidates, FusionMethod, LegScores, convex, rrf

LEGS: tuple[Leg, ...] = ("semantic", "text", "fuzzy")
METHODS: tuple[FusionMethod, ...] = ("convex", "rrf")


def leg(scores: list[float], ranks: list[int]) -> LegScores:
    return LegScores(np.array(scores), np.array(ranks, np.int64))


def candidates(legs: Mapping[Leg, LegScores]) -> Candidates:
    count = len(next(iter(legs.values())).scores)
    return Candidates(np.arange(count), legs)


@st.composite
def any_candidates(draw: st.DrawFn) -> Candidates:
    """Legs with scores in any order, some candidates not in a leg's list."""
    count = draw(st.integers(1, 12))
    legs: dict[Leg, LegScores] = {}
    for name in draw(st.sets(st.sampled_from(LEGS), min_size=1)):
        low = -1.0 if name == "semantic" else 0.0
        high = 1.0 if name == "semantic" else 30.0
        score = st.floats(low, high, width=32)
        scores = draw(st.lists(score, min_size=count, max_size=count))
        listed = draw(st.integers(0, count))
        order = np.argsort(-np.array(scores), kind="stable")
        ranks = np.zeros(count, np.int64)
        ranks[order[:listed]] = np.arange(1, listed + 1)
        legs[name] = LegScores(np.array(scores), ranks)
    return candidates(legs)


WEIGHTS = st.fixed_dictionaries(
    {name: st.one_of(st.just(0.0), st.floats(0.01, 5)) for name in LEGS}
)
METHOD = st.sampled_from(METHODS)


class TestWorkedExamples:
    def test_convex(self) -> None:
        found = candidates(
            {
                "semantic": leg([0.8, 0.5, -0.2], [1, 2, 0]),
                "text": leg([0.0, 4.0, 8.0], [0, 2, 1]),
            }
        )
        scores = convex(found, {"semantic": 1.0, "text": 0.5, "fuzzy": 0.5})
        expected = [0.8 * 2 / 3, 0.5 * 2 / 3 + 0.5 / 3, 1 / 3]
        assert scores == pytest.approx(expected)

    def test_rrf(self) -> None:
        found = candidates(
            {
                "semantic": leg([0.8, 0.5, 0.1], [1, 2, 0]),
                "text": leg([0.0, 4.0, 8.0], [0, 2, 1]),
            }
        )
        scores = rrf(found, {"semantic": 1.0, "text": 1.0, "fuzzy": 1.0})
        raw = [1 / 61, 1 / 62 + 1 / 62, 1 / 61]
        assert scores == pytest.approx([value / (2 / 61) for value in raw])

    def test_the_best_of_both_lists_has_rrf_1(self) -> None:
        found = candidates({"semantic": leg([0.8], [1]), "text": leg([3.0], [1])})
        assert rrf(found, {"semantic": 0.7, "text": 0.3, "fuzzy": 0.0}) == pytest.approx([1.0])

    def test_no_text_score_at_all(self) -> None:
        found = candidates({"semantic": leg([0.4], [1]), "text": leg([0.0], [0])})
        scores = convex(found, {"semantic": 1.0, "text": 1.0, "fuzzy": 1.0})
        assert scores == pytest.approx([0.2])


@given(found=any_candidates(), weights=WEIGHTS, method=METHOD)
def test_scores_lie_between_0_and_1(
    found: Candidates, weights: dict[Leg, float], method: FusionMethod
) -> None:
    scores = FUSIONS[method](found, weights)
    assert ((scores >= 0) & (scores <= 1)).all()


@given(found=any_candidates(), weights=WEIGHTS, method=METHOD, chance=st.randoms())
def test_the_order_of_candidates_and_legs_does_not_matter(
    found: Candidates, weights: dict[Leg, float], method: FusionMethod, chance: object
) -> None:
    order = list(range(len(found.keys)))
    names = list(found.legs)
    chance.shuffle(order)  # type: ignore[attr-defined]
    chance.shuffle(names)  # type: ignore[attr-defined]
    shuffled = Candidates(
        found.keys[order],
        {n: LegScores(found.legs[n].scores[order], found.legs[n].ranks[order]) for n in names},
    )
    before = FUSIONS[method](found, weights)
    assert FUSIONS[method](shuffled, weights).tolist() == before[order].tolist()


@given(found=any_candidates(), weights=WEIGHTS, method=METHOD, data=st.data())
def test_a_leg_of_weight_0_is_not_there(
    found: Candidates, weights: dict[Leg, float], method: FusionMethod, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(found.legs)))
    rest = {other: scores for other, scores in found.legs.items() if other != name}
    with_it = FUSIONS[method](found, {**weights, name: 0.0})
    without = FUSIONS[method](Candidates(found.keys, rest), weights)
    assert with_it.tolist() == without.tolist()


@given(found=any_candidates(), weights=WEIGHTS, data=st.data(), more=st.floats(0, 5))
def test_a_greater_score_never_lowers_the_fused_one(
    found: Candidates, weights: dict[Leg, float], data: st.DataObject, more: float
) -> None:
    name = data.draw(st.sampled_from(sorted(found.legs)))
    place = data.draw(st.integers(0, len(found.keys) - 1))
    raised = found.legs[name].scores.copy()
    raised[place] += more
    legs = {**found.legs, name: LegScores(raised, found.legs[name].ranks)}
    before = convex(found, weights)[place]
    assert convex(Candidates(found.keys, legs), weights)[place] >= before - 1e-12


@given(found=any_candidates(), weights=WEIGHTS, data=st.data())
def test_a_better_rank_never_lowers_the_fused_score(
    found: Candidates, weights: dict[Leg, float], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(found.legs)))
    place = data.draw(st.integers(0, len(found.keys) - 1))
    ranks = found.legs[name].ranks.copy()
    ranks[place] = data.draw(st.integers(1, int(ranks[place]) or 200))
    legs = {**found.legs, name: LegScores(found.legs[name].scores, ranks)}
    assert rrf(Candidates(found.keys, legs), weights)[place] >= rrf(found, weights)[place]


def test_the_best_rank_is_the_best_of_any_leg() -> None:
    found = candidates(
        {"semantic": leg([0.9, 0.8, 0.1], [1, 2, 0]), "text": leg([1, 2, 0], [2, 1, 0])}
    )
    assert found.best_ranks().tolist()[:2] == [1, 1]
    assert found.best_ranks()[2] > 1_000
