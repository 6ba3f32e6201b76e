"""A retriever from its parts, one by one: vectors and words may be in two stores."""

from __future__ import annotations

from typing import Any, Self

from lagotto.embedders import Embedder
from lagotto.errors import ConfigError
from lagotto.rerankers import Reranker
from lagotto.rerankers.api import ApiReranker
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.base import SearchableStore
from lagotto.stores.combined import CombinedStore


class RetrieverBuilder:
    """Collects the parts of a HybridRetriever; `build` says which one is missing.

    The two stores may be the same.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}

    def _with(self, name: str, part: object) -> Self:
        self._parts[name] = part
        return self

    def vector_store(self, store: SearchableStore) -> Self:
        """Where vectors are searched, and passages are read."""
        return self._with("vector_store", store)

    def fts_store(self, store: SearchableStore) -> Self:
        """Where words are searched."""
        return self._with("fts_store", store)

    def embedder(self, embedder: Embedder) -> Self:
        """What embeds queries: the embedder of the stored vectors."""
        return self._with("embedder", embedder)

    def expander(self, expander: Expander) -> Self:
        """What expands queries."""
        return self._with("expander", expander)

    def simple_reranker(self) -> Self:
        """Rerank by the share of the query's words that a passage has, as written."""
        return self.reranker("overlap:literal")

    def api_reranker(self, base_url: str, *, model: str, api_key: str | None = None) -> Self:
        """Rerank with a service: POST {base_url}/rerank."""
        return self.reranker(ApiReranker(base_url, model=model, api_key=api_key))

    def reranker(self, reranker: Reranker | str) -> Self:
        """Rerank with any reranker."""
        return self._with("reranker", reranker)

    def build(self) -> HybridRetriever:
        """The retriever; ConfigError if a store or the embedder is missing."""
        for name in ("vector_store", "fts_store", "embedder"):
            if self._parts.get(name) is None:
                raise ConfigError(f"{name} is missing; call {name}(...) before build()")
        parts = dict(self._parts)
        vectors, words = parts.pop("vector_store"), parts.pop("fts_store")
        same = vectors is words
        store = vectors if same else CombinedStore(vector_store=vectors, fts_store=words)
        return HybridRetriever(store=store, **parts)
