"""The way of a query: analyse, recall, fuse, rank, rerank, resolve parents, trim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lagotto.documents import Vector
from lagotto.embedders import Embedder
from lagotto.errors import RetrievalError
from lagotto.indexes.text_query import TextQuery
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers.base import Reranker
from lagotto.results import Leg, RetrievalResult
from lagotto.retrieval.degradation import Degradation
from lagotto.retrieval.diversity import cap, mmr
from lagotto.retrieval.exact import lift
from lagotto.retrieval.explanation import as_result
from lagotto.retrieval.fusion import Candidates, Fused, fuse
from lagotto.retrieval.parents import any_children, parent_or_self, resolve_parents
from lagotto.retrieval.query.expansion import (
    Expander,
    Expansion,
    feedback_candidates,
    feedback_terms,
)
from lagotto.retrieval.query_plan import QueryPlan, QueryPlanner
from lagotto.retrieval.ranking import Ranked, good_enough, rank
from lagotto.retrieval.recall import Recall
from lagotto.retrieval.rerank import rerank
from lagotto.retrieval.single_query import Plan
from lagotto.retrieval.stopwatch import Stopwatch
from lagotto.stores.base import Capabilities, View


@dataclass(frozen=True, slots=True)
class Parts:
    """What a search works with besides a view of the store."""

    embedder: Embedder
    capabilities: Capabilities
    reranker: Reranker | None = None
    expander: Expander | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates of a query and their scores; `view` leaves out what the query excludes."""

    view: View
    analysis: QueryPlan
    recall: Recall
    candidates: Candidates
    fused: Fused


