"""Why a document is not among the results: what each leg says of it, and where that falls short."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lagotto.documents import Document, Record
from lagotto.filters import matches
from lagotto.indexes.base import ChunkKeys
from lagotto.prefs import RetrievalPrefs
from lagotto.results import Leg, RetrievalResult, ScoreBreakdown
from lagotto.retrieval.explanation import leg_scores
from lagotto.retrieval.fusion import Candidates, LegScores
from lagotto.retrieval.pipeline import Found, Search
from lagotto.retrieval.recall import Recall
from lagotto.stores.base import View


class WhyNot(Record):
    """Why a document did not make it; `place` is where it would be in a long enough list.

    `breakdown` is that of its best chunk.
    """

    document_id: str
    reason: str
    place: int | None = None
    breakdown: ScoreBreakdown | None = None

    def __str__(self) -> str:
        return f"{self.document_id}: {self.reason}"


def known_reason(
    results: Sequence[RetrievalResult],
    document: Document | None,
    prefs: RetrievalPrefs,
    name: tuple[str, str],
) -> WhyNot | None:
    """What can be said without a search."""
    collection, document_id = name
    if document is None:
        reason = f"there is no document of that id in the collection {collection!r}"
        return WhyNot(document_id=document_id, reason=reason)
    for hit in results:
        if (hit.collection, hit.document_id) == name:
            return WhyNot(
                document_id=document_id,
                reason=f"it is there, at place {hit.rank}",
                place=hit.rank,
                breakdown=hit.breakdown,
            )
    if prefs.collection not in (None, collection):
        reason = f"the search is in the collection {prefs.collection!r}, it is in {collection!r}"
        return WhyNot(document_id=document_id, reason=reason)
    if not matches(prefs.filters, document):
        return WhyNot(document_id=document_id, reason=f"the filter {prefs.filters!r} leaves it out")
    return None


async def examine(
    search: Search,
    narrow: View,
    prefs: RetrievalPrefs,
    results: Sequence[RetrievalResult],
    document_id: str,
) -> WhyNot:
    """What the legs say of the document, which is all that `narrow` sees."""
    found = await search.find(depth=search.depth)
    if found.analysis.excluded is not None:
        narrow = await narrow.excluding(found.analysis.excluded)
    alone = await Recall(narrow, found.analysis.legs, prefs).candidates(
        depth=search.depth, degradation=search.degradation
    )
    if not len(alone.keys):
        reason = "no leg finds anything in it: it has no chunk that the query and filter allow"
        return WhyNot(document_id=document_id, reason=reason)
    together = _together(found, alone)
    fused = search.fused(together, found.analysis.weights)
    own = np.searchsorted(together.keys, alone.keys)
    best = int(own[np.argmax(fused.scores[own])])
    place = 1 + int(np.count_nonzero(fused.scores > fused.scores[best]))
    breakdown = ScoreBreakdown(
        **leg_scores(best, together, fused),
        fused=float(fused.raw[best]),
        fused_score=float(fused.scores[best]),
    )
    reason = _reason(found, breakdown, place, results, prefs)
    return WhyNot(document_id=document_id, reason=reason, place=place, breakdown=breakdown)


def _together(found: Found, alone: Candidates) -> Candidates:
    """All candidates and the document's chunks; ranks are those of the full search."""
    keys: ChunkKeys = np.union1d(found.candidates.keys, alone.keys)
    theirs = np.searchsorted(keys, found.candidates.keys)
    own = np.searchsorted(keys, alone.keys)
    legs: dict[Leg, LegScores] = {}
    for leg, said in found.candidates.legs.items():
        scores, ranks = np.zeros(len(keys)), np.zeros(len(keys), np.int64)
        if leg in alone.legs:
            scores[own] = alone.legs[leg].scores
        scores[theirs], ranks[theirs] = said.scores, said.ranks
        legs[leg] = LegScores(scores, ranks)
    return Candidates(keys, legs)


def _reason(
    found: Found,
    breakdown: ScoreBreakdown,
    place: int,
    results: Sequence[RetrievalResult],
    prefs: RetrievalPrefs,
) -> str:
    score = breakdown.fused_score or 0.0
    missed = [
        _missed(leg, found, said.score) for leg, said in breakdown.legs().items() if not said.rank
    ]
    parts = [f"its best passage scores {score:.4f}, which would be place {place}"]
    least = max(prefs.min_score, prefs.scoring.min_score or 0.0)
    if score < least:
        parts.append(f"the least score asked for is {least:g}")
    elif len(results) >= prefs.top_k:
        parts.append(f"the last of the {len(results)} results has {results[-1].score:.4f}")
    elif prefs.rerank.enabled and breakdown.rerank is None and place <= prefs.top_k:
        parts.append("a later stage (reranker, parents, diversity) left it out")
    return "; ".join((*parts, *missed))


def _missed(leg: Leg, found: Found, score: float) -> str:
    listed = found.candidates.legs[leg]
    in_list = listed.scores[listed.ranks > 0]
    if not len(in_list):
        return f"{leg} found nothing at all"
    return f"{leg} gives it {score:.4f}, and the last in its list {in_list.min():.4f}"
