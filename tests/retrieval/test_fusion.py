from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from random import Random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.filters import And
from lagotto.prefs import Normalisation, ScoringPrefs
from lagotto.results import LEGS, Leg
from lagotto.retrieval.fusion import Candidates, Fused, LegScores, Scores, fuse
from lagotto.retrieval.stages import best_rows, rank
from lagotto.stores.base import View
from lagotto.stores.memory import MemoryStore
from lagotto.testing.stores import DOCUMENTS, EMBEDDER, entries

NAN = math.nan
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
RRF = ScoringPrefs(blend="rrf")


def linear(normalize: Normalisation, *, fill: bool = True) -> ScoringPrefs:
    return ScoringPrefs(normalize=normalize, fill=fill)


def leg(scores: list[float], ranks: list[int]) -> LegScores:
    return LegScores(np.array(scores, np.float64), np.array(ranks, np.int64))


def candidates(legs: Mapping[Leg, LegScores]) -> Candidates:
    count = len(next(iter(legs.values())).scores)
    return Candidates(np.arange(count), legs)


def normalised(name: Leg, scores: list[float], method: Normalisation) -> list[float]:
    """One leg's normalised scores, all of them listed."""
    ranks = list(range(1, len(scores) + 1))
    fused = fuse(candidates({name: leg(scores, ranks)}), {name: 1.0}, linear(method))
    values: list[float] = fused.parts[name].normalised.tolist()
    return values


@st.composite
def any_candidates(draw: st.DrawFn, legs: tuple[Leg, ...] = LEGS) -> Candidates:
    """Legs with scores in any order; some candidates not in a leg's list, some unknown to it."""
    count = draw(st.integers(1, 12))
    found: dict[Leg, LegScores] = {}
    for name in draw(st.sets(st.sampled_from(legs), min_size=1)):
        high = {"semantic": 1.0, "exact": 1.0}.get(name, 30.0)
        score = st.floats(-1.0 if name == "semantic" else 0.0, high, width=32)
        few = st.sampled_from(draw(st.lists(score, min_size=1, max_size=3)))
        scores = np.array(draw(st.lists(few | score, min_size=count, max_size=count)))
        found[name] = ranked(scores, draw(st.integers(0, count)))
        if draw(st.booleans()):
            scores[found[name].ranks == 0] = NAN
    return candidates(found)


def ranked(scores: Scores, listed: int) -> LegScores:
    """The best `listed` have ranks, equal scores equal ones."""
    order = np.argsort(-scores, kind="stable")[:listed]
    ranks = np.zeros(len(scores), np.int64)
    ranks[order] = 1 + np.searchsorted(-scores[order], -scores[order])
    return LegScores(scores, ranks)


def raised(found: Candidates, name: Leg, place: int, more: float) -> Candidates:
    scores = found.legs[name].scores.copy()
    scores[place] += more
    return Candidates(found.keys, {**found.legs, name: LegScores(scores, found.legs[name].ranks)})


WEIGHTS = st.fixed_dictionaries(
    {name: st.one_of(st.just(0.0), st.floats(0.01, 5)) for name in LEGS}
)
SCORING = st.builds(
    ScoringPrefs,
    blend=st.sampled_from(["linear", "rrf"]),
    normalize=st.sampled_from(NORMALISATIONS),
    rrf_k=st.sampled_from([1, 10, 60, 1000]),
    fill=st.booleans(),
)
LINEAR = SCORING.map(lambda scoring: scoring.model_copy(update={"blend": "linear"}))
FLOOR = st.sampled_from([0.0, 0.7, -0.5])


