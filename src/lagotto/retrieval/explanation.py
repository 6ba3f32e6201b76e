"""From a ranked passage to the record that a caller sees, with all that made its score."""

from __future__ import annotations

from lagotto.results import LegScore, RetrievalResult, ScoreBreakdown
from lagotto.retrieval.fusion import Candidates, Fused, LegScores, Part
from lagotto.retrieval.ranking import Ranked


def as_result(place: int, item: Ranked, candidates: Candidates, fused: Fused) -> RetrievalResult:
    """The hit at `place` of the list, counted from 1."""
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
        language=document.language,
        **dict(chunk.location),
        metadata=document.metadata,
        parent_id=chunk.parent_id,
        parent_content=item.parent.text if item.parent else None,
        section=item.section,
        child_id=item.child_id,
        answerable=item.answerable,
        evidence=item.evidence,
        breakdown=breakdown(item, candidates, fused),
    )


def breakdown(item: Ranked, candidates: Candidates, fused: Fused) -> ScoreBreakdown:
    """What each stage made of a hit."""
    return ScoreBreakdown(
        **leg_scores(item.place, candidates, fused),
        fused=float(fused.raw[item.place]),
        fused_score=float(fused.scores[item.place]),
        rerank=item.rerank,
        rerank_score=None if item.rerank is None else item.score,
    )


def leg_scores(place: int, candidates: Candidates, fused: Fused) -> dict[str, LegScore]:
    """What each leg said of the candidate at `place`, and what that made of its score."""
    return {
        leg: _leg_score(place, found, fused.parts.get(leg))
        for leg, found in candidates.legs.items()
    }


def _leg_score(place: int, found: LegScores, part: Part | None) -> LegScore:
    """A leg without weight has no part in the score."""
    score, rank = float(found.scores[place]), int(found.ranks[place]) or None
    if part is None:
        return LegScore(score=score, rank=rank)
    return LegScore(
        score=score,
        rank=rank,
        normalised=float(part.normalised[place]),
        weight=part.weight,
        contribution=float(part.contribution[place]),
    )
