"""A reranker's opinion mixed with the fused score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lagotto.errors import ConfigError
from lagotto.rerankers.base import UNIT, Candidate, Judgement, Reranker, Scale, Verdict


class BlendedReranker:
    """`weight` times what `inner` says, the rest is the fused score; both on [0, 1].

    What `inner` takes out stays out.
    """

    reads_only_text = False

    def __init__(self, inner: Reranker, *, weight: float = 0.5) -> None:
        if not 0 <= weight <= 1:
            raise ConfigError(f"weight is {weight}, but must lie between 0 and 1")
        self.inner = inner
        self.weight = weight

    @property
    def id(self) -> str:
        """The inner one and its weight."""
        return f"blended({self.inner.id}, {self.weight!r})"

    @property
    def scale(self) -> Scale:
        """That of fused scores."""
        return UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The mixed score of each candidate."""
        judgement = await self.inner.rerank(query, candidates)
        if judgement.verdicts is None:
            return judgement
        blended = [
            verdict and self._blended(verdict, candidate)
            for verdict, candidate in zip(judgement.verdicts, candidates, strict=True)
        ]
        return Judgement(blended, judgement.notes)

    async def close(self) -> None:
        """Close the inner one."""
        await self.inner.close()

    def _blended(self, verdict: Verdict, candidate: Candidate) -> Verdict:
        unit = self.inner.scale.unit(verdict.score)
        return replace(verdict, score=self.weight * unit + (1 - self.weight) * candidate.score)
