"""Rerankers behind an HTTP API: POST {base_url}/rerank, as Cohere, Jina, vLLM and TEI offer it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import AliasChoices, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from lagotto._internal.concurrency import run_all
from lagotto._internal.registry import parse_settings
from lagotto.documents import Record, in_context, storable
from lagotto.errors import ConfigError, RerankError
from lagotto.models.http import JsonService, RetryPolicy
from lagotto.rerankers.base import (
    LOGIT,
    UNIT,
    Candidate,
    Judgement,
    ScoreScale,
    Verdict,
)

CONNECTIONS = 4
ROUNDING = 1e-3
"""Tolerance at the ends of a scale, for rounding errors of the service."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The request format of a service: the key for the texts, and how many it accepts."""

    texts: str
    max_texts: int
    extra: Mapping[str, object]

    def payload(self, model: str, query: str, texts: list[str], *, top_n: int) -> dict[str, object]:
        """The body of a request."""
        body = {"model": model, "query": query, self.texts: texts, "top_n": top_n}
        return {**body, **self.extra}


COMMON = Dialect(texts="documents", max_texts=100, extra={})
TEI = Dialect(texts="texts", max_texts=32, extra={"truncate": True})
"""Text Embeddings Inference: by default it rejects longer lists and texts that are too long."""


class ApiReranker:
    """Scores the text of each passage, with `title` under its document's title, with a service.

    `scale` is the scale of the service's scores: [0, 1], or LOGIT. Requests are retried as `retry`
    says. A service with the request format of TEI is recognised by its first answer. Every answer
    is validated; passages that it leaves out are dropped, and noted.
    """

    reads_only_text = True

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str | None = None,
        scale: ScoreScale = UNIT,
        title: bool = False,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.model = model
        self.scale = scale
        self._title = title
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
        """Model and address: another service may use the same name for another model."""
        return f"api:{self.model}@{self._service.address}{'?title=true' if self._title else ''}"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        return await self.rerank_top(query, candidates, top_n=len(candidates))

    async def rerank_top(
        self, query: str, candidates: Sequence[Candidate], *, top_n: int
    ) -> Judgement:
        """Return the service's score for each candidate; each request asks for `top_n` scores."""
        titles = [one.title if self._title else None for one in candidates]
        texts = [
            storable(in_context(title, one.text))
            for title, one in zip(titles, candidates, strict=True)
        ]
        dialect = self._dialect
        try:
            scores = await self._scores(storable(query), texts, dialect, top_n)
        except RerankError as problem:
            if dialect is TEI or not _wants_texts(problem):
                raise
            scores = await self._scores(storable(query), texts, TEI, top_n)
            self._dialect = TEI
        missing = scores.count(None)
        note = f"{self.model} left out {missing} of {len(texts)} passages, which are dropped"
        verdicts = [None if score is None else Verdict(score) for score in scores]
        return Judgement(verdicts, (note,) if missing else ())

    async def close(self) -> None:
        await self._service.close()

    async def _scores(
        self, query: str, texts: list[str], dialect: Dialect, top_n: int
    ) -> list[float | None]:
        scores: list[float | None] = [None] * len(texts)

        async def request(batch: slice) -> None:
            payload = dialect.payload(self.model, query, texts[batch], top_n=top_n)
            answer = await self._service.post("/rerank", payload)
            scores[batch] = read_scores(
                answer, count=len(texts[batch]), scale=self.scale, model=self.model
            )

        await run_all(_batches(len(texts), dialect.max_texts), request, workers=CONNECTIONS)
        return scores


def _batches(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _wants_texts(problem: RerankError) -> bool:
    return problem.status in (400, 422) and "texts" in str(problem)


class _NameSettings(Record):
    scale: Literal["unit", "logit"] = "unit"
    title: bool = False


def from_name(spec: str) -> ApiReranker:
    """Create `api:MODEL`, or `api:MODEL?scale=logit&title=true`.

    LAGOTTO_RERANK_URL and LAGOTTO_RERANK_KEY are the address and the key of the service.
    """
    model, settings = parse_settings("api", spec, _NameSettings)
    base_url = os.environ.get("LAGOTTO_RERANK_URL")
    if not model:
        raise ConfigError("missing model name; write api:MODEL, as in api:rerank-v3.5")
    if not base_url:
        raise ConfigError(
            f"api:{model} needs the URL of a service; set LAGOTTO_RERANK_URL to the part before "
            "/rerank, as in http://localhost:8080"
        )
    return ApiReranker(
        base_url,
        model=model,
        api_key=os.environ.get("LAGOTTO_RERANK_KEY"),
        scale=LOGIT if settings.scale == "logit" else UNIT,
        title=settings.title,
    )


class _Item(BaseModel):
    index: int = Field(strict=True)
    score: FiniteFloat = Field(validation_alias=AliasChoices("relevance_score", "score"))


_ITEMS = TypeAdapter(list[_Item])


def read_scores(answer: object, *, count: int, scale: ScoreScale, model: str) -> list[float | None]:
    """Read the scores in `answer`, in the order of their indexes; None for texts without a score.

    They are listed under `results`, under `data`, or at the top level. RerankError unless there is
    a score for one of the `count` texts or more, at most one for each of them, all of them finite
    and on the scale.
    """
    found = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    try:
        items = _ITEMS.validate_python(found)
    except ValidationError as exc:
        first = exc.errors()[0]
        field = ".".join(map(str, first["loc"])) or "answer"
        raise RerankError(
            f"the answer of {model} is not a list of scores ({field}: {first['msg']}): "
            f"{json.dumps(answer)[:200]}"
        ) from exc
    by_index = {item.index: item.score for item in items}
    if len(items) != len(by_index) or not by_index or not by_index.keys() <= set(range(count)):
        raise RerankError(
            f"{model} got {count} texts and answered with {len(items)} scores, for the indexes "
            f"{sorted(item.index for item in items)[:20]}"
        )
    return [
        _on_scale(by_index[index], scale, model) if index in by_index else None
        for index in range(count)
    ]


def _on_scale(score: float, scale: ScoreScale, model: str) -> float:
    if scale.logit:
        return score
    if not scale.low - ROUNDING <= score <= scale.high + ROUNDING:
        raise RerankError(
            f"{model} returned the score {score:g}, outside its scale of {scale.low:g} to "
            f"{scale.high:g}; if its scores are log-odds, write api:{model}?scale=logit"
        )
    return min(scale.high, max(scale.low, score))
