"""The reranking stage: candidates in, judged and sorted ones out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lagotto.errors import RerankError
from lagotto.prefs import RerankPrefs
from lagotto.rerankers.base import Candidate, Judgement, Reranker, Verdict
from lagotto.results import LegScore
from lagotto.retrieval.diagnostics import Diagnostics, raise_unless
from lagotto.retrieval.fusion import Candidates
from lagotto.retrieval.ranking import Ranked


async def rerank(
    reranker: Reranker,
    query: str,
    ranked: Sequence[Ranked],
    candidates: Candidates,
    *,
    prefs: RerankPrefs,
    diagnostics: Diagnostics,
) -> list[Ranked]:
    """All hits that it judges, in the reranker's order; in their own, and noted, if it fails."""
    seen = [_candidate(item, candidates, prefs.max_text_chars) for item in ranked]
    try:
        judgement = await reranker.rerank(query, seen)
        verdicts = _checked(reranker, judgement, len(seen))
    except Exception as exc:  # noqa: BLE001 a reranker of another package may raise anything
        raise_unless(RerankError, exc)
        diagnostics.note("reranker", f"failed, the fused order stands ({exc})", cause=exc)
        return list(ranked)
    for note in judgement.notes:
        diagnostics.note("reranker", note)
    if verdicts is None:
        return list(ranked)
    judged = [
        _judged(item, verdict, reranker)
        for item, verdict in zip(ranked, verdicts, strict=True)
        if verdict is not None
    ]
    judged.sort(key=lambda item: -verdict_score(item))  # stable: equal ones keep the fused order
    return judged


def verdict_score(item: Ranked) -> float:
    """The reranker's score of a hit in [0, 1], or its fused score without a verdict."""
    return item.score if item.rerank_score is None else item.rerank_score


def _candidate(item: Ranked, candidates: Candidates, max_chars: int | None) -> Candidate:
    chunk, document = item.passage.chunk, item.passage.document
    legs = {
        leg: LegScore(score=float(found.scores[item.row]), rank=int(found.ranks[item.row]) or None)
        for leg, found in candidates.legs.items()
    }
    return Candidate(
        id=chunk.id,
        text=(chunk.text or document.title or "")[:max_chars],
        score=item.score,
        title=document.title if chunk.text else None,
        heading_path=chunk.heading_path,
        language=document.language,
        legs=legs,
    )


def _checked(
    reranker: Reranker, judgement: Judgement, count: int
) -> Sequence[Verdict | None] | None:
    """The verdicts; RerankError if the reranker breaks its contract."""
    verdicts = judgement.verdicts
    if verdicts is None:
        return None
    if len(verdicts) != count:
        raise RerankError(f"{reranker.id} gave {len(verdicts)} verdicts for {count} passages")
    if not all(math.isfinite(verdict.score) for verdict in verdicts if verdict is not None):
        raise RerankError(f"{reranker.id} gave a score that is not a finite number")
    return verdicts


def _judged(item: Ranked, verdict: Verdict, reranker: Reranker) -> Ranked:
    scale = reranker.scale
    score = scale.unit(verdict.score)
    return replace(
        item,
        score=item.score if scale.order_only else score,
        rerank=verdict.score,
        rerank_score=score,
        answerable=verdict.answerable,
        evidence=verdict.evidence,
    )
