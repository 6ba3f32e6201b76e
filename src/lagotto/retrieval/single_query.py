"""The semantic and the text leg in a single query, where a store can do that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import TextQuery
from lagotto.prefs import RetrievalPrefs, ScoringPrefs
from lagotto.results import Leg
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.stores.base import View
from lagotto.stores.capabilities import HybridQuery, Scale


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How candidates will be fused, and how many passages will be read; None for all.

    `floor` is where the embedder's cosines of unrelated texts start.
    """

    weights: Mapping[Leg, float]
    floor: float
    passages: int | None


async def single_query_candidates(
    view: View,
    vector: Vector,
    text: TextQuery,
    *,
    depth: int,
    plan: FusionPlan,
    prefs: RetrievalPrefs,
) -> Candidates | None:
    """The candidates of both legs, None if the legs are asked one by one."""
    asked = _asked(vector, text, depth, plan, prefs)
    if asked is None or view.single_query is None:
        return None
    found = await view.single_query.hybrid(asked)
    if found is None:
        return None
    legs: dict[Leg, LegScores] = {
        "semantic": listed(found.semantic, found.keys, rest=found.semantic_scores),
        "text": listed(found.text, found.keys, rest=found.text_scores),
    }
    return Candidates(found.keys, legs, depth)


def listed(found: Hits, keys: ChunkKeys, *, rest: NDArray[np.float32] | None = None) -> LegScores:
    """A leg's scores and ranks for all of `keys`: its own list, and `rest` for the others."""
    scores = np.zeros(len(keys)) if rest is None else np.nan_to_num(rest.astype(np.float64))
    ranks = np.zeros(len(keys), np.int64)
    rows = np.searchsorted(keys, found.keys)
    scores[rows] = found.scores
    # Equal scores have equal ranks: their order in the list is that in which they came in.
    ranks[rows] = 1 + np.searchsorted(-found.scores, -found.scores)
    return LegScores(scores, ranks)


def _asked(
    vector: Vector, text: TextQuery, depth: int, plan: FusionPlan, prefs: RetrievalPrefs
) -> HybridQuery | None:
    scale = _scale(prefs.scoring)
    weights = plan.weights["semantic"], plan.weights["text"]
    if scale is None or min(weights) <= 0 or prefs.vector.distance != "cosine":
        return None
    if prefs.strategy == "legs":
        return None
    return HybridQuery(
        vector=vector,
        text=text,
        depth=depth,
        fill=prefs.scoring.fill,
        least=(prefs.vector.min_score, prefs.fts.min_rank),
        scale=scale,
        weights=weights,
        rrf_k=prefs.scoring.rrf_k,
        floor=plan.floor,
        passages=2 * depth if plan.passages is None else plan.passages,
        anyway=prefs.strategy == "statement",
    )


def _scale(scoring: ScoringPrefs) -> Scale | None:
    """The scale of the scores, if it can be computed for each score by itself."""
    if scoring.blend == "rrf":
        return "rrf"
    if scoring.normalize == "absolute" or scoring.normalize == "theoretical":
        return scoring.normalize
    return None