class TestReciprocalRanks:
    FOUND = candidates(
        {
            "semantic": leg([0.8, 0.5, NAN], [1, 2, 0]),
            "text": leg([NAN, 4.0, 8.0], [0, 2, 1]),
        }
    )

    @pytest.mark.parametrize(
        ("weights", "raw"),
        [
            ({"semantic": 1.0, "text": 1.0}, [1 / 61, 2 / 62, 1 / 61]),
            ({"semantic": 0.7, "text": 0.3}, [0.7 / 61, 1.0 / 62, 0.3 / 61]),
            ({"semantic": 1.0, "text": 1.5}, [1.0 / 61, 2.5 / 62, 1.5 / 61]),
        ],
    )
    def test_raw_is_the_sum_of_weight_over_k_plus_rank(
        self, weights: dict[Leg, float], raw: list[float]
    ) -> None:
        fused = fuse(self.FOUND, weights, RRF)
        assert fused.raw == pytest.approx(raw)
        best = sum(weights.values()) / 61
        assert fused.scores == pytest.approx([value / best for value in raw])

    def test_numbers_worked_out_by_hand(self) -> None:
        fused = fuse(self.FOUND, {"semantic": 0.7, "text": 0.3}, RRF)
        assert fused.raw == pytest.approx([0.011475, 0.016129, 0.004918], abs=1e-6)
        assert fused.scores == pytest.approx([0.7, 0.983871, 0.3], abs=1e-6)
        assert fused.parts["text"].contribution == pytest.approx([0, 0.295161, 0.3], abs=1e-6)
        assert [part.damping for part in fused.parts.values()] == [1.0, 1.0]

    def test_k_is_a_preference(self) -> None:
        scoring = RRF.model_copy(update={"rrf_k": 1})
        fused = fuse(self.FOUND, {"semantic": 1.0, "text": 1.0}, scoring)
        assert fused.raw == pytest.approx([1 / 2, 2 / 3, 1 / 2])
        assert fused.scores == pytest.approx([1 / 2, 2 / 3, 1 / 2])

    @pytest.mark.parametrize(
        ("legs", "fill", "scores"),
        [
            pytest.param(
                {"semantic": leg([0.8], [1]), "text": leg([3.0], [1])}, True, [1.0],
                id="first in every list",
            ),
            pytest.param(
                {"semantic": leg([0.8], [1]), "text": leg([0.0], [0])}, True, [2 / 3],
                id="a leg that found nothing counts",
            ),
            pytest.param(
                {"text": leg([8.0, 7.9], [1, 0])}, True, [1.0, 0.0], id="filled in, it has no rank"
            ),
            pytest.param(
                {"exact": leg([1.0, 0.5, 1.0, 0.0], [1, 3, 0, 0])}, True, [1.0, 1.0, 1.0, 0.0],
                id="all exact hits are first",
            ),
            pytest.param(
                {"exact": leg([1.0, 0.5, 1.0, 0.0], [1, 3, 0, 0])}, False, [1.0, 1.0, 0.0, 0.0],
                id="exact hits of the leg's own list",
            ),
        ],
    )  # fmt: skip
    def test_scores(self, legs: dict[Leg, LegScores], fill: bool, scores: list[float]) -> None:
        scoring = RRF.model_copy(update={"fill": fill})
        weights: dict[Leg, float] = {"semantic": 1.0, "text": 0.5, "exact": 1.0}
        assert fuse(candidates(legs), weights, scoring).scores == pytest.approx(scores)

    def test_the_exact_leg_does_not_move_the_low_end(self) -> None:
        """A wording is held or not: no hit is the last of its list, whatever the leg's weight."""
        legs: dict[Leg, LegScores] = {
            "semantic": leg([0.8, 0.5], [1, 2]),
            "text": leg([4.0, 8.0], [2, 1]),
            "exact": leg([1.0, 0.0], [1, 0]),
        }
        found = Candidates(np.arange(2), legs, depth=10)
        fused = fuse(found, {"semantic": 1.0, "text": 0.5, "exact": 0.1}, RRF)
        assert fused.ends == pytest.approx((0.5 / 70, 1.6 / 61))


