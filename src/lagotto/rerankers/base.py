"""The reranker contract, the registry of rerankers, and their results as plain records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import Field

from lagotto.documents import Record, Span
from lagotto.errors import ConfigError
from lagotto.registry import Registry
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


class ScoreScale(Record):
    """What a reranker's numbers mean: a range, or the log-odds of being relevant."""

    low: float = 0.0
    high: float = 1.0
    logit: bool = False

    def unit(self, score: float) -> float:
        """`score` on the scale from 0 to 1."""
        if self.logit:
            return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


UNIT = ScoreScale()
LOGIT = ScoreScale(logit=True)


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
    def scale(self) -> ScoreScale:
        """What the scores mean."""
        ...

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """A verdict for each candidate."""
        ...

    async def close(self) -> None:
        """Free memory, threads and connections; may be called twice."""
        ...


RerankerFactory = Callable[[str], Reranker]
"""Makes a reranker from what stands behind the colon of its name, or from an empty string."""


@dataclass(frozen=True, slots=True)
class WithEmbedder:
    """A factory of rerankers that use the base's embedder."""

    make: Callable[[str, object], Reranker]


RERANKERS: Registry[RerankerFactory | WithEmbedder] = Registry(
    "reranker",
    group="lagotto.rerankers",
    builtin={
        "score": "lagotto.rerankers.score:from_name",
        "overlap": "lagotto.rerankers.overlap:overlap",
        "overlap-idf": "lagotto.rerankers.overlap:overlap_idf",
        "lexical": "lagotto.rerankers.lexical:from_name",
        "maxsim": "lagotto.rerankers.maxsim:from_name",
        "cross-encoder": "lagotto.rerankers.cross_encoder:from_name",
        "api": "lagotto.rerankers.api:from_name",
        "llm": "lagotto.rerankers.llm:from_name",
        "llm-score": "lagotto.rerankers.llm:from_score_name",
    },
)


def create_reranker(spec: str | Reranker, *, embedder: object = None) -> Reranker:
    """The reranker that `spec` names, or `spec` itself if it is one.

    `score:MIN`, `overlap`, `overlap-idf`, `lexical`, `maxsim`, `cross-encoder:FOLDER`,
    `api:MODEL`, `llm:MODEL`, `llm-score:MODEL`, or a name that another package has registered.
    `embedder` is the base's; `maxsim` is the one that needs it.
    """
    if not isinstance(spec, str):
        return spec
    name, _, rest = spec.partition(":")
    factory = RERANKERS.get(name)
    return factory.make(rest, embedder) if isinstance(factory, WithEmbedder) else factory(rest)


def refuse_parameters(name: str, parameters: str) -> None:
    """Raise ConfigError if a reranker that has no parameters was given some."""
    if parameters:
        raise ConfigError(f'{name} takes no parameters, got "{parameters}"; write {name}')


class RerankResult(Record):
    """What a reranker said of a chunk; `key_evidence` is a quotation of it.

    `answerability` and `key_evidence` are None where the reranker doesn't speak of them.
    """

    chunk_id: str
    relevance_score: float = Field(ge=0, le=100)
    answerability: bool | None = None
    key_evidence: str | None = None


def rerank_results(
    candidates: Sequence[Candidate], judgement: Judgement, *, scale: ScoreScale
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
