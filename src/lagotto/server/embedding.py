"""Queries of concurrent searches embedded together, and recent ones cached."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from lagotto._internal.concurrency import available_cpus
from lagotto._internal.tokens import Tokenizer
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.embedders.base import Role

ENTRIES = 1_000

CALLER: ContextVar[str | None] = ContextVar("caller", default=None)
"""The id of the key that the present request came with."""


class QueryEmbedder:
    """An Embedder like `inner` that keeps the vectors of the `entries` queries used last.

    Single queries only, in `batches` if there are any; all else goes through. Each key has entries
    of its own: the time of an answer would tell a caller what others have asked. `hits` and
    `misses` count them.
    """

    def __init__(
        self, inner: Embedder, *, batches: QueryBatches | None = None, entries: int = ENTRIES
    ) -> None:
        self._inner = inner
        self.batches = batches
        self._entries = entries
        self._vectors: OrderedDict[tuple[str | None, str], Vectors] = OrderedDict()
        self.info = inner.info
        self.hits = 0
        self.misses = 0

    @property
    def tokenizer(self) -> Tokenizer:
        return self._inner.tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def close(self) -> None:
        await self._inner.close()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if role != "query" or len(texts) != 1:
            return await self._inner.embed(texts, role=role)
        name = (CALLER.get(), texts[0])
        entry = self._vectors.get(name)
        if entry is not None:
            self.hits += 1
            self._vectors.move_to_end(name)
            return entry.copy()
        self.misses += 1
        if self.batches is None:
            vectors = await self._inner.embed(texts, role=role)
        else:
            vectors = await self.batches.embed(texts[0])
        self._vectors[name] = vectors.copy()
        while len(self._vectors) > self._entries:
            self._vectors.popitem(last=False)
        return vectors


MOST = 64
"""Queries in one batch."""


class QueryBatches:
    """Embeds single queries with `inner`, those that wait at the same time together.

    `batches` counts what went to `inner`.
    """

    def __init__(self, inner: Embedder, *, parallel: int | None = None) -> None:
        self._inner = inner
        self._parallel = parallel or available_cpus()
        self._waiting: list[tuple[str, asyncio.Future[Vectors]]] = []
        self._running: set[asyncio.Task[None]] = set()
        self.batches = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def embed(self, text: str) -> Vectors:
        outcome: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, outcome))
        if len(self._running) < self._parallel:
            task = asyncio.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await outcome

    async def _run(self) -> None:
        while self._waiting:
            share = min(MOST, -(-len(self._waiting) // self._parallel))
            batch = [item for item in self._waiting[:share] if not item[1].done()]
            del self._waiting[:share]
            if batch:
                await self._embed_batch(batch)

    async def _embed_batch(self, batch: Sequence[tuple[str, asyncio.Future[Vectors]]]) -> None:
        self.batches += 1
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
    """A knowledge base with a cache of queries in front of its embedder; in batches, if wanted.

    `query_cache` is that of the present embedder, None before there is one.
    """

    query_cache: QueryEmbedder | None = None

    def __init__(self, *args: Any, batch_queries: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._batch_queries = batch_queries

    def _searching_embedder(self, embedder: Embedder) -> Embedder:
        batches = QueryBatches(embedder) if self._batch_queries else None
        self.query_cache = QueryEmbedder(embedder, batches=batches)
        return self.query_cache
