"""Searches as spans of OpenTelemetry, by its conventions for generative AI.

Spans are made if the program has loaded OpenTelemetry: nobody could receive them otherwise, and
Lagotto does not load it by itself. The conventions are those of retrievals, in development:
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from opentelemetry import trace

from lagotto import __version__
from lagotto.prefs import SearchRequest
from lagotto.retrieval.pipeline import Outcome, SearchSize
from lagotto.retrieval.retriever import ranked_documents

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which instrumentations of this kind are allowed to record texts."""
ALLOWED = ("true", "span_only", "span_and_event")


@contextmanager
def search_span(
    request: SearchRequest, *, source: str, model_id: str, one_of_many: bool = False
) -> Iterator[Callable[[Outcome], None]]:
    """The span of a search in the base `source`, as a function that records its outcome.

    A span for many searches has the settings of the first, and no query. Texts are recorded only
    if they are allowed.
    """
    attributes: dict[str, str | float] = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": source,
        "gen_ai.request.top_k": float(SearchSize.of(request).passages),
    }
    if request.preferences.mode != "keyword":
        attributes["gen_ai.request.model"] = model_id
    if _may_record() and request.query and not one_of_many:
        attributes["gen_ai.retrieval.query.text"] = request.query
    with trace.get_tracer("lagotto", __version__).start_as_current_span(
        f"retrieval {source}",
        kind=trace.SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,  # messages and stack traces may have texts
        set_status_on_exception=False,
    ) as span:
        try:
            yield partial(_note, span)
        except (Exception, asyncio.CancelledError) as exc:
            span.set_attribute("error.type", type(exc).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise


def _note(span: trace.Span, outcome: Outcome) -> None:
    if outcome.scored is None:
        return
    stats = outcome.stats()
    if stats.degraded:
        # What a search went on without; the rest of a note may have words of the query.
        parts = [note.partition(":")[0] for note in stats.degraded]
        span.set_attribute("lagotto.degraded", parts)
    for stage, milliseconds in stats.timing_ms.items():
        span.set_attribute(f"lagotto.duration.{stage}", milliseconds / 1000)
    if _may_record():
        if outcome.request.verb == "search":
            documents = ranked_documents(outcome, outcome.scored)
            records = [{"id": item.document.id, "score": item.score} for item in documents]
        else:
            ranked = outcome.ranked
            records = [{"id": item.passage.document.id, "score": item.score} for item in ranked]
        span.set_attribute("gen_ai.retrieval.documents", json.dumps(records))


def _may_record() -> bool:
    return os.environ.get(CONTENT, "").lower() in ALLOWED
