"""Retriever: answers queries from a store; knows nothing of what kind of store it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.documents import Vector
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError, EmbeddingError
from lagotto.filters import And, Eq, Filter
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.rerankers import Reranker, create_reranker
from lagotto.results import RetrievalBundle, RetrievalResult
from lagotto.retrieval.bundle import BundleSearch
from lagotto.retrieval.late import LateParts
from lagotto.retrieval.pipeline import Parts, Search
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.why_not import WhyNot, examine, known_reason
from lagotto.stores.base import Store, View


class Results(list[RetrievalResult]):
    """Hits, best first; `degraded` says what could not be used to find them.

    `candidates` are the hits that a reranker was given, in their order before; none without one.
    """

    def __init__(
        self,
        hits: Iterable[RetrievalResult] = (),
        *,
        degraded: tuple[str, ...] = (),
        candidates: Sequence[RetrievalResult] = (),
    ) -> None:
        super().__init__(hits)
        self.degraded = degraded
        self.candidates = tuple(candidates)


class Retriever:
    """A store and an embedder, and if you like a reranker and an expander, that answer queries.

    What a preference names (a reranker, a chunker) is made when it is first asked for.
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | str | None = None,
        expander: Expander | None = None,
        chunk_vectors: ChunkEmbedder | None = None,
        chunker: str = DEFAULT_CHUNKER,
    ) -> None:
        if store is None:
            raise ConfigError("a retriever needs a store: Retriever(store=..., embedder=...)")
        if embedder is None:
            raise ConfigError("a retriever needs an embedder: Retriever(store=..., embedder=...)")
        self._store = store
        self._embedder = embedder
        self._expander = expander
        self._reranker = create_reranker(reranker, embedder=embedder) if reranker else None
        self._named: dict[str, Reranker] = {}
        self._late = LateParts(
            chunker_id=chunker,
            tokenizer=embedder.tokenizer,
            vectors=chunk_vectors or ChunkEmbedder(embedder),
            cache=store.chunk_cache,
        )

    async def retrieve(
        self,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
        context: RequestContext | None = None,
    ) -> Results:
        """The best `top_k` passages for the query; none for a query without any text."""
        context = context or RequestContext()
        if _is_empty(prefs, query_vector):
            return Results()
        async with cancel_scope(context), self._view(prefs, context) as view:
            return await _run(Search(self._parts(prefs), prefs, view), query_vector)

    async def retrieve_many(
        self, queries: Sequence[RetrievalPrefs], *, context: RequestContext | None = None
    ) -> list[Results]:
        """What `retrieve` gives for each query: all are embedded at once, on one view per filter.

        Queries with the same filter see the same state of the store.
        """
        context = context or RequestContext()
        answers: list[Results] = [Results()] * len(queries)
        async with cancel_scope(context):
            vectors = await self._vectors(queries)
            for places in _by_filter(queries):
                async with self._view(queries[places[0]], context) as view:
                    for place in places:
                        search = Search(self._parts(queries[place]), queries[place], view)
                        answers[place] = await _run(search, vectors.get(place))
        return answers

    async def search(
        self, context: RequestContext, prefs: RetrievalPrefs, *, query_vector: Vector | None = None
    ) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        if _is_empty(prefs, query_vector):
            return RetrievalBundle(candidates=[], evidence=[])
        async with cancel_scope(context), self._view(prefs, context) as view:
            search = Search(self._parts(prefs), prefs, view)
            return await BundleSearch(search, prefs, self._late).bundle(vector=query_vector)

    async def why_not(self, prefs: RetrievalPrefs, *, collection: str, document_id: str) -> WhyNot:
        """Why a document is not among the results of a query, or where it is."""
        results = await self.retrieve(prefs)
        document = await self._store.get(collection, document_id)
        if known := known_reason(results, document, prefs, (collection, document_id)):
            return known
        scope = _scope(prefs, RequestContext())
        only = And(scope, Eq("collection", collection), Eq("document_id", document_id))
        async with self._store.view(scope) as view, self._store.view(only) as narrow:
            search = Search(self._parts(prefs), prefs, view)
            return await examine(search, narrow, prefs, results, document_id)

    async def close(self) -> None:
        """Let go of the rerankers; the store and the embedder belong to whoever made them."""
        named, self._named = self._named, {}
        for reranker in (*named.values(), *([self._reranker] if self._reranker else [])):
            await reranker.close()

    def _view(
        self, prefs: RetrievalPrefs, context: RequestContext
    ) -> AbstractAsyncContextManager[View]:
        return self._store.view(_scope(prefs, context))

    def _parts(self, prefs: RetrievalPrefs) -> Parts:
        return Parts(
            embedder=self._embedder,
            capabilities=self._store.capabilities,
            reranker=self._chosen_reranker(prefs.rerank.reranker),
            expander=self._expander,
        )

    def _chosen_reranker(self, name: str | None) -> Reranker | None:
        if name is None:
            return self._reranker
        if name not in self._named:
            self._named[name] = create_reranker(name, embedder=self._embedder)
        return self._named[name]

    async def _vectors(self, queries: Sequence[RetrievalPrefs]) -> dict[int, Vector]:
        """The vectors of those queries that need one; none if they can't be had just now."""
        wanted = [
            place
            for place, prefs in enumerate(queries)
            if prefs.mode != "keyword" and prefs.vector.embed_query and prefs.query_text.strip()
        ]
        texts = [queries[place].query_text for place in wanted]
        try:
            rows = await self._embedder.embed(texts, role="query")
        except EmbeddingError:
            return {}  # each search tries by itself, and notes what happens
        return dict(zip(wanted, rows, strict=True))


async def _run(search: Search, vector: Vector | None) -> Results:
    hits = await search.results(vector=vector)
    return Results(hits, degraded=search.degradation.notes, candidates=search.reranked)


def _is_empty(prefs: RetrievalPrefs, vector: Vector | None) -> bool:
    return vector is None and not prefs.query_text.strip()


def _scope(prefs: RetrievalPrefs, context: RequestContext) -> Filter:
    """What may be found at all: the filter, within the collection."""
    inside = [
        Eq("collection", name)
        for name in (prefs.collection, context.collection)
        if name is not None
    ]
    if not inside:
        return prefs.filters
    return And(*inside, *(() if prefs.filters == And() else (prefs.filters,)))


def _by_filter(queries: Sequence[RetrievalPrefs]) -> list[list[int]]:
    """The places of queries that can share a view, without those that ask for nothing."""
    groups: dict[object, list[int]] = {}
    for place, prefs in enumerate(queries):
        if prefs.query_text.strip():
            groups.setdefault((prefs.collection, prefs.filters), []).append(place)
    return list(groups.values())
