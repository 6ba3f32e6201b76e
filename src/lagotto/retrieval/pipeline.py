"""The way of a query: analyse, recall, fuse, rank, resolve parents, trim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lagotto.embedders import Embedder
from lagotto.filters import And, Filter
from lagotto.results import Leg, LegScore, RetrievalResult, ScoreBreakdown
from lagotto.retrieval.analyse import content_words, familiarity, mend, text_query
from lagotto.retrieval.fusion import DEFAULT_WEIGHTS, FUSIONS, Candidates, FusionMethod, Scores
from lagotto.retrieval.parents import any_children, replace_by_parents
from lagotto.retrieval.ranking import Ranked, rank
from lagotto.retrieval.recall import LegQueries, recall
from lagotto.stores.base import Store, View

Mode = Literal["hybrid", "semantic", "keyword"]

DEPTH = 100
"""How many candidates each leg brings, or as many as are asked for, if that is more."""


UNFAMILIAR = 0.1
"""What is left of the semantic leg's weight where the embedder can't read the query."""


@dataclass(frozen=True, slots=True)
class Request:
    """A question and how it should be answered."""

    query: str
    top_k: int = 10
    mode: Mode = "hybrid"
    where: Filter = field(default_factory=And)
    fusion: FusionMethod = "convex"
    weights: Mapping[Leg, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    fuzzy: bool = True
    parents: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, best first, and what did not work on the way."""

    results: list[RetrievalResult]
    degraded: tuple[str, ...] = ()


class Retriever:
    """Answers requests from a store; knows nothing of what kind of store it is."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    async def retrieve(self, request: Request) -> Answer:
        """The best `top_k` passages for the query."""
        degraded: list[str] = []
        async with self._store.view(request.where) as view:
            queries = await self._analyse(view, request, degraded)
            candidates = await recall(
                view,
                queries,
                depth=max(DEPTH, request.top_k),
                floor=self._embedder.info.cosine_floor,
            )
            scores = FUSIONS[request.fusion](candidates, self._weights(request, queries))
            ranked = await rank(view, candidates, scores, count=request.top_k)
            if request.parents and any_children(ranked):
                # Several children may become one parent, so all of them have a say.
                everything = await rank(view, candidates, scores, count=len(candidates.keys))
                ranked = await replace_by_parents(view, everything)
        best = enumerate(ranked[: request.top_k], 1)
        results = [_result(place, item, candidates, scores) for place, item in best]
        return Answer(results, tuple(degraded))

    def _weights(self, request: Request, queries: LegQueries) -> Mapping[Leg, float]:
        """As asked for, but less for a leg that can't make much of this query.

        Vectors say little of an alphabet that the embedder never learned. Where words are
        misspelt, the fuzzy leg stands in for the text leg, whose words it has too, and counts for
        more the more of them there are: a vector of misspelt words says little as well.
        """
        known = familiarity(request.query, self._embedder.info.alphabets)
        given = request.weights
        return {
            "semantic": given["semantic"] * max(known, UNFAMILIAR),
            "text": 0.0 if queries.fuzzy and given["fuzzy"] else given["text"],
            "fuzzy": given["fuzzy"] * (1 + queries.misspelt),
        }

    async def _analyse(self, view: View, request: Request, degraded: list[str]) -> LegQueries:
        can = self._store.capabilities
        vector = text = fuzzy = None
        misspelt = 0.0
        if request.mode != "keyword":
            vector = (await self._embedder.embed([request.query], role="query"))[0]
        if request.mode != "semantic" and can.text:
            words = content_words(request.query, view.languages)
            text = text_query(words)
            if request.fuzzy and can.fuzzy:
                fuzzy, misspelt = await mend(view, words, self._embedder.tokenizer)
        if request.mode != "semantic" and not can.text:
            degraded.append("text: this store has no full-text index, so only vectors were used")
            if vector is None:
                vector = (await self._embedder.embed([request.query], role="query"))[0]
        return LegQueries(vector, text, fuzzy, misspelt)


def _result(place: int, item: Ranked, candidates: Candidates, scores: Scores) -> RetrievalResult:
    chunk, document = item.passage.chunk, item.passage.document
    return RetrievalResult(
        rank=place,
        score=item.score,
        content=chunk.text,
        chunk_id=chunk.id,
        document_id=document.id,
        document_title=document.title,
        document_source=document.source,
        collection=document.collection,
        start=chunk.start,
        end=chunk.end,
        pages=chunk.pages,
        heading_path=chunk.heading_path,
        row_range=chunk.row_range,
        item_range=chunk.item_range,
        metadata=document.metadata,
        breakdown=_breakdown(item.place, candidates, scores),
    )


def _breakdown(place: int, candidates: Candidates, scores: Scores) -> ScoreBreakdown:
    legs = {
        leg: LegScore(score=float(found.scores[place]), rank=int(found.ranks[place]) or None)
        for leg, found in candidates.legs.items()
    }
    return ScoreBreakdown(fused=float(scores[place]), **legs)
