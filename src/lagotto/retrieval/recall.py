"""Finding candidates: the legs side by side, then every leg's exact score for every candidate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lagotto.documents import Vector
from lagotto.results import Leg
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.stores.base import ChunkKeys, TextQuery, View
from lagotto.stores.hits import Hits


@dataclass(frozen=True, slots=True)
class LegQueries:
    """What each leg is asked; a leg that is None does not run.

    `fuzzy` is the full-text query with misspelt words replaced by what they may mean; `misspelt`
    is how much of it was replaced, from 0 to 1.
    """

    semantic: Vector | None = None
    text: TextQuery | None = None
    fuzzy: TextQuery | None = None
    misspelt: float = 0.0

    def active(self) -> list[Leg]:
        """The legs that run."""
        legs: tuple[Leg, ...] = ("semantic", "text", "fuzzy")
        return [leg for leg in legs if getattr(self, leg) is not None]


async def recall(view: View, queries: LegQueries, *, depth: int, floor: float = 0.0) -> Candidates:
    """The best `depth` chunks of each leg, all scored by all legs.

    `floor` is where the embedder's cosines of unrelated texts start; scores count from there.
    """
    legs = queries.active()
    lists = await asyncio.gather(*(_search(view, queries, leg, depth) for leg in legs))
    found: dict[Leg, Hits] = dict(zip(legs, lists, strict=True))
    keys = np.unique(np.concatenate([np.empty(0, np.int64), *(hits.keys for hits in lists)]))
    filled = await asyncio.gather(*(_fill(view, queries, leg, found[leg], keys) for leg in legs))
    scores: Mapping[Leg, LegScores] = dict(zip(legs, filled, strict=True))
    if "semantic" in scores and floor:
        semantic = scores["semantic"]
        raised = (semantic.scores - floor) / (1 - floor)
        scores = {**scores, "semantic": LegScores(raised, semantic.ranks)}
    return Candidates(keys, scores)


async def _search(view: View, queries: LegQueries, leg: Leg, depth: int) -> Hits:
    if leg == "semantic" and queries.semantic is not None:
        return await view.semantic(queries.semantic, k=depth)
    query = queries.text if leg == "text" else queries.fuzzy
    return await view.text(query or TextQuery(()), k=depth)


async def _fill(
    view: View, queries: LegQueries, leg: Leg, found: Hits, keys: ChunkKeys
) -> LegScores:
    """Scores for all of `keys`: those of the leg's own list, and the missing ones."""
    scores = np.zeros(len(keys))
    ranks = np.zeros(len(keys), np.int64)
    places = np.searchsorted(keys, found.keys)
    scores[places] = found.scores
    # Equal scores have equal ranks: their order in the list is that in which they came in.
    ranks[places] = 1 + np.searchsorted(-found.scores, -found.scores)
    missing = np.flatnonzero(ranks == 0)
    if len(missing):
        scores[missing] = await _scores(view, queries, leg, keys[missing])
    return LegScores(scores, ranks)


async def _scores(
    view: View, queries: LegQueries, leg: Leg, keys: ChunkKeys
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    if leg == "semantic" and queries.semantic is not None:
        return await view.semantic_scores(queries.semantic, keys)
    query = queries.text if leg == "text" else queries.fuzzy
    return await view.text_scores(query or TextQuery(()), keys)
