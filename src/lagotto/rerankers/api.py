"""Rerankers behind an HTTP API: POST {base_url}/rerank, as Cohere, Jina, vLLM and TEI offer it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from pydantic import AliasChoices, Field, FiniteFloat, TypeAdapter

from lagotto._internal.concurrency import run_all
from lagotto._internal.registry import parse_settings
from lagotto.documents import Record, in_context, storable
from lagotto.errors import ConfigError, RerankError
from lagotto.models.http import IndexedItem, JsonService, RetryPolicy
from lagotto.rerankers.base import LOGIT, UNIT, Candidate, Judgement, ScoreScale, Verdict

CONNECTIONS = 4
ROUNDING = 1e-3
"""Tolerance at the ends of a scale, for rounding errors of the service."""


MOST_TEXTS = {"documents": 100, "texts": 32}
"""The most texts of a request, by their key in it. The second is that of Text Embeddings Inference
(TEI), which by default rejects longer lists, and texts that are too long."""


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
        self._field = "documents"
        self._service = JsonService(
            base_url, api_key, retry or RetryPolicy(), CONNECTIONS, failure=RerankError
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
        texts = [
            storable(in_context(one.title if self._title else None, one.text, context=one.context))
            for one in candidates
        ]
        key = self._field
        try:
            scores = await self._scores(storable(query), texts, key, top_n)
        except RerankError as problem:
            wants_texts = problem.status in (400, 422) and "texts" in str(problem)
            if key == "texts" or not wants_texts:
                raise
            scores = await self._scores(storable(query), texts, "texts", top_n)
            self._field = "texts"
        missing = scores.count(None)
        note = f"{self.model} left out {missing} of {len(texts)} passages, which are dropped"
        verdicts = [None if score is None else Verdict(score) for score in scores]
        return Judgement(verdicts, (note,) if missing else ())

    async def close(self) -> None:
        await self._service.close()

    async def _scores(
        self, query: str, texts: list[str], key: str, top_n: int
    ) -> list[float | None]:
        scores: list[float | None] = [None] * len(texts)
        most = MOST_TEXTS[key]

        async def request(start: int) -> None:
            some = texts[start : start + most]
            body = {"model": self.model, "query": query, key: some, "top_n": top_n}
            extra = {"truncate": True} if key == "texts" else {}
            items = await self._service.post_for_items(
                "/rerank", body | extra, _read_items, count=len(some), least=1, noun="scores"
            )
            for item in items:
                scores[start + item.index] = self._on_scale(item.score)

        await run_all(range(0, len(texts), most), request, workers=CONNECTIONS)
        return scores

    def _on_scale(self, score: float) -> float:
        """The score, which may be outside the scale by a rounding error and no more."""
        low, high = self.scale.low, self.scale.high
        if self.scale.logit:
            return score
        if not low - ROUNDING <= score <= high + ROUNDING:
            raise RerankError(
                f"{self.model} returned the score {score:g}, outside its scale of {low:g} to "
                f"{high:g}; if its scores are log-odds, write api:{self.model}?scale=logit"
            )
        return min(high, max(low, score))


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


class _Item(IndexedItem):
    score: FiniteFloat = Field(validation_alias=AliasChoices("relevance_score", "score"))


_ITEMS = TypeAdapter(list[_Item])


def _read_items(answer: object) -> list[_Item]:
    """The items, which are listed under `results`, under `data`, or at the top level."""
    listed = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    return _ITEMS.validate_python(listed)