class TestLinear:
    FOUND = candidates(
        {
            "semantic": leg([0.8, 0.5, -0.2], [1, 2, 0]),
            "text": leg([0.0, 4.0, 8.0], [0, 2, 1]),
        }
    )

    def test_absolute(self) -> None:
        fused = fuse(self.FOUND, {"semantic": 1.0, "text": 0.5}, ScoringPrefs())
        assert fused.raw == pytest.approx([0.8, 0.5 + 0.25, 0.5])
        assert fused.scores == pytest.approx([0.8 / 1.5, 0.75 / 1.5, 0.5 / 1.5])
        assert fused.parts["semantic"].weight == pytest.approx(2 / 3)
        assert fused.parts["semantic"].normalised.tolist() == [0.8, 0.5, 0.0]
        assert fused.parts["text"].contribution == pytest.approx([0, 0.5 / 3, 1 / 3])

    def test_absolute_counts_cosines_from_the_floor(self) -> None:
        found = candidates({"semantic": leg([1.0, 0.85, 0.7, 0.3], [1, 2, 3, 4])})
        fused = fuse(found, {"semantic": 1.0}, ScoringPrefs(), floor=0.7)
        assert fused.scores == pytest.approx([1.0, 0.5, 0.0, 0.0])

    @pytest.mark.parametrize(
        ("method", "name", "scores", "expected"),
        [
            ("absolute", "semantic", [8.0, 6.0, -2.0], [1.0, 0.75, 0.0]),  # inner products above 1
            ("theoretical", "semantic", [0.6, 0.2, -1.0], [1.0, 0.75, 0.0]),
            ("theoretical", "text", [8.0, 2.0, 0.0], [1.0, 0.25, 0.0]),
            ("minmax", "semantic", [0.9, 0.5, 0.4], [1.0, 0.2, 0.0]),
            ("minmax", "text", [8.0, 4.0, 0.0], [1.0, 0.5, 0.0]),
            ("zscore", "text", [5.0, 1.0], [4 / 6, 2 / 6]),  # mean 3, standard deviation 2
            (
                "zscore",
                "text",
                [9.0, 7.0, 5.0, 5.0, 4.0, 4.0, 4.0, 2.0],  # mean 5, standard deviation 2
                [5 / 6, 4 / 6, *[3 / 6] * 2, *[2.5 / 6] * 3, 1.5 / 6],
            ),
            ("zscore", "text", [9.0] + [1.0] * 30, [1.0]),  # ends at three deviations
            ("sigmoid", "text", [5.0, 1.0], [0.7310586, 0.2689414]),
            *((m, "exact", [1.0, 0.5, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]) for m in NORMALISATIONS),
        ],
    )
    def test_normalised(
        self, method: Normalisation, name: Leg, scores: list[float], expected: list[float]
    ) -> None:
        found = normalised(name, scores, method)
        assert found[: len(expected)] == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("cosines", "words", "raw", "full", "contribution"),
        [
            pytest.param([0.9, 0.5], [0.2, 0.6], [0.69, 0.53], 1.0, [0.06, 0.18], id="sum"),
            pytest.param([0.9, 0.5], [5.0, 9.0], [2.13, 3.05], 3.05, [1.5, 2.7], id="above 1"),
            pytest.param([0.5, -0.2], [0.0, 0.1], [0.35, -0.11], 1.0, [0.0, 0.0], id="below 0"),
        ],
    )
    def test_none_is_the_weighted_sum_divided_by_the_best_if_that_is_above_1(
        self,
        cosines: list[float],
        words: list[float],
        raw: list[float],
        full: float,
        contribution: list[float],
    ) -> None:
        found = candidates({"semantic": leg(cosines, [1, 2]), "text": leg(words, [2, 1])})
        fused = fuse(found, {"semantic": 0.7, "text": 0.3}, linear("none"))
        assert fused.raw == pytest.approx(raw)
        assert fused.scores == pytest.approx([max(0.0, value / full) for value in raw])
        assert fused.parts["text"].contribution * full == pytest.approx(contribution)


