"""The next reranker if one fails, and the fused order if all do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lagotto.errors import RerankError
from lagotto.rerankers.base import UNIT, Candidate, Judgement, Reranker, Scale


class FallbackReranker:
    """Asks `first`, and if that fails the others in turn; at last the fused order stands.

    Each failure is a note of the judgement. Scores keep the rerankers' scale if they all have the
    same one; otherwise they are brought to [0, 1].
    """

    def __init__(self, first: Reranker, *others: Reranker) -> None:
        self.rerankers = (first, *others)
        self.reads_only_text = all(
            getattr(reranker, "reads_only_text", True) for reranker in self.rerankers
        )

    @property
    def id(self) -> str:
        """All of them, in their order."""
        return f"fallback({', '.join(reranker.id for reranker in self.rerankers)})"

    @property
    def scale(self) -> Scale:
        """The shared one, or from 0 to 1."""
        scales = {reranker.scale for reranker in self.rerankers}
        return scales.pop() if len(scales) == 1 else UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """What the first reranker that works says, with notes on those that did not."""
        notes: list[str] = []
        for reranker in self.rerankers:
            try:
                judgement = await reranker.rerank(query, candidates)
            except RerankError as exc:
                notes.append(f"{reranker.id} failed ({exc})")
            else:
                return self._rescaled(judgement, reranker.scale, notes)
        return Judgement(None, (*notes, "no reranker worked, the fused order stands"))

    async def close(self) -> None:
        """Close all of them."""
        for reranker in self.rerankers:
            await reranker.close()

    def _rescaled(self, judgement: Judgement, scale: Scale, notes: Sequence[str]) -> Judgement:
        verdicts = judgement.verdicts
        if verdicts is not None and scale != self.scale:
            verdicts = [
                verdict and replace(verdict, score=scale.unit(verdict.score))
                for verdict in verdicts
            ]
        return Judgement(verdicts, (*notes, *judgement.notes))
