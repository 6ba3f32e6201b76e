"""HybridRetriever: one search in a store of any kind, and its outcome as a list or a bundle.

The third view, a cited pack, is made by `lagotto.context`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Protocol, runtime_checkable

from lagotto._internal.concurrency import awaited_work, for_each, in_thread, with_checkpoints
from lagotto._internal.memory import paused_collector
from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.documents import DEFAULT_COLLECTION, DocumentRef, Vector
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
    Results,
    RetrievalBundle,
    RetrievalResult,
    SnippetFrom,
    names_of_copies,
)
from lagotto.retrieval.documents import FoundDocument, Highlighter, Snippet
from lagotto.retrieval.explain import Diagnostics, breakdown_fields, leg_scores
from lagotto.retrieval.fusion import HybridScorer, fuse
from lagotto.retrieval.pipeline import Components, Outcome, Scored, Search
from lagotto.retrieval.query.expansion import Expander
from lagotto.retrieval.stages import Ranked, document_of, order_score
from lagotto.retrieval.why_not import WhyNot, examine, known_reason
from lagotto.stores.base import ChunkCacheRepo, ItemRepo, SearchableStore, View, rebuilt

MANY = 1_000
"""Hits for which the garbage collector is paused: it takes half of the time of making 20,000."""

SHOWN = "collection", "language", "kind", "source", "source_ref", "title", "summary", "metadata"
"""What a candidate of a bundle has of its document, besides its id."""

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
    name is created when it is first asked for. With a `generation`, searches of a base that has
    another one by now fail with a RebuiltError: vectors of two models are never compared.
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
        if store is None or embedder is None:
            missing = "a store" if store is None else "an embedder"
            example = "HybridRetriever(store=..., embedder=...)"
            raise ConfigError(f"a retriever needs {missing}: {example}")
        self._generation = generation
        self._named: dict[str, Reranker] = {}
        self._parts = Components(
            store,
            embedder,
            chunker,
            chunk_vectors or ChunkEmbedder(embedder),
            reranker=create_reranker(reranker, embedder=embedder) if reranker else None,
            expander=expander,
            scorer=scorer,
            items=items,
            chunk_cache=chunk_cache,
        )

    async def run(self, request: SearchRequest) -> Outcome:
        """Search. The views of the outcome are `as_list`, `as_bundle` and, for a pack, `as_pack`.

        A request is resolved before, by a caller with preferences of its own.
        """
        with self._span(request) as note:
            async with self._search(request) as search:
                outcome = await search.run()
            note(outcome)
            return outcome

    async def run_many(self, requests: Sequence[SearchRequest]) -> list[Outcome]:
        """The outcomes of `run` for requests with one context, all embedded at once.

        Those with the same filter see the same state of the store; embedding is in no `stats`.
        """
        if not requests:
            return []
        groups: dict[Filter, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(_scope(request), []).append(index)
        outcomes: dict[int, Outcome] = {}
        with self._span(requests[0], one_of_many=True):
            async with cancel_scope(requests[0].context):
                vectors = await self._vectors(requests)
                for where, indices in groups.items():
                    async with self._view(where) as view:
                        for index in indices:
                            request = replace(requests[index], vector=vectors.get(index))
                            components = self._components(request.preferences)
                            search = Search(components, request, view, _diagnostics(request))
                            outcomes[index] = await search.run()
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
        collection = request.document_collection or DEFAULT_COLLECTION
        name = DocumentRef(collection, request.document_id)
        with self._span(request) as note:
            async with self._search(request) as search:
                outcome = await search.run()
                note(outcome)
                results, document = await as_list(outcome), await self._parts.store.get(*name)
                if (known := known_reason(request, name, results, document)) is not None:
                    return known
                assert outcome.scored is not None  # there is a query
                named = (Eq("collection", collection), Eq("document_id", name.id))
                async with self._view(And(_scope(request), *named)) as narrow:
                    return await examine(search, outcome.scored, narrow, results=results)

    async def close(self) -> None:
        """Close the rerankers; the store and the embedder belong to their makers."""
        named, self._named = self._named, {}
        for reranker in filter(None, (*named.values(), self._parts.reranker)):
            await reranker.close()

    @asynccontextmanager
    async def _search(self, request: SearchRequest) -> AsyncIterator[Search]:
        """A search on a view that is open inside; cancelled as its context asks for."""
        if request.vector is None and _is_embedded_as_it_is(request.preferences):
            # Models that run here are loaded while the view is opened and the query planned.
            preload = getattr(self._parts.embedder, "preload", None)
            if preload is not None:
                preload()
        diagnostics = _diagnostics(request)
        async with cancel_scope(request.context), AsyncExitStack() as stack:
            stack.enter_context(awaited_work())
            with diagnostics.stage("view"):
                view = await stack.enter_async_context(self._view(_scope(request)))
            yield Search(self._components(request.preferences), request, view, diagnostics)

    def _span(
        self, request: SearchRequest, *, one_of_many: bool = False
    ) -> AbstractContextManager[Callable[[Outcome], None]]:
        if "opentelemetry.trace" not in sys.modules:
            return nullcontext(lambda outcome: None)
        from lagotto.retrieval.tracing import search_span

        source, model_id = self._parts.store.location, self._parts.embedder.info.model_id
        return search_span(request, source=source, model_id=model_id, one_of_many=one_of_many)

    @asynccontextmanager
    async def _view(self, where: Filter) -> AsyncIterator[View]:
        async with self._parts.store.view(where) as view:
            if self._generation not in (None, view.generation):
                raise rebuilt(self._parts.store.location)
            yield view

    def _components(self, prefs: RetrievalPrefs) -> Components:
        """The parts of a search; its reranker is named or passed by the caller, or of a preset."""
        name, parts = prefs.rerank.reranker, self._parts
        if name is None or (parts.reranker and prefs.is_from_preset("rerank.reranker")):
            return parts
        if name not in self._named:
            self._named[name] = create_reranker(name, embedder=self._parts.embedder)
        return replace(parts, reranker=self._named[name])

    async def _vectors(self, requests: Sequence[SearchRequest]) -> dict[int, Vector]:
        """The vectors of those queries that need one; none if the embedder fails just now."""
        texts = {
            index: request.query
            for index, request in enumerate(requests)
            if _is_embedded_as_it_is(request.preferences)
        }
        try:
            rows = await self._parts.embedder.embed(list(texts.values()), role="query")
        except EmbeddingError:
            return {}  # each search tries by itself, and notes what happens
        return dict(zip(texts, rows, strict=True))


def _diagnostics(request: SearchRequest) -> Diagnostics:
    return Diagnostics(strict=request.preferences.strict, trace_id=request.context.trace_id)


def _is_embedded_as_it_is(prefs: RetrievalPrefs) -> bool:
    """Whether the vector of a query is that of its text: no operators, no answer patterns."""
    plain = prefs.fts.mode == "any" and not prefs.expansion.answers
    embedded = prefs.mode != "keyword" and prefs.vector.embed_query
    return plain and embedded and bool(prefs.query_text.strip())


def _scope(request: SearchRequest) -> Filter:
    prefs = request.preferences
    names = (prefs.collection, request.context.collection)
    inside = [Eq("collection", name) for name in names if name is not None]
    if not inside:
        return prefs.filters
    return And(*inside, *(() if prefs.filters == And() else (prefs.filters,)))


async def as_list(outcome: Outcome) -> Results:
    if outcome.scored is None:
        return Results()
    with outcome.diagnostics.stage("list"):
        hits = await results_of(outcome.ranked, outcome.scored)
        candidates = await results_of(outcome.seen, outcome.scored)
    return Results(hits, candidates=candidates, stats=outcome.stats(hits=len(hits)))


async def results_of(ranked: Sequence[Ranked], scored: Scored) -> list[RetrievalResult]:
    def make(items: Sequence[Ranked]) -> list[RetrievalResult]:
        with paused_collector() if len(items) > MANY else nullcontext():
            ranks = enumerate(with_checkpoints(items), 1)
            return [_as_result(rank, item, scored) for rank, item in ranks]

    return await for_each(make, ranked)


def _as_result(rank: int, item: Ranked, scored: Scored) -> RetrievalResult:
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
        also_in=names_of_copies(document, item.copies),
        breakdown=breakdown_fields(
            item.row,
            scored.candidates,
            scored.fused,
            rerank=item.rerank,
            rerank_score=item.rerank_score,
            rerank_mapped=item.rerank_mapped,
            rerank_share=item.rerank_share,
        ),
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
    items = scored.documents
    first = [replace(item, score=judged[item.name].score) for item in items if item.name in judged]
    # Stable: equal ones keep the fused order.
    first.sort(key=lambda item: -order_score(judged[item.name]))
    rest = [item for item in items if item.name not in judged]
    if outcome.judged is not None and prefs.rerank.min_score is not None:
        rest = []  # what has no verdict can't pass a threshold on it
    return [item for item in (*first, *rest) if item.score >= prefs.min_score]


def _items_and_evidence(
    outcome: Outcome, scored: Scored
) -> tuple[list[CandidateItem], list[EvidenceChunk]]:
    """The documents, each shown by the best part of its text, and the evidence.

    Without texts of its own, a document is shown by its best passage.
    """
    prefs = outcome.request.preferences
    documents = ranked_documents(outcome, scored)
    names = {item.name for item in documents}
    shown = [item for item in outcome.ranked if document_of(item) in names]
    if outcome.request.only_evident:
        evident = {document_of(item) for item in shown}
        documents = [item for item in documents if item.name in evident]
    texts = outcome.texts or {
        **{item.name: item.best_chunk.text for item in documents},
        **{document_of(item): item.passage.chunk.text for item in reversed(shown)},
    }
    highlighter = Highlighter(prefs.query_text)
    candidates = [_candidate(item, texts[item.name], prefs, highlighter) for item in documents]
    return candidates, [_evidence(item, scored) for item in with_checkpoints(shown)]


def _evidence(item: Ranked, scored: Scored) -> EvidenceChunk:
    chunk, location = item.passage.chunk, item.location_fields
    legs = leg_scores(item.row, scored.candidates, scored.fused)
    anchors = {
        "collection": chunk.collection,
        "pages": chunk.pages,
        "rows": location["row_range"],
        "items": location["item_range"],
        "lines": chunk.lines,
        "element": chunk.element,
        "parent_id": chunk.parent_id,
        "child_id": item.child and item.child.id,
        "parent_content": item.parent and item.parent.text,
        "section": item.section,
        "answerable": item.answerable,
        "evidence": item.evidence,
    }
    return EvidenceChunk(
        item_id=chunk.document_id,
        chunk_id=chunk.id,
        text=chunk.text,
        start_idx=chunk.start,
        end_idx=chunk.end,
        token_count=chunk.token_count,
        score=item.score,
        score_text=legs["text"].score if "text" in legs else None,
        score_vec=legs["semantic"].score if "semantic" in legs else None,
        heading_path=list(location["heading_path"]),
        anchors={name: value for name, value in anchors.items() if value is not None},
    )


def _candidate(
    item: FoundDocument, text: str, prefs: RetrievalPrefs, highlighter: Highlighter
) -> CandidateItem:
    document, words, semantic = item.document, item.legs.get("text"), item.legs.get("semantic")
    shown: Snippet | None = None
    origin: SnippetFrom = "unknown"
    if text.strip():
        origin = "chunk" if prefs.snippet.prefer_chunk_snippet else "doc"
        part, most = text[:MOST_CHARACTERS], prefs.snippet.max_chars
        shown = highlighter.snippet(part, language=document.language, max_chars=most)
    return CandidateItem(
        item_id=document.id,
        **{name: getattr(document, name) for name in SHOWN},
        score=item.score,
        score_text=words.score if words else None,
        score_vec=semantic.score if semantic else None,
        rank_text=words.rank if words else None,
        rank_vec=semantic.rank if semantic else None,
        snippet=shown.text if shown else None,
        snippet_highlights=shown.highlights if shown else (),
        snippet_from=origin,
    )