class Search:
    """One query on one view: the stages in order."""

    def __init__(self, parts: Parts, prefs: RetrievalPrefs, view: View) -> None:
        self._parts = parts
        self._prefs = prefs
        self._view = view
        self.degradation = Degradation(strict=prefs.strict)
        self.stopwatch = Stopwatch()
        self.reranked: list[RetrievalResult] = []
        """What the reranker was given, in the order of the fused scores."""

    async def results(self, *, vector: Vector | None = None) -> list[RetrievalResult]:
        """The best `top_k` passages."""
        found = await self.find(depth=self.depth, vector=vector, passages=self._wanted)
        with self.stopwatch.stage("rank"):
            ranked = await self._ranked(found)
        with self.stopwatch.stage("rerank"):
            ranked = await self._reranked(found, ranked)
        ranked = good_enough(ranked, self._prefs.min_score)
        ranked = await self._diverse(found, ranked)
        return _results(ranked[: self._prefs.top_k], found)

    async def find(
        self, *, depth: int, vector: Vector | None = None, passages: int | None = None
    ) -> Found:
        """What the legs find, fused; with a second look where feedback is asked for.

        `passages` is how many of the best will be read, None for all.
        """
        expansion = await self._expansion()
        found = await self._look(depth, vector, expansion, passages)
        if not self._prefs.expansion.feedback or found.analysis.legs.text is None:
            return found
        return await self._look(depth, vector, await self._feedback(found, expansion), passages)

    async def _look(
        self, depth: int, vector: Vector | None, expansion: Expansion | None, passages: int | None
    ) -> Found:
        analyst = QueryPlanner(
            self._view,
            self._prefs,
            embedder=self._parts.embedder,
            capabilities=self._parts.capabilities,
            degradation=self.degradation,
        )
        with self.stopwatch.stage("analyse"):
            analysis = await analyst.analysis(vector=vector, expansion=expansion)
        view = self._view
        if analysis.excluded is not None:
            view = await view.excluding(analysis.excluded)
        plan = Plan(analysis.weights, self._floor, passages)
        recall = Recall(view, analysis.legs, self._prefs, plan=plan)
        return await self._recalled(view, analysis, recall, depth)

    async def look_deeper(self, found: Found, *, depth: int) -> Found:
        """The same question, with more candidates of each leg."""
        return await self._recalled(found.view, found.analysis, found.recall, depth)

    async def _recalled(self, view: View, analysis: QueryPlan, recall: Recall, depth: int) -> Found:
        with self.stopwatch.stage("recall"):
            candidates = await recall.candidates(depth=depth, degradation=self.degradation)
        weights = analysis.weights
        if analysis.legs.exact and analysis.legs.exact.mentioned and weights["exact"]:
            rest = self.fused(candidates, {**weights, "exact": 0.0})
            candidates, weights = lift(candidates, weights, rest.scores)
        fused = self.fused(candidates, weights)
        return Found(view, replace(analysis, weights=weights), recall, candidates, fused)

    def fused(self, candidates: Candidates, weights: Mapping[Leg, float]) -> Fused:
        """One score from those of the legs."""
        return fuse(candidates, weights, self._prefs.scoring, floor=self._floor)

    @property
    def _floor(self) -> float:
        """Where the cosines of unrelated texts start."""
        by_cosine = self._prefs.vector.distance == "cosine"
        return self._parts.embedder.info.cosine_floor if by_cosine else 0.0

    @property
    def _reranker(self) -> Reranker | None:
        return self._parts.reranker if self._prefs.rerank.enabled else None

    @property
    def depth(self) -> int:
        """How many candidates each leg brings."""
        return self._prefs.depth(self._wanted)

    @property
    def _wanted(self) -> int:
        """How many passages the stages after fusion need."""
        most_seen = self._prefs.rerank.candidates if self._reranker else 0
        return max(self._prefs.top_k, most_seen)

    async def _ranked(self, found: Found) -> list[Ranked]:
        """Those that go on: the best, or all where several may become one or make way."""
        count, everything = self._wanted, len(found.candidates.keys)
        scores = found.fused.scores
        ranked = await rank(found.view, found.candidates, scores, count=count)
        diversity = self._prefs.diversity
        merging = self._prefs.parents.mode == "replace" and any_children(ranked)
        if merging or diversity.per_document or diversity.mmr is not None:
            ranked = await rank(found.view, found.candidates, scores, count=everything)
        return good_enough(ranked, self._prefs.scoring.min_score)

    async def _reranked(self, found: Found, ranked: list[Ranked]) -> list[Ranked]:
        """Parents before or after the reranker, which sees enough for `top_k` to be left."""
        parents = self._prefs.parents
        if parents.stage == "before_rerank":
            ranked = await resolve_parents(found.view, ranked, parents, self.degradation)
        if self._reranker is not None:
            seen = _enough(ranked, self._wanted, self._prefs)
            self.reranked = _results(seen, found)
            ranked = await rerank(
                self._reranker,
                self._prefs.query_text,
                seen,
                found.candidates,
                prefs=self._prefs.rerank,
                degradation=self.degradation,
            )
            ranked = good_enough(ranked, self._prefs.rerank.min_score)
        if parents.stage == "after_rerank":
            ranked = await resolve_parents(found.view, ranked, parents, self.degradation)
        return ranked

    async def _diverse(self, found: Found, ranked: list[Ranked]) -> list[Ranked]:
        diversity = self._prefs.diversity
        if diversity.mmr is not None and ranked:
            keys = found.candidates.keys[[item.place for item in ranked]]
            vectors = await found.view.vectors(keys)
            scores = np.array([item.score for item in ranked])
            order = mmr(scores, vectors, share=diversity.mmr, count=len(ranked))
            ranked = [ranked[place] for place in order]
        if diversity.per_document:
            ranked = cap(ranked, key=document_of, most=diversity.per_document)
        return ranked

    async def _expansion(self) -> Expansion | None:
        if self._parts.expander is None:
            return None
        try:
            return await self._parts.expander.expand(self._prefs.query_text)
        except RetrievalError as exc:
            self.degradation.note("expansion", f"left out ({exc})", cause=exc)
            return None

    async def _feedback(self, found: Found, expansion: Expansion | None) -> Expansion:
        """The words that the best passages of a first look have in common."""
        asked = self._prefs.expansion
        scores = found.fused.scores
        best = await rank(found.view, found.candidates, scores, count=asked.feedback_passages)
        texts = [item.passage.chunk.text for item in best]
        languages = [item.passage.document.language for item in best]
        terms = feedback_candidates(texts, languages)
        idf = await found.view.idf(terms)
        added = feedback_terms(
            texts,
            [item.score for item in best],
            languages,
            dict(zip(terms, idf.tolist(), strict=True)),
            asked.feedback_terms,
            known=_terms_of(found.analysis.legs.text),
        )
        given = expansion or Expansion()
        return replace(given, terms=given.terms + added)


def _terms_of(query: TextQuery | None) -> set[str]:
    return {term.text for word in query.words for term in word} if query else set()


def _results(ranked: Sequence[Ranked], found: Found) -> list[RetrievalResult]:
    places = enumerate(ranked, 1)
    return [as_result(place, item, found.candidates, found.fused) for place, item in places]


def document_of(item: Ranked) -> tuple[str, str]:
    """The collection and id of a hit's document."""
    return item.passage.document.collection, item.passage.document.id


def _enough(ranked: Sequence[Ranked], count: int, prefs: RetrievalPrefs) -> list[Ranked]:
    """The first `count`, and more where children that become one parent would leave too few."""
    if prefs.parents.mode != "replace" or prefs.parents.stage == "before_rerank":
        return list(ranked[:count])
    distinct: set[str] = set()
    for place, item in enumerate(ranked):
        if place >= count and len(distinct) >= prefs.top_k:
            return list(ranked[:place])
        distinct.add(parent_or_self(item))
    return list(ranked)