class TestEqualScores:
    @pytest.mark.parametrize(
        ("method", "matched", "cosine"),
        [
            ("absolute", 1.0, 0.0),
            ("theoretical", 1.0, 1.0),
            ("minmax", 1.0, 1.0),
            ("zscore", 0.5, 0.5),
            ("sigmoid", 0.5, 0.5),
        ],
    )
    def test_words_that_match_equally_well_and_not_at_all_and_vectors_equally_far(
        self, method: Normalisation, matched: float, cosine: float
    ) -> None:
        for count in (1, 3):
            assert normalised("text", [2.5] * count, method) == [matched] * count
            assert normalised("text", [0.0] * count, method) == [0.0] * count
        assert normalised("semantic", [-0.1, -0.1], method) == [cosine] * 2
        assert normalised("semantic", [-1.0], "theoretical") == [0.0]

    @pytest.mark.parametrize("method", ["zscore", "sigmoid"])
    def test_differences_too_small_to_square(self, method: Normalisation) -> None:
        tiny, plain = ([5.0 * unit, unit] for unit in (1e-300, 1.0))
        assert normalised("text", tiny, method) == pytest.approx(normalised("text", plain, method))


class TestWhatALegDoesNotKnow:
    FOUND = candidates({"text": leg([8.0, 4.0, 6.0, NAN], [1, 2, 0, 0])})

    def test_with_fill_every_score_counts(self) -> None:
        fused = fuse(self.FOUND, {"text": 1.0}, linear("minmax"))
        assert fused.scores.tolist() == [1.0, 0.0, 0.5, 0.0]

    def test_without_fill_only_the_leg_s_own_list(self) -> None:
        fused = fuse(self.FOUND, {"text": 1.0}, linear("zscore", fill=False))
        assert fused.scores == pytest.approx([4 / 6, 2 / 6, 0.0, 0.0])

    def test_unlisted_scores_have_no_say_in_the_statistics(self) -> None:
        found = candidates({"text": leg([8.0, 4.0, 100.0], [1, 2, 0])})
        fused = fuse(found, {"text": 1.0}, linear("absolute", fill=False))
        assert fused.scores.tolist() == [1.0, 0.5, 0.0]

    @pytest.mark.parametrize("method", NORMALISATIONS)
    def test_a_leg_that_knows_nothing(self, method: Normalisation) -> None:
        found = candidates({"text": leg([NAN, NAN], [0, 0]), "semantic": leg([1.0, 0.0], [1, 2])})
        fused = fuse(found, {"text": 1.0, "semantic": 1.0}, linear(method))
        assert fused.parts["text"].contribution.tolist() == [0.0, 0.0]
        assert fused.parts["text"].weight == 0.5


class TestWeights:
    FOUND = candidates({"semantic": leg([0.9], [1]), "text": leg([3.0], [1])})

    @pytest.mark.parametrize("scoring", [RRF, *map(linear, NORMALISATIONS)])
    @pytest.mark.parametrize("weights", [{}, {"semantic": 0.0, "text": 0.0, "exact": 1.0}])
    def test_no_leg_with_a_weight(self, scoring: ScoringPrefs, weights: dict[Leg, float]) -> None:
        fused = fuse(self.FOUND, weights, scoring)
        assert (fused.scores.tolist(), fused.raw.tolist(), fused.parts) == ([0.0], [0.0], {})

    @pytest.mark.parametrize("scoring", [RRF, *map(linear, NORMALISATIONS)])
    def test_no_candidates(self, scoring: ScoringPrefs) -> None:
        nothing = candidates({"semantic": leg([], []), "exact": leg([], [])})
        fused = fuse(nothing, {"semantic": 1.0, "exact": 1.0}, scoring)
        assert fused.scores.tolist() == []

    @pytest.mark.parametrize("scoring", [RRF, *(linear(m) for m in NORMALISATIONS if m != "none")])
    @given(found=any_candidates(legs=("semantic", "text", "fuzzy")), data=st.data())
    def test_exact_wording_is_never_buried(
        self, scoring: ScoringPrefs, found: Candidates, data: st.DataObject
    ) -> None:
        count = len(found.keys)
        holds = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=count, max_size=count))
        legs: dict[Leg, LegScores] = {**found.legs, "exact": leg(holds, [int(h) for h in holds])}
        scores = fuse(candidates(legs), scoring.weights(), scoring).scores
        others = scores[np.array(holds) == 0]
        assert (scores[np.array(holds) == 1] >= others.max(initial=0.0) - 1e-9).all()


