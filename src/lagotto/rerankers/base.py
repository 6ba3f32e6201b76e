"""What a reranker is: a query and candidates in, a judgement of each candidate out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from lagotto.documents import Record, Span
from lagotto.results import Leg, LegScore


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage as a reranker sees it; `score` is the fused one, in [0, 1]."""

    id: str
    text: str
    score: float
    title: str | None = None
    heading_path: tuple[str, ...] = ()
    language: str | None = None
    legs: Mapping[Leg, LegScore] = field(default_factory=dict)


class Scale(Record):
    """What a reranker's numbers mean: a range, or the log-odds of being relevant."""

    low: float = 0.0
    high: float = 1.0
    logit: bool = False

    def unit(self, score: float) -> float:
        """`score` on the scale from 0 to 1."""
        if self.logit:
            return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


UNIT = Scale()
LOGIT = Scale(logit=True)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reranker says of one candidate; `score` is on the reranker's own scale.

    `evidence` is where in the candidate's text the answer stands, if the reranker quotes it.
    """

    score: float
    answerable: bool | None = None
    evidence: Span | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict for each candidate, in their order; None takes a candidate out.

    No verdicts at all leave the order as it was. `notes` say what did not work on the way.
    """

    verdicts: Sequence[Verdict | None] | None
    notes: tuple[str, ...] = ()


@runtime_checkable
class Reranker(Protocol):
    """Judges how well passages answer a query.

    Contract: one verdict per candidate, in order; scores are finite and on the declared scale;
    a verdict depends on the query and the candidate's text and title only, unless an attribute
    `reads_only_text` says False; no candidates give no verdicts and cause no call. Several calls
    may run at once, and the event loop stays free meanwhile. Failures are RerankErrors. `id`
    names everything that verdicts depend on (model, prompt version, parameters): two rerankers of
    one id judge alike.
    """

    @property
    def id(self) -> str:
        """Name, model and parameters."""
        ...

    @property
    def scale(self) -> Scale:
        """What the scores mean."""
        ...

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """A verdict for each candidate."""
        ...

    async def close(self) -> None:
        """Free memory, threads and connections; may be called twice."""
        ...
