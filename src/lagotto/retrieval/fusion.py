"""From the scores of several legs to one score in [0, 1]. Pure functions.

`convex` is the default: a weighted mean of absolute scores. A cosine means the same for every
query, so a flat, uninformed list of vectors (a language that the model doesn't know) stays flat and
leaves the order to the words; rank and min-max fusion would blow it up into noise. `rrf` is
reciprocal rank fusion, divided by the best that a chunk could have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lagotto.results import Leg
from lagotto.stores.base import ChunkKeys

Scores = NDArray[np.float64]
FusionMethod = Literal["convex", "rrf"]

RRF_K = 60
DEFAULT_WEIGHTS: Mapping[Leg, float] = {"semantic": 1.0, "text": 0.5, "fuzzy": 0.5}


@dataclass(frozen=True, slots=True)
class LegScores:
    """What one leg says of every candidate: its score, and its rank in the leg's list or 0."""

    scores: Scores
    ranks: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The chunks that any leg found, with what every leg that ran says of each."""

    keys: ChunkKeys
    legs: Mapping[Leg, LegScores]

    def best_ranks(self) -> NDArray[np.int64]:
        """The best place of each candidate in any leg's list."""
        last = np.iinfo(np.int64).max
        ranks = [np.where(leg.ranks > 0, leg.ranks, last) for leg in self.legs.values()]
        best: NDArray[np.int64] = np.min(ranks, axis=0)
        return best


def convex(candidates: Candidates, weights: Mapping[Leg, float]) -> Scores:
    """The weighted mean of the legs' scores, each brought to [0, 1].

    A cosine counts from 0 up, a text score as a share of the query's best one.
    """
    parts = {leg: _absolute(leg, found.scores) for leg, found in candidates.legs.items()}
    return _weighted_mean(parts, weights, len(candidates.keys))


def rrf(candidates: Candidates, weights: Mapping[Leg, float]) -> Scores:
    """Reciprocal rank fusion; a leg adds nothing for a chunk that is not in its list."""
    parts = {
        leg: np.where(found.ranks > 0, (RRF_K + 1) / (RRF_K + found.ranks), 0.0)
        for leg, found in candidates.legs.items()
    }
    return _weighted_mean(parts, weights, len(candidates.keys))


FUSIONS: Mapping[FusionMethod, Callable[[Candidates, Mapping[Leg, float]], Scores]] = {
    "convex": convex,
    "rrf": rrf,
}


def _absolute(leg: Leg, scores: Scores) -> Scores:
    positive = np.maximum(scores, 0.0)
    if leg == "semantic":
        return np.minimum(positive, 1.0)
    best = positive.max(initial=0.0)
    return positive / best if best > 0 else positive


def _weighted_mean(parts: Mapping[Leg, Scores], weights: Mapping[Leg, float], count: int) -> Scores:
    legs = sorted(parts)  # one order of addition, so that sums come out alike
    total = sum(weights[leg] for leg in legs)
    mean = np.zeros(count)
    for leg in legs:
        if weights[leg]:
            mean += weights[leg] / total * parts[leg]
    return np.minimum(mean, 1.0)