def added_up(fused: Fused) -> Scores:
    contributions = (part.contribution for part in fused.parts.values())
    return sum(contributions, start=np.zeros(len(fused.scores)))


@given(found=any_candidates(), weights=WEIGHTS, scoring=SCORING, floor=FLOOR)
def test_scores_lie_between_0_and_1_and_their_parts_add_up(
    found: Candidates, weights: dict[Leg, float], scoring: ScoringPrefs, floor: float
) -> None:
    fused = fuse(found, weights, scoring, floor=floor)
    assert ((fused.scores >= 0) & (fused.scores <= 1)).all()
    assert added_up(fused) == pytest.approx(fused.scores, abs=1e-9)
    if fused.parts:
        assert sum(part.weight for part in fused.parts.values()) == pytest.approx(1)


@given(found=any_candidates(), weights=WEIGHTS, scoring=SCORING)
def test_raw_is_the_weighted_sum_and_its_order_is_that_of_the_scores(
    found: Candidates, weights: dict[Leg, float], scoring: ScoringPrefs
) -> None:
    fused = fuse(found, weights, scoring)
    order = np.argsort(fused.raw, kind="stable")
    assert (np.diff(fused.scores[order]) >= 0).all()
    if scoring.blend == "linear":
        terms = (weights[name] * part.normalised for name, part in fused.parts.items())
        assert fused.raw == pytest.approx(sum(terms, start=0 * fused.raw))


@given(found=any_candidates(), weights=WEIGHTS, scoring=SCORING, chance=st.randoms())
def test_the_order_of_candidates_and_legs_does_not_matter(
    found: Candidates, weights: dict[Leg, float], scoring: ScoringPrefs, chance: Random
) -> None:
    order = list(range(len(found.keys)))
    names = list(found.legs)
    chance.shuffle(order)
    chance.shuffle(names)
    shuffled = Candidates(
        found.keys[order],
        {n: LegScores(found.legs[n].scores[order], found.legs[n].ranks[order]) for n in names},
    )
    before, after = fuse(found, weights, scoring), fuse(shuffled, weights, scoring)
    assert after.scores.tolist() == before.scores[order].tolist()
    assert after.raw.tolist() == before.raw[order].tolist()


@given(found=any_candidates(), weights=WEIGHTS, scoring=SCORING, data=st.data())
def test_a_leg_of_weight_0_is_not_there(
    found: Candidates, weights: dict[Leg, float], scoring: ScoringPrefs, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(found.legs)))
    rest = {other: scores for other, scores in found.legs.items() if other != name}
    with_it = fuse(found, {**weights, name: 0.0}, scoring)
    without = fuse(Candidates(found.keys, rest), weights, scoring)
    assert with_it.scores.tolist() == without.scores.tolist()
    assert with_it.raw.tolist() == without.raw.tolist()
    assert with_it.parts.keys() == without.parts.keys()


