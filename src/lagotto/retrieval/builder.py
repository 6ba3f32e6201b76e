"""A retriever from its parts, one by one: vectors and words may be in two stores."""

from __future__ import annotations

from typing import Self

from lagotto.embedders import Embedder
from lagotto.errors import ConfigError
from lagotto.rerankers import Reranker
from lagotto.rerankers.api import ApiReranker
from lagotto.rerankers.lexical import LiteralOverlapReranker
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.base import SearchableStore
from lagotto.stores.combined import CombinedStore


class RetrieverBuilder:
    """Collects the parts of a HybridRetriever; `build` says which one is missing.

    The two stores may be the same.
    """

    def __init__(self) -> None:
        self._vector_store: SearchableStore | None = None
        self._fts_store: SearchableStore | None = None
        self._embedder: Embedder | None = None
        self._reranker: Reranker | str | None = None
        self._expander: Expander | None = None

    def vector_store(self, store: SearchableStore) -> Self:
        """Where vectors are searched, and passages are read."""
        self._vector_store = store
        return self

    def fts_store(self, store: SearchableStore) -> Self:
        """Where words are searched."""
        self._fts_store = store
        return self

    def embedder(self, embedder: Embedder) -> Self:
        """What embeds queries: the embedder of the stored vectors."""
        self._embedder = embedder
        return self

    def expander(self, expander: Expander) -> Self:
        """What expands queries."""
        self._expander = expander
        return self

    def simple_reranker(self) -> Self:
        """Rerank by the share of the query's words that a passage has, as written."""
        return self.reranker(LiteralOverlapReranker())

    def api_reranker(self, base_url: str, *, model: str, api_key: str | None = None) -> Self:
        """Rerank with a service: POST {base_url}/rerank."""
        return self.reranker(ApiReranker(base_url, model=model, api_key=api_key))

    def reranker(self, reranker: Reranker | str) -> Self:
        """Rerank with any reranker."""
        self._reranker = reranker
        return self

    def build(self) -> HybridRetriever:
        """The retriever; ConfigError if a store or the embedder is missing."""
        vectors, words = self._vector_store, self._fts_store
        if vectors is None or words is None or self._embedder is None:
            parts = {"vector_store": vectors, "fts_store": words, "embedder": self._embedder}
            missing = next(name for name, part in parts.items() if part is None)
            raise ConfigError(f"{missing} is missing; call {missing}(...) before build()")
        same = vectors is words
        return HybridRetriever(
            store=vectors if same else CombinedStore(vector_store=vectors, fts_store=words),
            embedder=self._embedder,
            reranker=self._reranker,
            expander=self._expander,
        )
