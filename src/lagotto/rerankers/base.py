"""The reranker contract, the registry of rerankers, and their results as plain records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import Field

from lagotto._internal.registry import Registry
from lagotto.documents import Record, Span
from lagotto.errors import ConfigError
from lagotto.results import Leg, LegScore

RERANKERS: Registry[RerankerFactory | WithEmbedder] = Registry(
    "reranker",
    group="lagotto.rerankers",
    builtin={
        "cached": "lagotto.rerankers.wrappers:from_name",
        "score": "lagotto.rerankers.lexical:threshold_from_name",
        "overlap": "lagotto.rerankers.lexical:overlap",
        "overlap-idf": "lagotto.rerankers.lexical:overlap_idf",
        "lexical": "lagotto.rerankers.lexical:from_name",
        "maxsim": "lagotto.rerankers.maxsim:from_name",
        "cross-encoder": "lagotto.rerankers.cross_encoder:from_name",
        "api": "lagotto.rerankers.api:from_name",
        "llm": "lagotto.rerankers.llm:from_name",
        "llm-score": "lagotto.rerankers.llm:from_score_name",
    },
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage to rerank; `score` is its fused score in [0, 1]."""

    id: str
    text: str
    score: float
    title: str | None = None
    heading_path: tuple[str, ...] = ()
    language: str | None = None
    legs: Mapping[Leg, LegScore] = field(default_factory=dict)


class ScoreScale(Record):
    """The meaning of a reranker's scores: a range, or log-odds of relevance (`logit`).

    With `order_only` they decide the order, and hits keep the score that they had.
    """

    low: float = 0.0
    high: float = 1.0
    logit: bool = False
    order_only: bool = False

    def unit(self, score: float) -> float:
        """Convert `score` to [0, 1]."""
        if self.logit:
            return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


UNIT = ScoreScale()
LOGIT = ScoreScale(logit=True)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one candidate; `score` is on the reranker's own scale.

    `evidence` is the span of the candidate's text that the reranker quotes, if it quotes one.
    """

    score: float
    answerable: bool | None = None
    evidence: Span | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict per candidate, in order; None in place of a verdict drops the candidate.

    `verdicts=None` keeps the fused order. `notes` report what failed on the way.
    """

    verdicts: Sequence[Verdict | None] | None
    notes: tuple[str, ...] = ()


@runtime_checkable
class Reranker(Protocol):
    """Judges how well passages answer a query.

    Contract: one verdict per candidate, in order; scores are finite and on the declared scale; the
    same input gives the same verdicts; no candidates give no verdicts and cause no request. `id`
    and `scale` never change. Several calls may run concurrently, and none of them blocks the event
    loop. Failures are RerankErrors.

    A reranker of a service may also have `rerank_top(query, candidates, top_n=...)`, to tell the
    service how many passages at most it is asked to judge.
    """

    @property
    def id(self) -> str:
        """Everything that verdicts depend on: name, model, prompt version, parameters.

        Two rerankers with the same id give the same verdicts.
        """
        ...

    @property
    def scale(self) -> ScoreScale:
        """The meaning of the scores."""
        ...

    @property
    def reads_only_text(self) -> bool:
        """Whether a verdict depends only on the query and on what the candidate says.

        That is its title, headings, text and language: not its scores, and not the other
        candidates. Only such verdicts can be cached.
        """
        ...

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Return a verdict for each candidate."""
        ...

    async def close(self) -> None:
        """Free memory, threads and connections; closing twice is allowed."""
        ...


class LocalReranker:
    """A reranker without resources: closing it does nothing."""

    async def close(self) -> None: ...


RerankerFactory = Callable[[str], Reranker]
"""Creates a reranker from the part of its name after the colon, or from an empty string."""


@dataclass(frozen=True, slots=True)
class WithEmbedder:
    """A factory of rerankers that need the embedder of the knowledge base."""

    make: Callable[[str, object], Reranker]


def create_reranker(spec: str | Reranker, *, embedder: object = None) -> Reranker:
    """Create the reranker called `spec`; a reranker is returned unchanged.

    Names: `score:MIN`, `overlap`, `overlap:literal`, `overlap-idf`, `lexical`, `maxsim`,
    `cross-encoder:FOLDER`, `api:MODEL`, `llm:MODEL`, `llm-score:MODEL`, `cached:NAME` for one of
    these with a cache in memory, and those that other packages register. Some take settings behind
    a question mark, such as `api:MODEL?scale=logit`. `maxsim` uses `embedder`, the embedder of the
    knowledge base.
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
    """A reranker's verdict on one chunk; `key_evidence` is a quotation from the chunk.

    `answerability` and `key_evidence` are None if the reranker doesn't report them.
    """

    chunk_id: str
    relevance_score: float = Field(ge=0, le=100)
    answerability: bool | None = None
    key_evidence: str | None = None


def rerank_results(
    candidates: Sequence[Candidate], judgement: Judgement, *, scale: ScoreScale
) -> list[RerankResult]:
    """Convert verdicts to records, best first, with scores from 0 to 100.

    Dropped candidates are left out; a judgement without verdicts gives an empty list.
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