@given(
    found=any_candidates(),
    weights=WEIGHTS,
    scoring=LINEAR,
    floor=FLOOR,
    data=st.data(),
    more=st.floats(0, 5),
)
def test_a_greater_score_never_lowers_the_fused_one(
    found: Candidates,
    weights: dict[Leg, float],
    scoring: ScoringPrefs,
    floor: float,
    data: st.DataObject,
    more: float,
) -> None:
    """Holds for a candidate's own score, whatever that does to the others."""
    name = data.draw(st.sampled_from(sorted(found.legs)))
    place = data.draw(st.integers(0, len(found.keys) - 1))
    before = fuse(found, weights, scoring, floor=floor)
    after = fuse(raised(found, name, place, more), weights, scoring, floor=floor)
    assert after.scores[place] >= before.scores[place] - 1e-9


@given(found=any_candidates(), weights=WEIGHTS, data=st.data())
def test_a_better_rank_never_lowers_the_fused_score(
    found: Candidates, weights: dict[Leg, float], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(found.legs)))
    place = data.draw(st.integers(0, len(found.keys) - 1))
    ranks = found.legs[name].ranks.copy()
    ranks[place] = data.draw(st.integers(1, int(ranks[place]) or 200))
    better = Candidates(found.keys, {**found.legs, name: LegScores(found.legs[name].scores, ranks)})
    assert fuse(better, weights, RRF).scores[place] >= fuse(found, weights, RRF).scores[place]


@given(
    found=any_candidates(legs=("semantic", "text", "fuzzy")),
    weights=WEIGHTS,
    scoring=SCORING.filter(lambda scoring: scoring.normalize != "none"),
    factor=st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**30]),
)
def test_the_scale_of_word_scores_does_not_matter(
    found: Candidates, weights: dict[Leg, float], scoring: ScoringPrefs, factor: float
) -> None:
    legs = {
        name: found.legs[name]
        if name == "semantic"
        else LegScores(found.legs[name].scores * factor, found.legs[name].ranks)
        for name in found.legs
    }
    before = fuse(found, weights, scoring).scores
    assert fuse(Candidates(found.keys, legs), weights, scoring).scores == pytest.approx(before)


@given(
    levels=st.lists(st.tuples(*[st.sampled_from([0.2, 0.4, 0.8])] * 2), min_size=7, max_size=7),
    scoring=SCORING,
    chance=st.randoms(),
)
def test_ties_are_settled_whatever_the_order_and_the_count(
    levels: list[tuple[float, float]], scoring: ScoringPrefs, chance: Random
) -> None:
    async def everything() -> None:
        store = MemoryStore()
        await store.write(await entries(DOCUMENTS))
        async with store.view(And()) as view:
            probe = (await EMBEDDER.embed(["anything"], role="query"))[0]
            keys = np.sort((await view.semantic(probe, k=7)).keys)
            cosines, words = np.array(levels).T
            found = Candidates(keys, {"semantic": ranked(cosines, 5), "text": ranked(words, 4)})
            scores = fuse(found, scoring.weights(), scoring).scores
            full = await ranked_keys(view, found, scores, count=7)
            order = chance.sample(range(7), 7)
            legs = {n: LegScores(s.scores[order], s.ranks[order]) for n, s in found.legs.items()}
            mixed = Candidates(keys[order], legs)
            again = fuse(mixed, scoring.weights(), scoring).scores
            for count in range(1, 8):
                assert await ranked_keys(view, mixed, again, count=count) == full[:count]

    asyncio.run(everything())


async def ranked_keys(view: View, found: Candidates, scores: Scores, *, count: int) -> list[int]:
    rows = best_rows(found, scores, count=count)
    passages = await view.passages(found.keys[rows])
    return [item.passage.key for item in rank(passages, rows, found, scores, count=count)]


def test_the_best_rank_is_the_best_of_any_leg() -> None:
    found = candidates(
        {"semantic": leg([0.9, 0.8, 0.1], [1, 2, 0]), "text": leg([1, 2, 0], [2, 1, 0])}
    )
    assert found.best_ranks.tolist()[:2] == [1, 1]
    assert found.best_ranks[2] > 1_000
    assert Candidates(np.empty(0, np.int64), {}).best_ranks.tolist() == []
