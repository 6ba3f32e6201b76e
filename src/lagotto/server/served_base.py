"""A base whose concurrent searches share the work of embedding queries."""

from __future__ import annotations

from typing import Any

from lagotto.embedders import Embedder
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.server.batching import BatchingEmbedder
from lagotto.server.query_cache import QueryCache


class ServedBase(AsyncKnowledgeBase):
    """A knowledge base with a cache of queries in front of its embedder; in batches, if wanted.

    `query_cache` and `batching` are those of the present embedder, None before there is one.
    """

    query_cache: QueryCache | None = None
    batching: BatchingEmbedder | None = None

    def __init__(self, *args: Any, batch_queries: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._batch_queries = batch_queries

    def _searching_embedder(self, embedder: Embedder) -> Embedder:
        if self._batch_queries:
            embedder = self.batching = BatchingEmbedder(embedder)
        self.query_cache = QueryCache(embedder)
        return self.query_cache
