"""Reranking only where it may change something: where the fused order is uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from lagotto.errors import ConfigError
from lagotto.rerankers.base import Candidate, Judgement, Reranker, Scale


class GatedReranker:
    """Asks `inner` unless the best fused score leads the one in place `rank` by `margin` or more.

    Where the lead is that clear the fused order stands, and `inner` costs nothing.
    """

    reads_only_text = False

    def __init__(self, inner: Reranker, *, margin: float = 0.1, rank: int = 2) -> None:
        if not 0 < margin <= 1:
            raise ConfigError(f"margin is {margin}, but must be above 0 and at most 1")
        if rank < 2:
            raise ConfigError(f"rank is {rank}, but the first can only lead one from rank 2 on")
        self.inner = inner
        self.margin = margin
        self.rank = rank

    @property
    def id(self) -> str:
        """The inner one and what is needed to ask it."""
        return f"gated({self.inner.id}, {self.margin!r}, {self.rank})"

    @property
    def scale(self) -> Scale:
        """As `inner` has it."""
        return self.inner.scale

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """What `inner` says, or no verdicts where the order is clear."""
        best = nlargest(self.rank, (one.score for one in candidates))
        if best and best[0] - best[-1] >= self.margin:
            return Judgement(None)
        return await self.inner.rerank(query, candidates)

    async def close(self) -> None:
        """Close the inner one."""
        await self.inner.close()
