"""A threshold on the fused score."""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.errors import ConfigError
from lagotto.rerankers.base import UNIT, Candidate, Judgement, ScoreScale, Verdict


class ScoreReranker:
    """Drops candidates with a fused score below `minimum`; uses no model."""

    reads_only_text = False

    def __init__(self, minimum: float) -> None:
        if not 0 <= minimum <= 1:
            raise ConfigError(
                f"score:{minimum:g} is out of range; fused scores are between 0 and 1"
            )
        self.minimum = minimum

    @property
    def id(self) -> str:
        """The name with the minimum."""
        return f"score:{self.minimum!r}"

    @property
    def scale(self) -> ScoreScale:
        """[0, 1], as fused scores have it."""
        return UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Return the fused score of each candidate that reaches the minimum."""
        return Judgement(
            [Verdict(one.score) if one.score >= self.minimum else None for one in candidates]
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""


def from_name(minimum: str) -> ScoreReranker:
    """Create `score:MIN`, as in `score:0.1`."""
    try:
        return ScoreReranker(float(minimum))
    except ValueError as exc:  # ConfigErrors are ValueErrors as well
        if isinstance(exc, ConfigError):
            raise
        raise ConfigError(
            f'score needs a number from 0 to 1, got "{minimum}"; write score:0.1'
        ) from exc
