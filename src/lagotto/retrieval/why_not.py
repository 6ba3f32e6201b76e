"""Why a document is not among the results: the score of each leg, and where it falls short."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field, InstanceOf

from lagotto.documents import Document, DocumentRef, Record
from lagotto.filters import matches
from lagotto.indexes.base import ChunkKeys
from lagotto.prefs import RetrievalPrefs, SearchRequest
from lagotto.results import Leg, Results, ScoreBreakdown
from lagotto.retrieval.explain import breakdown_fields
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.retrieval.pipeline import Scored, Search
from lagotto.retrieval.recall import Recall
from lagotto.stores.base import View


class WhyNot(Record):
    """Why a document is not among the results; `rank` is its rank in a long enough list.

    `breakdown` is that of its best chunk, `results` the list that it is not in.
    """

    document_id: str
    reason: str
    rank: int | None = None
    breakdown: ScoreBreakdown | None = None
    results: InstanceOf[Results] = Field(default_factory=Results, exclude=True, repr=False)

    def __str__(self) -> str:
        return f"{self.document_id}: {self.reason}"


def unknown_document(results: Results, name: DocumentRef) -> WhyNot:
    reason = f"there is no document with this id in the collection {name.collection!r}"
    return WhyNot(document_id=name.id, reason=reason, results=results)


def known_reason(
    request: SearchRequest, name: DocumentRef, results: Results, document: Document | None
) -> WhyNot | None:
    """The reason if it is plain to see: unknown, found, in another collection, filtered out."""
    if document is None:
        return unknown_document(results, name)
    prefs, collection = request.preferences, name.collection
    details: dict[str, Any] = {}
    if hit := next((hit for hit in results if hit.document_ref == name), None):
        reason = f"it was found, at rank {hit.rank}"
        details = {"rank": hit.rank, "breakdown": hit.breakdown}
    elif prefs.collection not in (None, collection):
        reason = f"the search is in the collection {prefs.collection!r}, it is in {collection!r}"
    elif not matches(prefs.filters, document):
        reason = f"the filter {prefs.filters!r} leaves it out"
    elif request.is_empty:
        reason = "the query has no text"
    else:
        return None
    return WhyNot(document_id=name.id, reason=reason, results=results, **details)


async def examine(search: Search, scored: Scored, narrow: View, *, results: Results) -> WhyNot:
    """Score the document, which is all that `narrow` sees, as the search scored the others."""
    prefs, document_id = search.request.preferences, search.request.document_id
    if scored.plan.excluded is not None:
        narrow = await narrow.excluding(scored.plan.excluded)
    recall = Recall(narrow, scored.plan.legs, prefs, search.diagnostics)
    alone = await recall.candidates(depth=search.depth)
    if not len(alone.keys):
        reason = "no leg finds anything in it: it has no chunk that the query and filter allow"
        return WhyNot(document_id=document_id, reason=reason, results=results)
    together = _together(scored.recall_candidates, alone)
    fused = await search.boosted(
        search.fuse(together, scored.plan), together.keys, scored.recall.view
    )
    own = np.searchsorted(together.keys, alone.keys)
    best = int(own[np.argmax(fused.scores[own])])
    rank = 1 + int(np.count_nonzero(fused.scores > fused.scores[best]))
    scores = ScoreBreakdown(**breakdown_fields(best, together, fused))
    return WhyNot(
        document_id=document_id,
        reason=_reason(scored.recall_candidates, scores, rank, results, prefs),
        rank=rank,
        breakdown=scores,
        results=results,
    )


def _together(candidates: Candidates, alone: Candidates) -> Candidates:
    """All candidates and the document's chunks; ranks are those of the full search."""
    keys: ChunkKeys = np.union1d(candidates.keys, alone.keys)
    theirs = np.searchsorted(keys, candidates.keys)
    own = np.searchsorted(keys, alone.keys)
    legs: dict[Leg, LegScores] = {}
    for leg, leg_scores in candidates.legs.items():
        scores, ranks = np.full(len(keys), np.nan), np.zeros(len(keys), np.int64)
        if leg in alone.legs:
            scores[own] = alone.legs[leg].scores
        scores[theirs], ranks[theirs] = leg_scores.scores, leg_scores.ranks
        legs[leg] = LegScores(scores, ranks)
    return Candidates(keys, legs, candidates.depth)


def _reason(
    candidates: Candidates, sums: ScoreBreakdown, rank: int, results: Results, prefs: RetrievalPrefs
) -> str:
    score = (sums.boosted or sums.fused_score) or 0.0
    parts = [f"its best passage scores {score:.4f}, which would be rank {rank}"]
    least = max(prefs.min_score, prefs.scoring.min_score or 0.0)
    if score < least:
        parts.append(f"the least score asked for is {least:g}")
    elif len(results) >= prefs.top_k:
        parts.append(f"the last of the {len(results)} results has {results[-1].score:.4f}")
    elif rank <= prefs.top_k:
        parts.append("a later stage (chunking, reranker, parents, diversity) left it out")
    for leg, listed in candidates.legs.items():
        in_list, own = listed.scores[listed.ranks > 0], sums.legs().get(leg)
        if own is not None and own.rank:
            continue
        if not len(in_list):
            parts.append(f"{leg} found nothing at all")
        elif own is None:
            parts.append(f"{leg} does not find it")
        else:
            last = f"the last in its list {in_list.min():.4f}"
            parts.append(f"{leg} gives it {own.score:.4f}, and {last}")
    return "; ".join(parts)
