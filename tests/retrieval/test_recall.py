from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from lagotto.documents import Document
from lagotto.indexes.text_query import TextQuery
from lagotto.prefs import Normalisation, RetrievalPrefs
from lagotto.results import Leg
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.retrieval.recall import (
    AHEAD,
    ExactQuery,
    LegQueries,
    Recall,
    SemanticQuery,
    boost,
)
from lagotto.stores.base import HybridQuery, View
from lagotto.testing.stores import EMBEDDER, entries, text_query
from tests.bases import view_of


async def recall(view: View, asked: LegQueries, *, depth: int) -> Candidates:
    found = Recall(view, asked, RetrievalPrefs())
    return await found.candidates(depth=depth)


async def queries(text: str, *, language: str | None = "en") -> LegQueries:
    (vector,) = await EMBEDDER.embed([text], role="query")
    return LegQueries(SemanticQuery(vector), text_query(text, [language]))


async def test_every_leg_scores_every_candidate_exactly() -> None:
    """With a depth of 1 each leg finds one chunk; the other's score is filled in."""
    asked = await queries("truffle dog of Romagna")
    assert asked.semantic is not None
    assert asked.text is not None
    async with view_of(*await entries()) as view:
        found = await recall(view, asked, depth=1)
        exact = await view.semantic_scores(asked.semantic.vector, found.keys)
        assert found.legs["semantic"].scores == pytest.approx(exact)
        exact = await view.text_scores(asked.text, found.keys)
        assert found.legs["text"].scores == pytest.approx(exact)
    for leg in found.legs.values():
        assert leg.ranks.tolist().count(1) == 1


async def test_only_candidates_of_some_leg_come_back() -> None:
    async with view_of(*await entries()) as view:
        found = await recall(view, await queries("dog"), depth=2)
    assert 2 <= len(found.keys) <= 4
    assert found.keys.tolist() == sorted(set(found.keys.tolist()))
    listed = np.max([leg.ranks for leg in found.legs.values()], axis=0)
    assert (listed > 0).all()


async def test_legs_that_are_not_asked_do_not_run() -> None:
    asked = await queries("dog")
    async with view_of(*await entries()) as view:
        assert set((await recall(view, LegQueries(text=asked.text), depth=5)).legs) == {"text"}
        nothing = await recall(view, LegQueries(text=TextQuery(())), depth=5)
        assert len(nothing.keys) == 0
        assert len((await recall(view, LegQueries(), depth=5)).keys) == 0


async def test_equal_scores_have_equal_ranks() -> None:
    twins = [Document(id=name, text="The same words.") for name in "abc"]
    async with view_of(*twins, Document(id="d", text="Quite different things.")) as view:
        found = await recall(view, await queries("same words", language=None), depth=9)
    assert sorted(found.legs["text"].ranks.tolist()) == [0, 1, 1, 1]
    assert sorted(found.legs["semantic"].ranks.tolist()) == [1, 1, 1, 4]


def test_scales_of_vector_scores() -> None:
    """For cosines 1 and 0.5 and a query vector of length 2.

    Inner products are 2 and 1; the distances are 1 and the root of 4 + 1 - 2 * 2 * 0.5 = 3.
    """
    cosines = np.array([1.0, 0.5])
    vector = np.zeros(2, np.float32)
    assert SemanticQuery(vector, 2.0, "cosine").scaled(cosines).tolist() == [1.0, 0.5]
    assert SemanticQuery(vector, 2.0, "ip").scaled(cosines).tolist() == [2.0, 1.0]
    distances = [1 / 2, 1 / (1 + 3**0.5)]
    assert SemanticQuery(vector, 2.0, "l2").scaled(cosines) == pytest.approx(distances)
    assert SemanticQuery(vector, 1.0, "l2").scaled(cosines) == pytest.approx([1.0, 1 / 2])
    rounded = np.array([1.0 + 1e-7])  # no distance is below 0
    assert SemanticQuery(vector, 1.0, "l2").scaled(rounded).tolist() == [1.0]


async def test_an_embedded_query_has_the_length_1() -> None:
    """So its inner products are its cosines."""
    cosine = (await queries("dog")).semantic
    assert cosine is not None
    async with view_of(*await entries()) as view:
        legs = [LegQueries(cosine), LegQueries(replace(cosine, distance="ip"))]
        by_scale = [await recall(view, asked, depth=5) for asked in legs]
    cosines, products = (found.legs["semantic"].scores for found in by_scale)
    assert products == pytest.approx(cosines)


