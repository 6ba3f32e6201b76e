"""Damping: words count for less where even the best match is weak and the vectors have a favourite.

Normalised by the best score of the query, the best match of a leg of words counts 1 however weak it
is. A paraphrase of the answer, which shares a stray word with some other passage, then loses to
that passage. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lagotto.indexes.bm25 import K1
from lagotto.retrieval.fusion import LegScores

TOP_WORDS = 3
"""Words of the query, those with the greatest IDF, that a full match would hold."""

FULL_MATCH = 0.5
"""The share of the score of these words with which a match is no longer weak."""

COMPARED_RANK = 10
LEAST_LEAD, CLEAR_LEAD = 0.10, 0.20
"""How far the nearest vector must be ahead of the one at `COMPARED_RANK` to damp at all, and to
damp fully. Flat cosines, as in a language that the model doesn't know, have no favourite."""


def match_strength(best: float, idfs: Sequence[float]) -> float:
    """How strong a leg's best match is, from 0 to 1.

    `best` is its BM25 score, `idfs` are those of the query's words. A term scores at most its IDF
    times K1 + 1.
    """
    most = (K1 + 1) * sum(sorted(idfs, reverse=True)[:TOP_WORDS])
    return min(1.0, best / (FULL_MATCH * most)) if most > 0 else 1.0


def favourite(semantic: LegScores, *, floor: float) -> float:
    """How clear a favourite the vectors have, from 0 to 1; 0 with fewer hits than are compared."""
    cosines = np.sort(semantic.scores[semantic.ranks > 0])[::-1]
    if len(cosines) < COMPARED_RANK:
        return 0.0
    first, last = np.maximum((cosines[[0, COMPARED_RANK - 1]] - floor) / (1 - floor), 0.0)
    return float(np.clip((first - last - LEAST_LEAD) / (CLEAR_LEAD - LEAST_LEAD), 0.0, 1.0))


def damping(best: float, idfs: Sequence[float], *, favourite: float) -> float:
    """The factor of the weight of a leg of words."""
    return 1.0 - favourite * (1.0 - match_strength(best, idfs))
