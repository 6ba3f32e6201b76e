"""Embeddings from an OpenAI-compatible API: OpenAI, vLLM, Ollama, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, FiniteFloat

from lagotto._internal.concurrency import run_all
from lagotto._internal.registry import parse_settings
from lagotto.documents import Record, Vectors, storable
from lagotto.embedders.base import EmbedderInfo, Role, checked, normalised
from lagotto.errors import ConfigError, EmbeddingServiceError
from lagotto.models.http import IndexedItem, JsonService, RetryPolicy, runs
from lagotto.models.tokenizer import ApproximateTokenizer

DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
PUBLIC_MAX_TOKENS = 8191
REQUEST_TOKENS = 50_000


class OpenAIConfig(Record):
    """The settings of an OpenAIEmbedder.

    `dimension` is the dimension of the model, known for OpenAI's own models; `dimensions` asks the
    service for shorter vectors, which get a model id of their own. Texts are truncated at about
    `max_tokens`, by an approximate count. `base_url` defaults to OPENAI_BASE_URL, then to OpenAI. A
    request has up to `batch_size` texts, and `connections` requests run concurrently.
    """

    model: str = Field(min_length=1)
    dimension: int | None = Field(default=None, ge=1)
    dimensions: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    cosine_floor: float = Field(default=0.0, ge=-1.0, lt=1.0)
    base_url: str | None = None
    batch_size: int = Field(default=32, ge=1)
    connections: int = Field(default=4, ge=1)

    @property
    def info(self) -> EmbedderInfo:
        """The model's properties; ConfigError if its dimension is unknown."""
        size = self.dimensions or self.dimension or DIMENSIONS.get(self.model)
        if size is None:
            raise ConfigError(
                f'unknown embedding dimension for "{self.model}"; '
                f"write openai:{self.model}?dimension=768"
            )
        public_limit = PUBLIC_MAX_TOKENS if self.model in DIMENSIONS else None
        return EmbedderInfo(
            model_id=f"{self.model}@{self.dimensions}" if self.dimensions else self.model,
            dimension=size,
            max_tokens=self.max_tokens or public_limit,
            cosine_floor=self.cosine_floor,
        )


class OpenAIEmbedder:
    """Gets embeddings from a service; failed requests are retried as `retry` says.

    `api_key` defaults to OPENAI_API_KEY; a local server may need none. The API rejects empty texts,
    so a single space is sent instead. Its tokenizer is not available: `tokenizer` approximates it.
    """

    def __init__(
        self, config: OpenAIConfig, *, api_key: str | None = None, retry: RetryPolicy | None = None
    ) -> None:
        self.config = config
        self.info = config.info
        self.tokenizer = ApproximateTokenizer()
        self._service = JsonService.openai(
            config.base_url,
            api_key=api_key,
            retry=retry or RetryPolicy(),
            connections=config.connections,
            failure=EmbeddingServiceError,
        )

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        rows = np.empty((len(texts), self.info.dimension), dtype=np.float32)

        async def request(batch: range) -> None:
            some = inputs[batch.start : batch.stop]
            size = self.config.dimensions
            payload = {
                "model": self.config.model,
                "input": some,
                "encoding_format": "float",
                **({"dimensions": size} if size else {}),
            }
            count = len(batch)
            items = await self._service.post_for_items(
                "/embeddings", payload, _read_items, count=count, least=count, noun="embeddings"
            )
            vectors = normalised(self._vectors(items))
            rows[batch.start : batch.stop] = checked(vectors, info=self.info, count=count)

        inputs = [self._prepared(text) for text in texts]
        costs = self.tokenizer.count(inputs)
        batches = runs(costs, room=REQUEST_TOKENS, most=self.config.batch_size)
        await run_all(batches, request, workers=self.config.connections)
        return rows

    async def close(self) -> None:
        await self._service.close()

    def _vectors(self, items: list[_Item]) -> NDArray[np.float64]:
        """The vectors in the order of their texts, all of the model's dimension."""
        sizes = {len(item.embedding) for item in items}
        if sizes != {self.info.dimension}:
            raise EmbeddingServiceError(
                f"{self.info.model_id} is configured with dimension {self.info.dimension}, but "
                f"returned vectors of dimension {', '.join(map(str, sorted(sizes)))}; set the "
                "dimension of the model"
            )
        by_index = {item.index: item.embedding for item in items}
        return np.array([by_index[index] for index in range(len(items))], dtype=np.float64)

    def _prepared(self, text: str) -> str:
        clean = storable(text)
        limit = self.info.max_tokens
        if limit is not None and len(clean) > limit:
            starts = self.tokenizer.starts([clean])[0]
            clean = clean[: starts[limit]] if len(starts) > limit else clean
        return clean or " "


def from_spec(spec: str) -> OpenAIEmbedder:
    """Create `openai:MODEL`, or `openai:MODEL?dimension=768&base_url=http://localhost:8000/v1`."""
    model, _, _ = spec.partition("?")
    if not model:
        raise ConfigError("missing model; write openai:MODEL or openai:MODEL?dimension=768")
    _, config = parse_settings("openai", spec, OpenAIConfig, model=model)
    return OpenAIEmbedder(config)


class _Item(IndexedItem):
    embedding: list[FiniteFloat]


class _Answer(BaseModel):
    data: list[_Item]


def _read_items(answer: object) -> list[_Item]:
    return _Answer.model_validate(answer).data
