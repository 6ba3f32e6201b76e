"""Queries of concurrent searches embedded together.

As many queries as there are CPUs go to the model at once. Those that come meanwhile wait, and go
together when one is done: a batch costs less than its queries one by one, and nobody waits for a
timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lagotto.concurrency import available_cpus
from lagotto.documents import Vectors
from lagotto.embedders import Embedder
from lagotto.server.single_queries import SingleQueryEmbedder

MOST = 64
"""Queries in one batch."""


class BatchingEmbedder(SingleQueryEmbedder):
    """An Embedder like `inner`, which gets single queries in batches; all else goes through.

    `batches` and `queries` count what went to `inner`.
    """

    def __init__(self, inner: Embedder, *, most: int = MOST, parallel: int | None = None) -> None:
        super().__init__(inner)
        self._most = most
        self._parallel = parallel or available_cpus()
        self._waiting: list[tuple[str, asyncio.Future[Vectors]]] = []
        self._running: set[asyncio.Task[None]] = set()
        self.batches = 0
        self.queries = 0

    @property
    def waiting(self) -> int:
        """Queries that wait for the model."""
        return len(self._waiting)

    async def _embed_query(self, text: str) -> Vectors:
        outcome: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, outcome))
        if len(self._running) < self._parallel:
            task = asyncio.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await outcome

    async def _run(self) -> None:
        while self._waiting:
            share = min(self._most, -(-len(self._waiting) // self._parallel))
            batch = [item for item in self._waiting[:share] if not item[1].done()]
            del self._waiting[:share]
            if batch:
                await self._embed_batch(batch)

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
