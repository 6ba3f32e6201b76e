"""HybridRetriever: answers queries from a store of any kind; a list, a bundle, or pack material."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from lagotto._internal.concurrency import awaited_work, for_each, with_checkpoints
from lagotto._internal.memory import paused_collector
from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.chunkers.boundaries import measuring_tokenizer
from lagotto.documents import Chunk, Vector
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError, EmbeddingError
from lagotto.filters import And, Eq, Filter
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.rerankers import Reranker, create_reranker
from lagotto.results import Results, RetrievalBundle, RetrievalResult, TracedCandidate
from lagotto.retrieval.bundle import as_bundle
from lagotto.retrieval.explain import Diagnostics, as_result, traced_candidates
from lagotto.retrieval.fusion import HybridScorer, fuse
from lagotto.retrieval.late import LateChunking
from lagotto.retrieval.pipeline import Components, Outcome, Search, SearchSize
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.ranking import Ranked
from lagotto.retrieval.why_not import WhyNot, examine, known_reason
from lagotto.stores.base import ChunkCacheRepo, ItemRepo, SearchableStore, View, rebuilt


@dataclass(frozen=True, slots=True)
class PackMaterial:
    """What a context pack is made from: hits, and the chunks that they are or that are around.

    `candidates` are what the legs found, `reranked` the passages that the reranker judged,
    best first.
    """

    results: Results
    chunks: Sequence[Chunk]
    diagnostics: Diagnostics
    candidates: Sequence[TracedCandidate] = ()
    reranked: Sequence[RetrievalResult] = ()


class HybridRetriever:
    """Answers queries from a store and an embedder, optionally with a reranker and an expander.

    `scorer` fuses the scores of the legs; `items` gives the documents for late chunking and
    `chunk_cache` keeps their chunks, in place of the store. A reranker or chunker that preferences
    name is created when it is first asked for. With a `generation`, searches fail with a
    RebuiltError once the base has another one: a query that one model embedded is never compared
    with vectors of another model.
    """

    def __init__(
        self,
        *,
        store: SearchableStore | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | str | None = None,
        expander: Expander | None = None,
        chunk_vectors: ChunkEmbedder | None = None,
        chunker: str = DEFAULT_CHUNKER,
        scorer: HybridScorer = fuse,
        items: ItemRepo | None = None,
        chunk_cache: ChunkCacheRepo | None = None,
        generation: int | None = None,
    ) -> None:
        if store is None:
            raise ConfigError("a retriever needs a store: HybridRetriever(store=..., embedder=...)")
        if embedder is None:
            raise ConfigError(
                "a retriever needs an embedder: HybridRetriever(store=..., embedder=...)"
            )
        self._store = store
        self._generation = generation
        self._embedder = embedder
        self._expander = expander
        self._scorer = scorer
        self._items = items
        self._reranker = create_reranker(reranker, embedder=embedder) if reranker else None
        self._named: dict[str, Reranker] = {}
        self._late = LateChunking(
            chunker_id=chunker,
            tokenizer=measuring_tokenizer(embedder.tokenizer, embedder.info.alphabets),
            vectors=chunk_vectors or ChunkEmbedder(embedder),
            cache=chunk_cache or store.chunk_cache,
        )

    async def retrieve(
        self,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> Results:
        """The best `top_k` passages for the query; none for a query without any text."""
        async with self._search(prefs, ctx, query_vector) as search:
            if _is_empty(prefs, query_vector):
                return Results()
            outcome = await search.run(SearchSize.of_list(prefs), vector=query_vector)
            return await _as_list(outcome, search, prefs)

    async def retrieve_many(
        self, queries: Sequence[RetrievalPrefs], *, ctx: RequestContext | None = None
    ) -> list[Results]:
        """What `retrieve` gives for each query: all are embedded at once, on one view per filter.

        Queries with the same filter see the same state of the store. The shared embedding is in
        nobody's `stats`.
        """
        ctx = ctx or RequestContext()
        answers: list[Results] = [Results()] * len(queries)
        async with cancel_scope(ctx):
            vectors = await self._vectors(queries)
            for indices in _by_filter(queries):
                async with self._view(_scope(queries[indices[0]], ctx)) as view:
                    for index in indices:
                        prefs = queries[index]
                        diagnostics = _diagnostics(prefs, ctx)
                        search = Search(
                            self._components(prefs), prefs, view, diagnostics=diagnostics
                        )
                        outcome = await search.run(
                            SearchSize.of_list(prefs), vector=vectors.get(index)
                        )
                        answers[index] = await _as_list(outcome, search, prefs)
        return answers

    async def search(
        self, ctx: RequestContext, prefs: RetrievalPrefs, *, query_vector: Vector | None = None
    ) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        async with self._search(prefs, ctx, query_vector) as search:
            if _is_empty(prefs, query_vector):
                return RetrievalBundle(candidates=[], evidence=[])
            outcome = await search.run(SearchSize.of_bundle(prefs), vector=query_vector)
            return await as_bundle(outcome, prefs, search.diagnostics)

    async def pack_material(
        self,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> PackMaterial:
        """What `retrieve` gives, with the chunks around the hits, all of one state of the store."""
        async with self._search(prefs, ctx, query_vector) as search:
            if _is_empty(prefs, query_vector):
                return PackMaterial(Results(), (), search.diagnostics)
            size = SearchSize.of_list(prefs)
            outcome = await search.run(size, vector=query_vector)
            chunks = await search.surroundings(outcome)
            reranked = await _results(outcome.verdicts, outcome)
            candidates = traced_candidates(await search.initial(outcome, size))
            found = await _as_list(outcome, search, prefs)
            return PackMaterial(found, chunks, search.diagnostics, candidates, reranked)

    async def why_not(
        self,
        prefs: RetrievalPrefs,
        *,
        collection: str,
        document_id: str,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> WhyNot:
        """Why a document is not among the results of a query, or at which rank it is."""
        async with self._search(prefs, ctx, query_vector) as search:
            results, outcome = Results(), None
            if not _is_empty(prefs, query_vector):
                outcome = await search.run(SearchSize.of_list(prefs), vector=query_vector)
                results = await _as_list(outcome, search, prefs)
            document = await self._store.get(collection, document_id)
            known = known_reason(results, document, prefs, (collection, document_id))
            if known is not None:
                return known
            if outcome is None:
                return WhyNot(document_id=document_id, reason="the query has no text")
            named = (Eq("collection", collection), Eq("document_id", document_id))
            only = And(_scope(prefs, ctx or RequestContext()), *named)
            async with self._view(only) as narrow:
                return await examine(
                    search, outcome, narrow, prefs=prefs, results=results, document_id=document_id
                )

    async def close(self) -> None:
        """Close the rerankers; the store and the embedder belong to whoever made them."""
        named, self._named = self._named, {}
        for reranker in (*named.values(), *([self._reranker] if self._reranker else [])):
            await reranker.close()

    @asynccontextmanager
    async def _search(
        self, prefs: RetrievalPrefs, ctx: RequestContext | None, vector: Vector | None
    ) -> AsyncIterator[Search]:
        """A search on a view that is open inside; cancelled as its context asks for."""
        ctx = ctx or RequestContext()
        diagnostics = _diagnostics(prefs, ctx)
        if vector is None and _is_embedded_as_it_is(prefs):
            _preload(self._embedder)
        async with cancel_scope(ctx), AsyncExitStack() as stack:
            stack.enter_context(awaited_work())
            with diagnostics.stage("view"):
                view = await stack.enter_async_context(self._view(_scope(prefs, ctx)))
            yield Search(self._components(prefs), prefs, view, diagnostics=diagnostics)

    @asynccontextmanager
    async def _view(self, where: Filter) -> AsyncIterator[View]:
        async with self._store.view(where) as view:
            if self._generation not in (None, view.generation):
                raise rebuilt(self._store.location)
            yield view

    def _components(self, prefs: RetrievalPrefs) -> Components:
        return Components(
            embedder=self._embedder,
            capabilities=self._store.capabilities,
            late=self._late,
            reranker=self._chosen_reranker(prefs),
            expander=self._expander,
            scorer=self._scorer,
            items=self._items,
        )

    def _chosen_reranker(self, prefs: RetrievalPrefs) -> Reranker | None:
        """The reranker that the caller names, or passed, or that a preset names, in this order."""
        name = prefs.rerank.reranker
        passed = self._reranker is not None and prefs.is_from_preset("rerank.reranker")
        if name is None or passed:
            return self._reranker
        if name not in self._named:
            self._named[name] = create_reranker(name, embedder=self._embedder)
        return self._named[name]

    async def _vectors(self, queries: Sequence[RetrievalPrefs]) -> dict[int, Vector]:
        """The vectors of those queries that need one; none if the embedder fails just now."""
        wanted = [index for index, prefs in enumerate(queries) if _is_embedded_as_it_is(prefs)]
        texts = [queries[index].query_text for index in wanted]
        try:
            rows = await self._embedder.embed(texts, role="query")
        except EmbeddingError:
            return {}  # each search tries by itself, and notes what happens
        return dict(zip(wanted, rows, strict=True))


async def _as_list(outcome: Outcome, search: Search, prefs: RetrievalPrefs) -> Results:
    """The list view of a search."""
    with search.diagnostics.stage("list"):
        hits = await _results(outcome.ranked, outcome)
        candidates = await _results(outcome.seen, outcome)
    counts = {**outcome.counts, "hits": len(hits)}
    return Results(hits, candidates=candidates, stats=search.diagnostics.stats(prefs, counts))


async def _results(ranked: Sequence[Ranked], outcome: Outcome) -> list[RetrievalResult]:
    scored = outcome.scored

    def make(items: Sequence[Ranked]) -> list[RetrievalResult]:
        with paused_collector():
            return [
                as_result(rank, item, scored.candidates, scored.fused)
                for rank, item in enumerate(with_checkpoints(items), 1)
            ]

    return await for_each(make, ranked)


def _diagnostics(prefs: RetrievalPrefs, ctx: RequestContext) -> Diagnostics:
    return Diagnostics(strict=prefs.strict, trace_id=ctx.trace_id)


def _is_embedded_as_it_is(prefs: RetrievalPrefs) -> bool:
    """Whether the vector of a query is that of its text: no operators, no answer patterns."""
    plain = prefs.fts.mode == "any" and not prefs.expansion.answers
    embedded = prefs.mode != "keyword" and prefs.vector.embed_query
    return plain and embedded and bool(prefs.query_text.strip())


def _preload(embedder: Embedder) -> None:
    """Load the model while the view is opened and the query planned."""
    preload = getattr(embedder, "preload", None)  # models that run here have it
    if preload is not None:
        preload()


def _is_empty(prefs: RetrievalPrefs, vector: Vector | None) -> bool:
    return vector is None and not prefs.query_text.strip()


def _scope(prefs: RetrievalPrefs, ctx: RequestContext) -> Filter:
    """What may be found at all: the filter, within the collection."""
    names = (prefs.collection, ctx.collection)
    inside = [Eq("collection", name) for name in names if name is not None]
    if not inside:
        return prefs.filters
    return And(*inside, *(() if prefs.filters == And() else (prefs.filters,)))


def _by_filter(queries: Sequence[RetrievalPrefs]) -> list[list[int]]:
    """The indices of queries that can share a view, without those that ask for nothing."""
    groups: dict[object, list[int]] = {}
    for index, prefs in enumerate(queries):
        if prefs.query_text.strip():
            groups.setdefault((prefs.collection, prefs.filters), []).append(index)
    return list(groups.values())
