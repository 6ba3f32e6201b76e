"""Rerankers behind an HTTP API: POST {base_url}/rerank, as Cohere, Jina, vLLM and TEI offer it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import AliasChoices, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from lagotto.concurrency import run_all
from lagotto.documents import in_context, storable
from lagotto.errors import ConfigError, RerankError
from lagotto.models.http import JsonService, RetryPolicy
from lagotto.rerankers.base import UNIT, Candidate, Judgement, ScoreScale, Verdict

CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a service wants to be asked: the name of its list of texts, and how many it takes."""

    texts: str
    most: int
    extra: Mapping[str, object]

    def payload(self, model: str, query: str, texts: list[str]) -> dict[str, object]:
        """The body of a request."""
        return {
            "model": model,
            "query": query,
            self.texts: texts,
            "top_n": len(texts),
            **self.extra,
        }


COMMON = Dialect(texts="documents", most=100, extra={})
TEI = Dialect(texts="texts", most=32, extra={"truncate": True})
"""Text Embeddings Inference: as installed it refuses longer lists, and texts that are too long."""


class ApiReranker:
    """Asks a rerank service about each passage, under the title of its document.

    `scale` says what the service's numbers mean: relevance from 0 to 1, or LOGIT. A service that
    is busy or slow is asked again, as `retry` says; one that speaks TEI's dialect is
    recognised by its first answer. Whatever it answers is checked.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str | None = None,
        scale: ScoreScale = UNIT,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.model = model
        self._scale = scale
        self._dialect = COMMON
        self._service = JsonService(
            base_url,
            api_key=api_key,
            retry=retry or RetryPolicy(),
            connections=CONNECTIONS,
            failure=RerankError,
        )

    @property
    def id(self) -> str:
        """Model and address: the same model name may stand for another model elsewhere."""
        return f"api:{self.model}@{self._service.address}"

    @property
    def scale(self) -> ScoreScale:
        """What the scores mean."""
        return self._scale

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The service's score of each candidate."""
        texts = [storable(in_context(one.title, one.text)) for one in candidates]
        dialect = self._dialect
        try:
            scores = await self._scores(storable(query), texts, dialect)
        except RerankError as problem:
            if dialect is TEI or not _wants_texts(problem):
                raise
            scores = await self._scores(storable(query), texts, TEI)
            self._dialect = TEI
        return Judgement([Verdict(score) for score in scores])

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    async def _scores(self, query: str, texts: list[str], dialect: Dialect) -> list[float]:
        scores = [0.0] * len(texts)

        async def request(batch: slice) -> None:
            payload = dialect.payload(self.model, query, texts[batch])
            answer = await self._service.post("/rerank", payload)
            scores[batch] = read_scores(
                answer, count=len(texts[batch]), scale=self._scale, model=self.model
            )

        await run_all(_batches(len(texts), dialect.most), request, workers=CONNECTIONS)
        return scores


def _batches(count: int, most: int) -> Iterator[slice]:
    for start in range(0, count, most):
        yield slice(start, min(start + most, count))


def _wants_texts(problem: RerankError) -> bool:
    return problem.status in (400, 422) and "texts" in str(problem)


def from_name(model: str) -> ApiReranker:
    """`api:MODEL`, at LAGOTTO_RERANK_URL and with LAGOTTO_RERANK_KEY."""
    base_url = os.environ.get("LAGOTTO_RERANK_URL")
    if not model:
        raise ConfigError("api needs the name of a model, as in api:rerank-v3.5")
    if not base_url:
        raise ConfigError(
            f"api:{model} needs the address of a service: set LAGOTTO_RERANK_URL to all that "
            "stands before /rerank, as in http://localhost:8080"
        )
    return ApiReranker(base_url, model=model, api_key=os.environ.get("LAGOTTO_RERANK_KEY"))


ROUNDING = 1e-3
"""How far beyond its scale a score may lie and still be put down to rounding."""


class _Item(BaseModel):
    index: int = Field(strict=True)
    score: FiniteFloat = Field(validation_alias=AliasChoices("relevance_score", "score"))


_ITEMS = TypeAdapter(list[_Item])


def read_scores(answer: object, *, count: int, scale: ScoreScale, model: str) -> list[float]:
    """The scores in `answer`, in the order of their indexes.

    The list stands under `results`, under `data`, or alone. RerankError unless there is exactly
    one score for each of `count` texts, all finite and on the scale.
    """
    found = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    try:
        items = _ITEMS.validate_python(found)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise RerankError(
            f"the answer of {model} is no list of scores ({place}: {first['msg']}): "
            f"{json.dumps(answer)[:200]}"
        ) from exc
    by_index = {item.index: item.score for item in items}
    if len(items) != count or set(by_index) != set(range(count)):
        raise RerankError(
            f"{model} was sent {count} texts and answered with {len(items)} scores of the indexes "
            f"{sorted(item.index for item in items)[:20]}"
        )
    return [_on_scale(by_index[index], scale, model) for index in range(count)]


def _on_scale(score: float, scale: ScoreScale, model: str) -> float:
    if scale.logit:
        return score
    if not scale.low - ROUNDING <= score <= scale.high + ROUNDING:
        raise RerankError(
            f"{model} gave the score {score:g}, but its scale is declared to go from "
            f"{scale.low:g} to {scale.high:g}; if its numbers are log-odds, set scale to LOGIT"
        )
    return min(scale.high, max(scale.low, score))
