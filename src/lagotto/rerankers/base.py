"""The reranker contract, the registry of rerankers, and their results as plain records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import Field

from lagotto._internal.registry import Registry
from lagotto.documents import Record, Span
from lagotto.errors import ConfigError
from lagotto.results import Leg, LegScore

CROSS_ENCODERS = (
    "ms-marco-minilm-l12", "ms-marco-minilm-l6", "ms-marco-minilm-l6-int8", "mmarco-minilm",
    "mmarco-minilm-int8", "bge-reranker-base", "bge-reranker-base-int8",
)  # fmt: skip
"""Known models, which have to be fetched before they can be used."""

RERANKERS: Registry[RerankerFactory | WithEmbedder] = Registry(
    "reranker",
    group="lagotto.rerankers",
    builtin={
        **dict.fromkeys(CROSS_ENCODERS, "lagotto.rerankers.cross_encoder:MODELS"),
        "auto": "lagotto.rerankers.cross_encoder:auto",
        "cached": "lagotto.rerankers.wrappers:from_name",
        "score": "lagotto.rerankers.lexical:threshold",
        "overlap": "lagotto.rerankers.lexical:overlap",
        "overlap-idf": "lagotto.rerankers.lexical:overlap_idf",
        "lexical": "lagotto.rerankers.lexical:lexical",
        "maxsim": "lagotto.rerankers.lexical:maxsim",
        "cross-encoder": "lagotto.rerankers.cross_encoder:from_name",
        "api": "lagotto.rerankers.api:from_name",
        "llm": "lagotto.rerankers.llm:from_name",
        "llm-score": "lagotto.rerankers.llm:from_score_name",
    },
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage to rerank; `score` is its fused score in [0, 1], `context` that of its chunk."""

    id: str
    text: str
    score: float
    title: str | None = None
    heading_path: tuple[str, ...] = ()
    context: str = ""
    language: str | None = None
    legs: Mapping[Leg, LegScore] = field(default_factory=dict)


class ScoreScale(Record):
    """The meaning of a reranker's scores: a range, or log-odds of relevance (`logit`).

    With `order_only` they decide the order, and hits keep the score that they had. With `blended`
    they are mixed with the fused scores, see `blend`.
    """

    low: float = 0.0
    high: float = 1.0
    logit: bool = False
    order_only: bool = False
    blended: bool = False

    def unit(self, score: float) -> float:
        """Convert `score` to [0, 1]."""
        if self.logit:
            return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


UNIT = ScoreScale()
LOGIT = ScoreScale(logit=True)
BLENDED = ScoreScale(logit=True, blended=True)

SHARE, LONG_SHARE = 0.5, 0.2
SHORT_QUERY, LONG_QUERY = 15, 40
"""The share of a cross-encoder in the blend: of queries with up to so many words, and with so many
or more; between them it falls linearly. These models learned from short questions."""


def blend_share(query: str) -> float:
    beyond = (len(query.split()) - SHORT_QUERY) / (LONG_QUERY - SHORT_QUERY)
    return SHARE + (LONG_SHARE - SHARE) * min(1.0, max(0.0, beyond))


def mapped(scores: Sequence[float], fused: Sequence[float]) -> list[float]:
    """`scores` stretched to the range of the fused ones; the fused ones if all are equal.

    So the level of the fused scores stays: they say how well anything matches at all, and a
    cross-encoder only which of the candidates matches best.
    """
    least, most = min(scores), max(scores)
    low, high = min(fused), max(fused)
    if most - least <= 0:
        return list(fused)
    return [low + (high - low) * (score - least) / (most - least) for score in scores]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a candidate: its score on the reranker's own scale, the span it quotes."""

    score: float
    answerable: bool | None = None
    evidence: Span | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict per candidate, in order; None in place of a verdict drops the candidate.

    `verdicts=None` keeps the fused order. `notes` report what failed on the way. `unjudged` are the
    indices of candidates for which there was no time; they are kept, though their verdict is None.
    """

    verdicts: Sequence[Verdict | None] | None
    notes: tuple[str, ...] = ()
    unjudged: frozenset[int] = frozenset()


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Let `in_time` of the rerankers inside end after `seconds`."""
    token = _deadline.set(math.inf if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def in_time(items: Iterable[Item]) -> Iterator[Item]:
    """The items, until the time limit of the search has passed."""
    return takewhile(lambda _: time.monotonic() < _deadline.get(), items)


@runtime_checkable
class Reranker(Protocol):
    """Judges how well passages answer a query.

    Contract: one verdict per candidate, in order; scores are finite and on the declared scale; the
    same input gives the same verdicts; no candidates give no verdicts and cause no request. `id`
    and `scale` never change. Several calls may run concurrently, and none of them blocks the event
    loop. Failures are RerankErrors.

    A reranker of a service may also have `rerank_top(query, candidates, top_n=...)`, to tell the
    service how many passages at most it is asked to judge. One that takes its work from `in_time`
    and reports what it did not reach as `unjudged` has `stops_in_time = True`; with a time limit,
    others are cancelled.
    """

    @property
    def id(self) -> str:
        """Everything that verdicts depend on: name, model, prompt version, parameters.

        Two rerankers with the same id give the same verdicts.
        """

    @property
    def scale(self) -> ScoreScale:
        """The meaning of the scores."""

    @property
    def reads_only_text(self) -> bool:
        """Whether a verdict depends only on the query and on what the candidate says.

        That is its title, headings, text and language: not its scores, and not the other
        candidates. Only such verdicts can be cached.
        """

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Return a verdict for each candidate."""

    async def close(self) -> None:
        """Free memory, threads and connections; closing twice is allowed."""


def stops_in_time(reranker: Reranker) -> bool:
    """Whether it ends by itself when its time is over."""
    return bool(getattr(reranker, "stops_in_time", False))


RerankerFactory = Callable[[str], Reranker]
"""Creates a reranker from the part of its name after the colon, or from an empty string."""


@dataclass(frozen=True, slots=True)
class WithEmbedder:
    """A factory of rerankers that need the embedder of the knowledge base."""

    make: Callable[[str, object], Reranker]


def create_reranker(spec: str | Reranker, *, embedder: object = None) -> Reranker:
    """Create the reranker called `spec`; a reranker is returned unchanged.

    Names: `ms-marco-minilm-l12` and other known cross-encoders that were fetched, `auto` for one of
    these, `score:MIN`, `overlap`, `overlap:literal`, `overlap-idf`, `lexical`, `maxsim`,
    `cross-encoder:FOLDER`, `api:MODEL`, `llm:MODEL`, `llm-score:MODEL`, `cached:NAME` for one of
    these with a cache in memory, and those that other packages register. Some take settings behind
    a question mark, such as `api:MODEL?scale=logit`. `maxsim` uses `embedder`, the embedder of the
    knowledge base.
    """
    if not isinstance(spec, str):
        return spec
    name, _, rest = spec.partition(":")
    name, mark, settings = name.partition("?")
    factory = RERANKERS.get(name)
    rest = mark + settings or rest
    return factory.make(rest, embedder) if isinstance(factory, WithEmbedder) else factory(rest)


def refuse_parameters(name: str, parameters: str) -> None:
    """Raise ConfigError if a reranker that has no parameters is given some."""
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
