"""A reranker's verdicts as plain records, for traces and for people."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from lagotto.documents import Record
from lagotto.rerankers.base import Candidate, Judgement, Scale


class RerankResult(Record):
    """What a reranker said of a chunk; `key_evidence` is a quotation of it.

    `answerability` and `key_evidence` are None where the reranker doesn't speak of them.
    """

    chunk_id: str
    relevance_score: float = Field(ge=0, le=100)
    answerability: bool | None = None
    key_evidence: str | None = None


def rerank_results(
    candidates: Sequence[Candidate], judgement: Judgement, *, scale: Scale
) -> list[RerankResult]:
    """The verdicts, best first, on a scale from 0 to 100; candidates taken out are not among them.

    A judgement without verdicts gives none.
    """
    results = [
        RerankResult(
            chunk_id=candidate.id,
            relevance_score=100 * scale.unit(verdict.score),
            answerability=verdict.answerable,
            key_evidence=candidate.text[slice(*verdict.evidence)] if verdict.evidence else None,
        )
        for candidate, verdict in zip(candidates, judgement.verdicts or (), strict=False)
        if verdict is not None
    ]
    return sorted(results, key=lambda result: -result.relevance_score)
