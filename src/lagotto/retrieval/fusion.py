"""From the scores of several legs to one in [0, 1]; damping of weak matches. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.bm25 import K1
from lagotto.prefs import Normalisation, ScoringPrefs
from lagotto.results import LEGS, Leg

Scores = NDArray[np.float64]

FARTHEST = 3.0
"""Standard deviations from the mean beyond which `zscore` tells no difference."""


@dataclass(frozen=True, slots=True)
class LegScores:
    """One leg's score for every candidate, and its rank in the leg's list or 0.

    An unknown score is NaN.
    """

    scores: Scores
    ranks: NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """The chunks that any leg found, with the scores of every leg that ran.

    `depth` is how many chunks a leg could bring, None if any number.
    """

    keys: ChunkKeys
    legs: Mapping[Leg, LegScores]
    depth: int | None = None

    @cached_property
    def best_ranks(self) -> NDArray[np.int64]:
        """The best rank of each candidate in any leg's list."""
        best = np.full(len(self.keys), np.iinfo(np.int64).max)
        for leg in self.legs.values():
            best = np.where(leg.ranks > 0, np.minimum(best, leg.ranks), best)
        return best


@dataclass(frozen=True, slots=True)
class LegContribution:
    """One leg's share of the fused scores: the contributions of all legs add up to them.

    `weight` is the leg's share of all weights, which `damping` has lowered already.
    """

    normalised: Scores
    weight: float
    contribution: Scores
    damping: float = 1.0


@dataclass(frozen=True, slots=True)
class Fused:
    """The fused scores in [0, 1], and how they add up.

    `raw` is the plain weighted sum: of 1 / (k + rank), or of the normalised scores. `ends` are the
    values of the sum that score 0 and 1 in reciprocal rank fusion. With `boosts`, their factors by
    name, `scores` are the products of these and the `unboosted` ones, divided by `boost_scale`.
    """

    scores: Scores
    raw: Scores
    parts: Mapping[Leg, LegContribution]
    ends: tuple[float, float] | None = None
    unboosted: Scores | None = None
    boosts: Mapping[str, Scores] = field(default_factory=dict)
    boost_scale: float = 1.0


class HybridScorer(Protocol):
    """Fuses the scores of the legs into one in [0, 1]; `fuse` is the default.

    A pure function: the same arguments give the same scores, the greater the better.
    """

    def __call__(
        self,
        candidates: Candidates,
        weights: Mapping[Leg, float],
        scoring: ScoringPrefs,
        *,
        floor: float = 0.0,
        damping: Mapping[Leg, float] | None = None,
    ) -> Fused:
        """One score per candidate, in their order; arguments as those of `fuse`."""
        ...


def fuse(
    candidates: Candidates,
    weights: Mapping[Leg, float],
    scoring: ScoringPrefs,
    *,
    floor: float = 0.0,
    damping: Mapping[Leg, float] | None = None,
) -> Fused:
    """One score per candidate from those of the legs that ran and have a weight.

    `floor` is where the embedder's cosines of unrelated texts start; `damping` are factors of the
    weights. A leg that has no score for a candidate adds nothing to it. Without `scoring.fill` that
    is every candidate outside its list, and they have no say in the leg's normalisation either.
    """
    factors = damping or {}
    # In one order, whatever that of `candidates`, so that sums come out alike.
    damped = {
        leg: weights[leg] * factors.get(leg, 1.0)
        for leg in LEGS
        if leg in candidates.legs and leg in weights
    }
    counted = {leg: weight for leg, weight in damped.items() if weight > 0}
    normalised = {leg: _normalised(leg, candidates.legs[leg], scoring, floor) for leg in counted}
    terms = {leg: weight * normalised[leg] for leg, weight in counted.items()}
    summed = sum(terms.values(), start=np.zeros(len(candidates.keys)))
    if scoring.blend == "rrf":
        return _reciprocal(summed, normalised, counted, k=scoring.rrf_k, depth=candidates.depth)
    total = sum(counted.values())
    full = max(1.0, summed.max(initial=0.0)) if scoring.normalize == "none" else total
    parts = {
        # Raw cosines may add up to less than nothing; the score is then 0, and so are its parts.
        leg: LegContribution(
            normalised[leg],
            counted[leg] / total,
            np.where(summed > 0, term / full, 0.0),
            factors.get(leg, 1.0),
        )
        for leg, term in terms.items()
    }
    scores = summed / full if counted else summed
    return Fused(np.clip(scores, 0.0, 1.0), summed, parts)


