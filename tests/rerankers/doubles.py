"""Rerankers that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lagotto.errors import RerankError
from lagotto.rerankers import UNIT, Candidate, Judgement, ScoreScale, Verdict


def by_length(query: str, candidate: Candidate) -> Verdict | None:
    """The share of a thousand characters that a text has."""
    return Verdict(min(1.0, len(candidate.text) / 1000))


@dataclass(slots=True)
class Scripted:
    """Judges by a rule, counts what it is asked, and fails or notes something on command."""

    rule: Callable[[str, Candidate], Verdict | None] = by_length
    id: str = "scripted"
    scale: ScoreScale = UNIT
    failure: str | None = None
    notes: tuple[str, ...] = ()
    reads_only_text: bool = True
    silent: bool = False
    calls: list[list[str]] = field(default_factory=list)
    closed: int = 0

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """What the rule says."""
        self.calls.append([one.id for one in candidates])
        if self.failure:
            raise RerankError(self.failure)
        verdicts = None if self.silent else [self.rule(query, one) for one in candidates]
        return Judgement(verdicts, self.notes)

    async def close(self) -> None:
        """Count it."""
        self.closed += 1


def scores(judgement: Judgement) -> list[float | None]:
    """The scores of a judgement that has verdicts."""
    assert judgement.verdicts is not None
    return [None if verdict is None else verdict.score for verdict in judgement.verdicts]
