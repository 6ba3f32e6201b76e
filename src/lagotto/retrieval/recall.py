"""Recall: the legs side by side, then every leg's exact score for every candidate."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector
from lagotto.errors import StoreError
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import TextQuery
from lagotto.prefs import Distance, RetrievalPrefs
from lagotto.results import LEGS, Leg
from lagotto.retrieval.diagnostics import Diagnostics
from lagotto.retrieval.exact import ExactQuery
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.retrieval.single_query import FusionPlan, listed, single_query_candidates
from lagotto.retrieval.trigram_text import TrigramTextQuery
from lagotto.stores.base import View
from lagotto.terms.postings import distinct

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LegQueries:
    """The query of each leg; a leg that is None does not run.

    `length` is that of the caller's own vector; `semantic` has the length 1. `fuzzy` is the
    full-text query with misspelt words replaced by what they may mean, or the words for whole
    texts; `misspelt` is how much of it was replaced, from 0 to 1.
    """

    semantic: Vector | None = None
    text: TextQuery | None = None
    fuzzy: TextQuery | TrigramTextQuery | None = None
    exact: ExactQuery | None = None
    length: float = 1.0
    misspelt: float = 0.0

    def active(self) -> list[Leg]:
        """The legs that run."""
        return [leg for leg in LEGS if getattr(self, leg) is not None]


class Recall:
    """One query's legs on one view; with a plan they may become a single query."""

    def __init__(
        self,
        view: View,
        queries: LegQueries,
        prefs: RetrievalPrefs,
        *,
        plan: FusionPlan | None = None,
    ) -> None:
        self._view = view
        self._queries = queries
        self._prefs = prefs
        self._plan = plan

    async def candidates(self, *, depth: int, diagnostics: Diagnostics) -> Candidates:
        """The best `depth` chunks of each leg, with the score of every leg for each of them.

        A leg that fails is noted and left out, unless it was the only one.
        """
        if (both := await self._single_query(depth)) is not None:
            return both
        lists = await self._lists(depth, diagnostics)
        found = [hits.keys for hits in lists.values()]
        keys = distinct(np.concatenate([np.empty(0, np.int64), *found]))
        scores = await self._each(self._filled(leg, hits, keys) for leg, hits in lists.items())
        return Candidates(keys, dict(zip(lists, scores, strict=True)), depth)

    async def _single_query(self, depth: int) -> Candidates | None:
        """Both legs in one query, if there are no others and the store can do so."""
        vector, text = self._queries.semantic, self._queries.text
        alone = self._queries.fuzzy is None and self._queries.exact is None
        if self._plan is None or not alone or vector is None or text is None:
            return None
        return await single_query_candidates(
            self._view, vector, text, depth=depth, plan=self._plan, prefs=self._prefs
        )

    async def _lists(self, depth: int, diagnostics: Diagnostics) -> dict[Leg, Hits]:
        legs = self._queries.active()
        searches = (self._searched(leg, depth) for leg in legs)
        outcomes = dict(zip(legs, await self._each(searches), strict=True))
        failed = {leg: said for leg, said in outcomes.items() if isinstance(said, StoreError)}
        for leg, error in failed.items():
            if len(failed) == len(legs):
                raise error
            diagnostics.note(leg, f"the leg failed and is left out ({error})", cause=error)
        return {
            leg: self._good_enough(leg, hits)
            for leg, hits in outcomes.items()
            if isinstance(hits, Hits)
        }

    async def _each(self, jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of the jobs, which run one by one if none of them has to wait."""
        if self._view.immediate:
            return [await job for job in jobs]
        return await asyncio.gather(*jobs)

    def _good_enough(self, leg: Leg, hits: Hits) -> Hits:
        least = {"semantic": self._prefs.vector.min_score, "text": self._prefs.fts.min_rank}.get(
            leg
        )
        if least is None:
            return hits
        kept = hits.scores >= least
        return Hits(hits.keys[kept], hits.scores[kept])

    async def _searched(self, leg: Leg, depth: int) -> Hits | StoreError:
        try:
            return await self._search(leg, depth)
        except StoreError as error:
            return error

    async def _search(self, leg: Leg, depth: int) -> Hits:
        query = self._queries
        if leg == "semantic" and query.semantic is not None:
            found = await self._view.semantic(query.semantic, k=depth)
            return Hits(found.keys, self._by_distance(found.scores).astype(np.float32))
        if leg == "exact" and query.exact is not None:
            return await query.exact.search(self._view, k=depth)
        words = query.text if leg == "text" else query.fuzzy
        if isinstance(words, TrigramTextQuery):
            return await words.search(self._view, k=depth)
        return await self._view.text(words or TextQuery(()), k=depth)

    async def _filled(self, leg: Leg, found: Hits, keys: ChunkKeys) -> LegScores:
        """Scores for all of `keys`: those of the leg's own list, and the missing ones."""
        known = listed(found, keys)
        missing = np.flatnonzero(known.ranks == 0)
        if len(missing) and self._prefs.scoring.fill:
            known.scores[missing] = await self.scores(leg, keys[missing])
        return known

    async def scores(self, leg: Leg, keys: ChunkKeys) -> NDArray[np.float64]:
        """The exact score of each of `keys` in a leg."""
        query = self._queries
        if leg == "semantic" and query.semantic is not None:
            return self._by_distance(await self._view.semantic_scores(query.semantic, keys))
        if leg == "exact" and query.exact is not None:
            return await query.exact.scores(self._view, keys)
        words = query.text if leg == "text" else query.fuzzy
        if isinstance(words, TrigramTextQuery):
            return await words.scores(self._view, keys)
        scores = await self._view.text_scores(words or TextQuery(()), keys)
        return scores.astype(np.float64)

    def _by_distance(self, cosines: NDArray[np.float32]) -> NDArray[np.float64]:
        return by_distance(
            cosines.astype(np.float64), self._queries.length, self._prefs.vector.distance
        )


def by_distance(
    cosines: NDArray[np.float64], length: float, distance: Distance
) -> NDArray[np.float64]:
    """Scores on another scale than cosine, the greater the nearer: inner product, or 1 / (1 + l2).

    `length` is that of the query's vector; stored vectors have the length 1, so the order is the
    same on every scale.
    """
    if distance == "cosine":
        return cosines
    if distance == "ip":
        return cosines * length
    squared = np.maximum(length**2 + 1 - 2 * length * cosines, 0)
    return 1 / (1 + np.sqrt(squared))
