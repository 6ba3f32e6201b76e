"""HybridRetriever: one search in a store of any kind, and its outcome as a list or a bundle.

The third view, a cited pack, is made by `lagotto.context`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lagotto._internal.concurrency import awaited_work, for_each, in_thread, with_checkpoints
from lagotto._internal.memory import paused_collector
from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.documents import DEFAULT_COLLECTION, Chunk, Vector
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError, EmbeddingError
from lagotto.filters import And, Eq, Filter
from lagotto.prefs import RetrievalPrefs, SearchRequest
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.rerankers import Reranker, create_reranker
from lagotto.results import (
    CandidateItem,
    EvidenceChunk,
    LegScore,
    Results,
    RetrievalBundle,
    RetrievalResult,
    SnippetFrom,
    TracedCandidate,
)
from lagotto.retrieval.documents import FoundDocument, Highlighter, Snippet
from lagotto.retrieval.explain import Diagnostics, breakdown_fields, leg_scores
from lagotto.retrieval.fusion import Candidates, Fused, HybridScorer, fuse
from lagotto.retrieval.pipeline import Outcome, Scored, Search
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.recall import Components
from lagotto.retrieval.stages import Ranked, document_of, order_score
from lagotto.retrieval.why_not import WhyNot, examine, known_reason
from lagotto.stores.base import ChunkCacheRepo, ItemRepo, SearchableStore, View, rebuilt

if TYPE_CHECKING:
    from lagotto.retrieval.late import LateChunking
    from lagotto.retrieval.tracing import SearchSpan


MANY = 1_000
"""Hits for which the garbage collector is paused: it takes half of the time of making 20,000."""

MOST_CHARACTERS = 20_000
"""The part of a whole document that is searched for a snippet: every word of it is analysed."""


@runtime_checkable
class Retriever(Protocol):
    """Finds documents and evidence for a query.

    Contract: the same inputs give the same bundle. A search stops when `ctx.cancellation` fires
    or its deadline passes. It never prints, streams or emits events: whatever there is to tell a
    caller is in the bundle. What it logs, at INFO and DEBUG, is for who runs the program.
    """

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        ...


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
        self._chunker = chunker
        self._chunk_vectors = chunk_vectors
        self._chunk_cache = chunk_cache

    async def run(self, request: SearchRequest) -> Outcome:
        """Search. The views of the outcome are `as_list`, `as_bundle` and, for a pack, `as_pack`.

        A request is resolved before, by whoever has preferences of its own.
        """
        with self._span(request) as span:
            async with self._search(request) as search:
                outcome = await search.run()
            if span is not None:
                span.note(outcome)
            return outcome

    async def run_many(self, requests: Sequence[SearchRequest]) -> list[Outcome]:
        """The outcomes of `run` for requests with one context, all embedded at once.

        Queries with the same filter see the same state of the store. The shared embedding is in
        nobody's `stats`.
        """
        if not requests:
            return []
        ctx = requests[0].context
        outcomes: dict[int, Outcome] = {}
        with self._span(requests[0], one_of_many=True):
            async with cancel_scope(ctx):
                vectors = await self._vectors(requests)
                for indices in _by_filter(requests):
                    async with self._view(_scope(requests[indices[0]])) as view:
                        for index in indices:
                            request = replace(requests[index], vector=vectors.get(index))
                            outcomes[index] = await self._searching(request, view).run()
        return [outcomes[index] for index in range(len(requests))]

    async def retrieve(
        self,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> Results:
        """The best `top_k` passages for the query; none for a query without any text."""
        request = SearchRequest.of(prefs, "retrieve", vector=query_vector, ctx=ctx)
        outcome = await self.run(request)
        async with cancel_scope(request.context):
            return await as_list(outcome)

    async def search(
        self, ctx: RequestContext, prefs: RetrievalPrefs, *, query_vector: Vector | None = None
    ) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        outcome = await self.run(SearchRequest.of(prefs, "search", vector=query_vector, ctx=ctx))
        async with cancel_scope(ctx):
            return await as_bundle(outcome)

    async def why_not(self, request: SearchRequest) -> WhyNot:
        """Why the document of a request is not among its results, or at which rank it is."""
        prefs, document_id = request.preferences, request.document_id
        collection = request.document_collection or DEFAULT_COLLECTION
        with self._span(request) as span:
            async with self._search(request) as search:
                outcome = await search.run()
                if span is not None:
                    span.note(outcome)
                results = await as_list(outcome)
                document = await self._store.get(collection, document_id)
                known = known_reason(results, document, prefs, (collection, document_id))
                if known is not None:
                    return known
                if outcome.scored is None:
                    return WhyNot(document_id=document_id, reason="the query has no text")
                named = (Eq("collection", collection), Eq("document_id", document_id))
                async with self._view(And(_scope(request), *named)) as narrow:
                    return await examine(search, outcome.scored, narrow, results=results)

    async def close(self) -> None:
        """Close the rerankers; the store and the embedder belong to whoever made them."""
        named, self._named = self._named, {}
        for reranker in (*named.values(), *([self._reranker] if self._reranker else [])):
            await reranker.close()

    @asynccontextmanager
    async def _search(self, request: SearchRequest) -> AsyncIterator[Search]:
        """A search on a view that is open inside; cancelled as its context asks for."""
        if request.vector is None and _is_embedded_as_it_is(request.preferences):
            _preload(self._embedder)
        async with cancel_scope(request.context), AsyncExitStack() as stack:
            stack.enter_context(awaited_work())
            diagnostics = _diagnostics(request)
            with diagnostics.stage("view"):
                view = await stack.enter_async_context(self._view(_scope(request)))
            yield self._searching(request, view, diagnostics)

    def _searching(
        self, request: SearchRequest, view: View, diagnostics: Diagnostics | None = None
    ) -> Search:
        components = self._components(request.preferences)
        diagnostics = diagnostics or _diagnostics(request)
        return Search(components, request, view, diagnostics=diagnostics)

    def _span(
        self, request: SearchRequest, *, one_of_many: bool = False
    ) -> AbstractContextManager[SearchSpan | None]:
        """The span of a search, if the program has loaded OpenTelemetry: else nobody gets it."""
        if "opentelemetry.trace" not in sys.modules:
            return nullcontext()
        from lagotto.retrieval.tracing import search_span

        source, model_id = self._store.location, self._embedder.info.model_id
        return search_span(request, source=source, model_id=model_id, one_of_many=one_of_many)

    @asynccontextmanager
    async def _view(self, where: Filter) -> AsyncIterator[View]:
        async with self._store.view(where) as view:
            if self._generation not in (None, view.generation):
                raise rebuilt(self._store.location)
            yield view

    def _late_chunking(self) -> LateChunking:
        from lagotto.chunkers.boundaries import measuring_tokenizer
        from lagotto.retrieval.late import LateChunking

        embedder = self._embedder
        return LateChunking(
            chunker_id=self._chunker,
            tokenizer=measuring_tokenizer(embedder.tokenizer, embedder.info.alphabets),
            vectors=self._chunk_vectors or ChunkEmbedder(embedder),
            cache=self._chunk_cache or self._store.chunk_cache,
        )

    def _components(self, prefs: RetrievalPrefs) -> Components:
        return Components(
            embedder=self._embedder,
            capabilities=self._store.capabilities,
            late=self._late_chunking,
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

    async def _vectors(self, requests: Sequence[SearchRequest]) -> dict[int, Vector]:
        """The vectors of those queries that need one; none if the embedder fails just now."""
        wanted = [
            index
            for index, request in enumerate(requests)
            if _is_embedded_as_it_is(request.preferences)
        ]
        texts = [requests[index].query for index in wanted]
        try:
            rows = await self._embedder.embed(texts, role="query")
        except EmbeddingError:
            return {}  # each search tries by itself, and notes what happens
        return dict(zip(wanted, rows, strict=True))


def _diagnostics(request: SearchRequest) -> Diagnostics:
    return Diagnostics(strict=request.preferences.strict, trace_id=request.context.trace_id)


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


def _scope(request: SearchRequest) -> Filter:
    """What may be found at all: the filter, within the collection."""
    prefs = request.preferences
    names = (prefs.collection, request.context.collection)
    inside = [Eq("collection", name) for name in names if name is not None]
    if not inside:
        return prefs.filters
    return And(*inside, *(() if prefs.filters == And() else (prefs.filters,)))


def _by_filter(requests: Sequence[SearchRequest]) -> list[list[int]]:
    """The indices of requests that can share a view."""
    groups: dict[object, list[int]] = {}
    for index, request in enumerate(requests):
        prefs = request.preferences
        groups.setdefault((prefs.collection, prefs.filters), []).append(index)
    return list(groups.values())


async def as_list(outcome: Outcome) -> Results:
    """The passages, best first; none for a query without any text."""
    if outcome.scored is None:
        return Results()
    with outcome.diagnostics.stage("list"):
        hits = await results_of(outcome.ranked, outcome.scored)
        candidates = await results_of(outcome.seen, outcome.scored)
    return Results(hits, candidates=candidates, stats=outcome.stats(hits=len(hits)))


async def results_of(ranked: Sequence[Ranked], scored: Scored) -> list[RetrievalResult]:
    """Ranked passages as results, with the scores of every stage."""

    def make(items: Sequence[Ranked]) -> list[RetrievalResult]:
        with paused_collector() if len(items) > MANY else nullcontext():
            return [
                as_result(rank, item, scored.candidates, scored.fused)
                for rank, item in enumerate(with_checkpoints(items), 1)
            ]

    return await for_each(make, ranked)


def as_result(rank: int, item: Ranked, candidates: Candidates, fused: Fused) -> RetrievalResult:
    """The hit of that rank in the list, counted from 1."""
    chunk, document = item.passage.chunk, item.passage.document
    return RetrievalResult(
        rank=rank,
        score=item.score,
        content=chunk.text,
        chunk_id=chunk.id,
        document_id=document.id,
        document_title=document.title,
        document_source=document.source,
        document_kind=document.kind,
        collection=document.collection,
        language=document.language,
        **item.location_fields,
        metadata=document.metadata,
        parent_id=chunk.parent_id,
        parent_content=item.parent.text if item.parent else None,
        section=item.section,
        child_id=item.child.id if item.child else None,
        answerable=item.answerable,
        evidence=item.evidence,
        breakdown=breakdown_fields(
            item.row,
            candidates,
            fused,
            rerank=item.rerank,
            rerank_score=item.rerank_score,
            rerank_mapped=item.rerank_mapped,
            rerank_share=item.rerank_share,
        ),
    )


def traced_candidates(found: Sequence[Ranked]) -> tuple[TracedCandidate, ...]:
    """What the legs found, as the trace of a pack names it."""
    return tuple(
        TracedCandidate(
            chunk_id=item.passage.chunk.id,
            collection=item.passage.document.collection,
            document_id=item.passage.document.id,
            rank=rank,
            score=item.score,
        )
        for rank, item in enumerate(found, 1)
    )


async def as_bundle(outcome: Outcome) -> RetrievalBundle:
    """The documents that were found, and the passages in them as evidence.

    After a reranker, documents come in the order of their best reranked passages, then those
    without one in the order of their fused scores.
    """
    if outcome.scored is None:
        return RetrievalBundle(candidates=[], evidence=[])
    with outcome.diagnostics.stage("bundle"):
        candidates, evidence = await in_thread(_items_and_evidence, outcome, outcome.scored)
    stats = outcome.stats(items=len(candidates), evidence=len(evidence))
    return RetrievalBundle(candidates=candidates, evidence=evidence, stats=stats)


def ranked_documents(outcome: Outcome, scored: Scored) -> list[FoundDocument]:
    """The documents with their final scores, best first; none below a threshold."""
    prefs = outcome.request.preferences
    judged = {document_of(item): item for item in reversed(outcome.judged or ())}
    found = scored.documents
    first = [replace(item, score=judged[item.name].score) for item in found if item.name in judged]
    # Stable: equal ones keep the fused order.
    first.sort(key=lambda item: -order_score(judged[item.name]))
    rest = [item for item in found if item.name not in judged]
    if outcome.judged is not None and prefs.rerank.min_score is not None:
        rest = []  # what has no verdict can't pass a threshold on it
    return [item for item in (*first, *rest) if item.score >= prefs.min_score]


def _items_and_evidence(
    outcome: Outcome, scored: Scored
) -> tuple[list[CandidateItem], list[EvidenceChunk]]:
    """The documents, each shown by the best part of its text, and the evidence."""
    prefs = outcome.request.preferences
    documents = ranked_documents(outcome, scored)
    names = {item.name for item in documents}
    shown = [item for item in outcome.ranked if document_of(item) in names]
    if outcome.request.only_evident:
        evident = {document_of(item) for item in shown}
        documents = [item for item in documents if item.name in evident]
    texts = outcome.texts or _chunk_texts(documents, shown)
    highlighter = Highlighter(prefs.query_text)
    candidates = [
        _candidate(item, *_snippet(item, texts[item.name], prefs, highlighter))
        for item in documents
    ]
    return candidates, [_evidence(item, scored) for item in with_checkpoints(shown)]


def _chunk_texts(
    documents: Sequence[FoundDocument], evidence: Sequence[Ranked]
) -> Mapping[tuple[str, str], str]:
    """The best passage of each document."""
    texts = {item.name: item.best_chunk.text for item in documents}
    return texts | {document_of(item): item.passage.chunk.text for item in reversed(evidence)}


def _evidence(item: Ranked, scored: Scored) -> EvidenceChunk:
    chunk = item.passage.chunk
    legs = leg_scores(item.row, scored.candidates, scored.fused)
    return EvidenceChunk(
        item_id=chunk.document_id,
        chunk_id=chunk.id,
        text=chunk.text,
        start_idx=chunk.start,
        end_idx=chunk.end,
        token_count=chunk.token_count,
        score=item.score,
        score_text=_score(legs.get("text")),
        score_vec=_score(legs.get("semantic")),
        heading_path=list(item.location_fields["heading_path"]),
        anchors=_anchors(item, chunk),
    )


def _anchors(item: Ranked, chunk: Chunk) -> dict[str, object]:
    anchors = {
        "collection": chunk.collection,
        "pages": chunk.pages,
        "rows": item.location_fields["row_range"],
        "items": item.location_fields["item_range"],
        "lines": chunk.lines,
        "element": chunk.element,
        "parent_id": chunk.parent_id,
        "child_id": item.child and item.child.id,
        "parent_content": item.parent and item.parent.text,
        "section": item.section,
        "answerable": item.answerable,
        "evidence": item.evidence,
    }
    return {name: value for name, value in anchors.items() if value is not None}


def _snippet(
    found: FoundDocument, text: str, prefs: RetrievalPrefs, highlighter: Highlighter
) -> tuple[Snippet | None, SnippetFrom]:
    if not text.strip():
        return None, "unknown"
    shown = highlighter.snippet(
        text[:MOST_CHARACTERS],
        language=found.document.language,
        max_chars=prefs.snippet.max_chars,
    )
    return shown, "chunk" if prefs.snippet.prefer_chunk_snippet else "doc"


def _candidate(found: FoundDocument, shown: Snippet | None, origin: SnippetFrom) -> CandidateItem:
    document, text, semantic = found.document, found.legs.get("text"), found.legs.get("semantic")
    return CandidateItem(
        item_id=document.id,
        collection=document.collection,
        language=document.language,
        kind=document.kind,
        source=document.source,
        source_ref=document.source_ref,
        title=document.title,
        summary=document.summary,
        metadata=document.metadata,
        score=found.score,
        score_text=_score(text),
        score_vec=_score(semantic),
        rank_text=text.rank if text else None,
        rank_vec=semantic.rank if semantic else None,
        snippet=shown.text if shown else None,
        snippet_highlights=shown.highlights if shown else (),
        snippet_from=origin,
    )


def _score(leg: LegScore | None) -> float | None:
    return None if leg is None else leg.score
