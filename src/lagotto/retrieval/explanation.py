"""From a ranked passage to the record that a caller sees, with its score explained."""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.results import LegScore, RetrievalResult, ScoreBreakdown, ScoredCandidate
from lagotto.retrieval.fusion import Candidates, Fused, LegContribution, LegScores
from lagotto.retrieval.ranking import Ranked
from lagotto.stores.base import Passage


def as_result(rank: int, item: Ranked, candidates: Candidates, fused: Fused) -> RetrievalResult:
    """The hit of that rank in the list, counted from 1."""
    chunk, document = item.passage.chunk, item.passage.document
    return RetrievalResult(
        rank=rank,
        score=item.score,
        content=chunk.text,
        chunk_id=chunk.id,
        document_id=document.id,
        document_title=document.title,
        document_source=document.source,
        document_kind=document.kind,
        collection=document.collection,
        language=document.language,
        **item.location_fields,
        metadata=document.metadata,
        parent_id=chunk.parent_id,
        parent_content=item.parent.text if item.parent else None,
        section=item.section,
        child_id=item.child.id if item.child else None,
        answerable=item.answerable,
        evidence=item.evidence,
        breakdown=breakdown(item, candidates, fused),
    )


def breakdown(item: Ranked, candidates: Candidates, fused: Fused) -> ScoreBreakdown:
    """The score of every stage for a hit."""
    return ScoreBreakdown(
        **leg_scores(item.row, candidates, fused),
        fused=float(fused.raw[item.row]),
        fused_score=float(fused.scores[item.row]),
        fused_ends=fused.ends,
        rerank=item.rerank,
        rerank_score=item.rerank_score,
    )


def scored_candidates(
    passages: Sequence[Passage], candidates: Candidates, fused: Fused
) -> tuple[ScoredCandidate, ...]:
    """The candidates that `passages` are of, best first, with every leg's score for each."""
    rows = {int(key): row for row, key in enumerate(candidates.keys)}
    found = sorted(passages, key=lambda passage: -fused.scores[rows[passage.key]])
    return tuple(
        ScoredCandidate(
            collection=passage.document.collection,
            document_id=passage.document.id,
            chunk_id=passage.chunk.id,
            document_title=passage.document.title,
            document_source=passage.document.source,
            document_source_ref=passage.document.source_ref,
            document_kind=passage.document.kind,
            text=passage.chunk.text,
            **passage.chunk.location_fields(),
            breakdown=ScoreBreakdown(
                **leg_scores(row, candidates, fused),
                fused=float(fused.raw[row]),
                fused_score=float(fused.scores[row]),
                fused_ends=fused.ends,
            ),
        )
        for passage, row in ((item, rows[item.key]) for item in found)
    )


def leg_scores(row: int, candidates: Candidates, fused: Fused) -> dict[str, LegScore]:
    """Each leg's score for the candidate in `row`, and its contribution to the fused score."""
    return {
        leg: _leg_score(row, found, fused.parts.get(leg)) for leg, found in candidates.legs.items()
    }


def _leg_score(row: int, found: LegScores, part: LegContribution | None) -> LegScore:
    """A leg without weight contributes nothing."""
    score, rank = float(found.scores[row]), int(found.ranks[row]) or None
    if part is None:
        return LegScore(score=score, rank=rank)
    return LegScore(
        score=score,
        rank=rank,
        normalised=float(part.normalised[row]),
        weight=part.weight,
        contribution=float(part.contribution[row]),
        damping=part.damping,
    )
