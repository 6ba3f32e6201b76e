"""Searches as spans of OpenTelemetry, by its conventions for generative AI.

Spans are made if the program has loaded OpenTelemetry: nobody could receive them otherwise, and
Lagotto does not load it by itself. The conventions are those of retrievals, in development:
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lagotto import __version__
from lagotto.documents import Vector
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import Results, RetrievalBundle, RetrievalStats
from lagotto.retrieval.retriever import HybridRetriever, PackMaterial
from lagotto.retrieval.why_not import WhyNot

if TYPE_CHECKING:
    from opentelemetry.trace import Span


CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which instrumentations of this kind are allowed to record texts."""
ALLOWED = ("true", "span_only", "span_and_event")


class TracedRetriever(HybridRetriever):
    """A HybridRetriever whose searches are spans; queries and documents only if allowed."""

    async def retrieve(
        self,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> Results:
        """The best passages."""
        with self._span(prefs, prefs.top_k) as span:
            found = await super().retrieve(prefs, query_vector=query_vector, ctx=ctx)
            span.note_results(found)
            return found

    async def retrieve_many(
        self, queries: Sequence[RetrievalPrefs], *, ctx: RequestContext | None = None
    ) -> list[Results]:
        """The best passages for each query; one span, which has no query and no documents."""
        if not queries:
            return await super().retrieve_many(queries, ctx=ctx)
        with self._span(queries[0].replace(query_text=""), queries[0].top_k):
            return await super().retrieve_many(queries, ctx=ctx)

    async def search(
        self, ctx: RequestContext, prefs: RetrievalPrefs, *, query_vector: Vector | None = None
    ) -> RetrievalBundle:
        """The best documents, and passages in them."""
        with self._span(prefs, prefs.top_k_chunks) as span:
            found = await super().search(ctx, prefs, query_vector=query_vector)
            hits = [(item.item_id, item.score) for item in found.candidates]
            span.note(hits, found.stats)
            return found

    async def pack_material(
        self,
        prefs: RetrievalPrefs,
        *,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> PackMaterial:
        """What a pack is made from."""
        with self._span(prefs, prefs.top_k) as span:
            found = await super().pack_material(prefs, query_vector=query_vector, ctx=ctx)
            span.note_results(found.results)
            return found

    async def why_not(
        self,
        prefs: RetrievalPrefs,
        *,
        collection: str,
        document_id: str,
        query_vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> WhyNot:
        """Why a document is not among the best."""
        with self._span(prefs, prefs.top_k) as span:
            found = await super().why_not(
                prefs,
                collection=collection,
                document_id=document_id,
                query_vector=query_vector,
                ctx=ctx,
            )
            span.note_results(found.results)
            return found

    @contextmanager
    def _span(self, prefs: RetrievalPrefs, top_k: int) -> Iterator[RetrievalSpan]:
        if "opentelemetry.trace" not in sys.modules:
            yield RetrievalSpan(None)
            return
        from opentelemetry import trace

        source = self._store.location
        attributes: dict[str, str | float] = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": source,
            "gen_ai.request.top_k": float(top_k),
        }
        if prefs.mode != "keyword":
            attributes["gen_ai.request.model"] = self._embedder.info.model_id
        if _may_record() and prefs.query_text:
            attributes["gen_ai.retrieval.query.text"] = prefs.query_text
        with trace.get_tracer("lagotto", __version__).start_as_current_span(
            f"retrieval {source}",
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,  # messages and stack traces may have texts
            set_status_on_exception=False,
        ) as span:
            try:
                yield RetrievalSpan(span)
            except (Exception, asyncio.CancelledError) as exc:
                span.set_attribute("error.type", type(exc).__name__)
                span.set_status(trace.StatusCode.ERROR)
                raise


class RetrievalSpan:
    """The span of one search, None if there is nobody to tell."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def note_results(self, found: Results) -> None:
        """Record what was found: a list of passages."""
        self.note([(hit.document_id, hit.score) for hit in found], found.stats)

    def note(self, hits: Iterable[tuple[str, float]], stats: RetrievalStats) -> None:
        """Record what was found, and what the search says of itself."""
        if self._span is None:
            return
        if stats.degraded:
            self._span.set_attribute("lagotto.degraded", [_part(note) for note in stats.degraded])
        for stage, milliseconds in stats.timing_ms.items():
            self._span.set_attribute(f"lagotto.duration.{stage}", milliseconds / 1000)
        if _may_record():
            documents = [{"id": name, "score": score} for name, score in hits]
            self._span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))


def _may_record() -> bool:
    """Whether queries and the ids of documents may be recorded."""
    return os.environ.get(CONTENT, "").lower() in ALLOWED


def _part(note: str) -> str:
    """What a search went on without; the rest of the note may have words of the query."""
    return note.partition(":")[0]
