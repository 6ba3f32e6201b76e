"""A minimum for the fused score: what is below it goes, the rest stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.errors import ConfigError
from lagotto.rerankers.base import UNIT, Candidate, Judgement, ScoreScale, Verdict


class ScoreReranker:
    """Takes out candidates whose fused score is below `minimum`; no model, no call."""

    reads_only_text = False

    def __init__(self, minimum: float) -> None:
        if not 0 <= minimum <= 1:
            raise ConfigError(f"score:{minimum:g} can't be: fused scores lie between 0 and 1")
        self.minimum = minimum

    @property
    def id(self) -> str:
        """The minimum is all there is."""
        return f"score:{self.minimum!r}"

    @property
    def scale(self) -> ScoreScale:
        """That of fused scores."""
        return UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The fused score of each candidate that reaches the minimum."""
        return Judgement(
            [Verdict(one.score) if one.score >= self.minimum else None for one in candidates]
        )

    async def close(self) -> None:
        """Nothing to free."""


def from_name(minimum: str) -> ScoreReranker:
    """`score:MIN`, as in `score:0.1`."""
    try:
        return ScoreReranker(float(minimum))
    except ValueError as exc:  # ConfigErrors are ValueErrors as well
        if isinstance(exc, ConfigError):
            raise
        raise ConfigError(
            f"score:{minimum} is no minimum; give a number from 0 to 1, as in score:0.1"
        ) from exc
