"""Queries of concurrent searches embedded together.

The first query goes to the model at once. Those that come while it is busy wait, and go together
when it is free: a batch costs less than its queries one by one, and nobody waits for a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.embedders.base import EmbedderInfo, Role
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.tokens import Tokenizer

MOST = 64
"""Queries in one batch."""


class BatchingEmbedder:
    """An Embedder like `inner`, which gets single queries in batches; all else goes through.

    `batches` and `queries` count what went to `inner`.
    """

    def __init__(self, inner: Embedder, *, most: int = MOST) -> None:
        self._inner = inner
        self._most = most
        self._waiting: list[tuple[str, asyncio.Future[Vectors]]] = []
        self._running: asyncio.Task[None] | None = None
        self.batches = 0
        self.queries = 0

    @property
    def info(self) -> EmbedderInfo:
        """The value of `inner`."""
        return self._inner.info

    @property
    def tokenizer(self) -> Tokenizer:
        """The value of `inner`."""
        return self._inner.tokenizer

    @property
    def waiting(self) -> int:
        """Queries that wait for the model."""
        return len(self._waiting)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one unit vector per text, in order."""
        if role != "query" or len(texts) != 1:
            return await self._inner.embed(texts, role=role)
        outcome: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append((texts[0], outcome))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await outcome

    async def close(self) -> None:
        """Close `inner`."""
        await self._inner.close()

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = [item for item in self._waiting[: self._most] if not item[1].done()]
                del self._waiting[: self._most]
                if batch:
                    await self._embed_batch(batch)
        finally:
            self._running = None

    async def _embed_batch(self, batch: Sequence[tuple[str, asyncio.Future[Vectors]]]) -> None:
        self.batches += 1
        self.queries += len(batch)
        texts = [text for text, _ in batch]
        embedding = asyncio.ensure_future(self._inner.embed(texts, role="query"))

        def give_up(_: object) -> None:
            if all(outcome.done() for _, outcome in batch):
                embedding.cancel()  # everybody who asked is gone

        for _, outcome in batch:
            outcome.add_done_callback(give_up)
        await asyncio.wait([embedding])
        for index, (_, outcome) in enumerate(batch):
            if outcome.done():
                continue
            if embedding.cancelled():
                outcome.cancel()
            elif (error := embedding.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(embedding.result()[index : index + 1])


class ServedBase(AsyncKnowledgeBase):
    """A base whose searches share batches of queries."""

    batching: BatchingEmbedder | None = None

    def _searching_embedder(self, embedder: Embedder) -> Embedder:
        self.batching = BatchingEmbedder(embedder)
        return self.batching