def _reciprocal(
    summed: Scores,
    normalised: Mapping[Leg, Scores],
    weights: Mapping[Leg, float],
    *,
    k: int,
    depth: int | None,
) -> Fused:
    """Reciprocal ranks on a scale from the least to the greatest sum that a candidate could have.

    The least is that of the last one in the list of the leg with the least weight, and in no other;
    the greatest that of the first one in every list. A linear scale leaves the order as it is. What
    a leg contributes is its share of the sum.
    """
    total, lowest = sum(weights.values()), 0.0
    if depth is not None:
        listed = [weight for leg, weight in weights.items() if leg != "exact"]
        lowest = min(listed, default=0.0) * (k + 1) / (k + depth)
    if total > lowest:
        scores = np.clip((summed - lowest) / (total - lowest), 0.0, 1.0)
    else:  # a single leg that brings a single chunk
        scores = (summed > 0).astype(np.float64)
    stretch = np.divide(scores * total, summed, out=np.zeros_like(summed), where=summed > 0)
    parts = {
        leg: LegContribution(
            normalised[leg] * stretch, weight / total, normalised[leg] * stretch * (weight / total)
        )
        for leg, weight in weights.items()
    }
    return Fused(scores, summed / (k + 1), parts, (lowest / (k + 1), total / (k + 1)))


def _normalised(leg: Leg, ranking: LegScores, scoring: ScoringPrefs, floor: float) -> Scores:
    """A leg's scores in [0, 1] (raw for `none`), 0 where it has none."""
    known = np.isfinite(ranking.scores) & (scoring.fill | (ranking.ranks > 0))
    if scoring.blend == "rrf":
        # What holds the exact wording holds it as well as any other that does.
        ranks = (known & (ranking.scores > 0)).astype(np.int64) if leg == "exact" else ranking.ranks
        return np.where(ranks > 0, (scoring.rrf_k + 1) / (scoring.rrf_k + ranks), 0.0)
    normalised = np.zeros(len(ranking.scores))
    if known.any():
        scores = ranking.scores[known].astype(np.float64)
        normalised[known] = _on_one_scale(leg, scores, scoring.normalize, floor)
    return normalised


def _on_one_scale(leg: Leg, scores: Scores, method: Normalisation, floor: float) -> Scores:
    if method == "none":
        return scores
    if leg == "exact":  # a share of what was quoted: means the same in every query
        return np.clip(scores, 0.0, 1.0)
    if method == "absolute" and leg == "semantic":
        # The inner product with a long vector may be above 1.
        highest = max(1.0, float(scores.max()))
        return np.maximum((scores - floor) / (highest - floor), 0.0)
    if method in ("absolute", "theoretical"):  # the share of the best
        lowest = -1.0 if leg == "semantic" else 0.0
        positive = np.maximum(scores - lowest, 0.0)
        best = positive.max()
        return positive / best if best > 0 else positive
    if scores.min() == scores.max():
        # Every passage has a vector, but words match or don't.
        matched = np.full(len(scores), True) if leg == "semantic" else scores > 0
        return np.where(matched, 1.0 if method == "minmax" else 0.5, 0.0)
    scaled: Scores = (scores - scores.min()) / (scores.max() - scores.min())
    if method == "minmax":
        return scaled
    # Scaled first, so that tiny differences don't vanish when squared; sorted, because the sum of
    # floats depends on their order.
    ordered = np.sort(scaled)
    standardised: Scores = (scaled - ordered.mean()) / ordered.std()
    if method == "zscore":
        return (np.clip(standardised, -FARTHEST, FARTHEST) + FARTHEST) / (2 * FARTHEST)
    return 1.0 / (1.0 + np.exp(-standardised))


TOP_WORDS = 3
"""Words of the query, those with the greatest IDF, that a full match would hold."""

FULL_MATCH = 0.5
"""The share of the score of these words with which a match is no longer weak."""

COMPARED_RANK = 10
LEAST_LEAD, CLEAR_LEAD = 0.10, 0.20
"""How far the nearest vector must be ahead of the one at `COMPARED_RANK` to damp at all, and to
damp fully. Flat cosines, as in a language that the model doesn't know, have no such lead."""


def match_strength(best: float, idfs: Sequence[float]) -> float:
    """How strong a leg's best match is, from 0 to 1, by its BM25 score and the IDFs of the words.

    A term scores at most its IDF times K1 + 1.
    """
    most = (K1 + 1) * sum(sorted(idfs, reverse=True)[:TOP_WORDS])
    return min(1.0, best / (FULL_MATCH * most)) if most > 0 else 1.0


def semantic_lead(semantic: LegScores, *, floor: float) -> float:
    """How clearly one of the vectors leads, from 0 to 1; 0 with fewer hits than are compared."""
    cosines = np.sort(semantic.scores[semantic.ranks > 0])[::-1]
    if len(cosines) < COMPARED_RANK:
        return 0.0
    first, last = np.maximum((cosines[[0, COMPARED_RANK - 1]] - floor) / (1 - floor), 0.0)
    return float(np.clip((first - last - LEAST_LEAD) / (CLEAR_LEAD - LEAST_LEAD), 0.0, 1.0))


def damping(best: float, idfs: Sequence[float], *, semantic_lead: float) -> float:
    """The factor of the weight of a leg of words."""
    return 1.0 - semantic_lead * (1.0 - match_strength(best, idfs))