@pytest.mark.parametrize(("normalize", "together"), [("absolute", True), ("minmax", False)])
async def test_one_statement_only_where_each_score_has_a_scale_of_its_own(
    normalize: Normalisation, together: bool
) -> None:
    """The ends of the others are those of the whole list, which a statement does not have."""
    asked: list[HybridQuery] = []

    class Native:
        async def hybrid(self, query: HybridQuery) -> None:
            asked.append(query)

    class Server:
        native = Native()

        def __getattr__(self, name: str) -> Any:
            return getattr(view, name)

    prefs = RetrievalPrefs(scoring={"normalize": normalize})
    weights: dict[Leg, float] = {"semantic": 1.0, "text": 0.5}
    async with view_of(Document(text="A dog.", language="en")) as view:
        recall = Recall(cast("View", Server()), await queries("dog"), prefs, weights=weights)
        assert len((await recall.candidates(depth=1)).keys) == 1
    assert bool(asked) == together


async def test_legs_on_one_connection_find_the_same() -> None:
    """Those of words come first, so that cosines of what they find are asked for with the rest."""

    class Native:
        async def hybrid(self, query: HybridQuery) -> None: ...

    class Server:
        native, immediate = Native(), False

        def __getattr__(self, name: str) -> Any:
            return getattr(view, name)

    texts = ("A dog.", "An oak.", "A dog and an oak.", "The lake.")
    async with view_of(*(Document(id=text, text=text, language="en") for text in texts)) as view:
        wanted = await recall(view, await queries("dog"), depth=2)
        found = await recall(cast("View", Server()), await queries("dog"), depth=2)
    assert found.keys.tolist() == wanted.keys.tolist()
    for leg in ("semantic", "text"):
        assert found.legs[leg].scores.tolist() == wanted.legs[leg].scores.tolist()
        assert found.legs[leg].ranks.tolist() == wanted.legs[leg].ranks.tolist()


def test_a_boost_is_what_the_best_holder_lacks_of_the_third() -> None:
    """By the weights of the other legs, whatever that of exact wordings is."""
    held = LegScores(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0, 0, 0, 1]))
    near = LegScores(np.array([0.9, 0.8, 0.7, 0.4]), np.array([1, 2, 3, 4]))
    found = Candidates(np.arange(4), {"semantic": near, "exact": held}, 4)
    _, weight = boost(found, {"semantic": 2.0, "exact": 5.0}, near.scores, ExactQuery(()))
    assert weight == pytest.approx(2.0 * (0.7 - 0.4))
    decisive = ExactQuery((), decisive=np.array([3]))
    _, weight = boost(found, {"semantic": 2.0, "exact": 5.0}, near.scores, decisive)
    assert weight == pytest.approx(2.0 * (0.9 + AHEAD - 0.4))


def test_of_several_holders_the_best_is_boosted() -> None:
    held = LegScores(np.array([0.0, 1.0, 0.5, 0.0, 1.0]), np.array([0, 1, 3, 0, 1]))
    near = LegScores(np.array([0.9, 0.3, 0.5, 0.8, 0.4]), np.array([1, 5, 3, 2, 4]))
    found = Candidates(np.arange(5), {"semantic": near, "exact": held}, 5)
    for exact, best, lacking in (
        (ExactQuery(()), 2, 0.0),  # it has the third rank
        (ExactQuery((), decisive=np.array([1, 4])), 4, 0.9 + AHEAD - 0.4),
        (ExactQuery((), decisive=np.array([9])), 2, 0.0),
    ):
        boosted, weight = boost(found, {"semantic": 1.0, "exact": 1.0}, near.scores, exact)
        assert weight == pytest.approx(lacking)
        assert np.flatnonzero(boosted.legs["exact"].scores).tolist() == [best]
        ranks = np.where(np.arange(5) == best, held.ranks, 0)
        assert boosted.legs["exact"].ranks.tolist() == ranks.tolist()


def test_the_first_of_two_needs_no_boost() -> None:
    held = LegScores(np.array([1.0, 0.0]), np.array([1, 0]))
    near = LegScores(np.array([0.9, 0.3]), np.array([1, 2]))
    found = Candidates(np.arange(2), {"semantic": near, "exact": held}, 2)
    assert boost(found, {"semantic": 1.0}, near.scores, ExactQuery(()))[1] == 0
