"""Searches as spans, received by an exporter in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import DeadlineExceeded
from lagotto.request_context import RequestContext
from lagotto.retrieval.tracing import CONTENT
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import serving


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    monkeypatch.delenv(CONTENT, raising=False)
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        await base.add(Document(id="dog", text="A water dog finds truffles."))
        yield base


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (found,) = spans.get_finished_spans()
    spans.clear()
    return found


async def test_a_span_per_search(base: AsyncKnowledgeBase, spans: InMemorySpanExporter) -> None:
    await base.retrieve("truffles", top_k=7, debug=True)
    span = only(spans)
    assert (span.name, span.kind) == ("retrieval :memory:", SpanKind.CLIENT)
    assert span.status.status_code == StatusCode.UNSET
    attributes = dict(span.attributes or {})
    durations = [name for name in attributes if name.startswith("lagotto.duration.")]
    assert "lagotto.duration.total" in durations
    assert {name: attributes[name] for name in attributes if name not in durations} == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": ":memory:",
        "gen_ai.request.top_k": 7.0,
        "gen_ai.request.model": "hash",
    }


async def test_every_verb_is_one_span(
    base: AsyncKnowledgeBase, spans: InMemorySpanExporter
) -> None:
    await base.search("truffles", top_k=3)
    assert (only(spans).attributes or {})["gen_ai.request.top_k"] == 3.0
    await base.context("truffles")
    only(spans)
    await base.why_not("truffles", "dog")
    only(spans)
    await base.retrieve_many(["truffles", "dogs"])
    only(spans)
    await base.retrieve("truffles", mode="keyword")
    assert "gen_ai.request.model" not in (only(spans).attributes or {})


async def test_texts_are_recorded_only_if_allowed(
    base: AsyncKnowledgeBase, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await base.search("truffles")
    assert "truffles" not in only(spans).to_json()
    monkeypatch.setenv(CONTENT, "SPAN_ONLY")
    found = await base.search("truffles")
    attributes = only(spans).attributes or {}
    assert attributes["gen_ai.retrieval.query.text"] == "truffles"
    documents = json.loads(str(attributes["gen_ai.retrieval.documents"]))
    assert documents == [{"id": "dog", "score": found.candidates[0].score}]


async def test_errors(base: AsyncKnowledgeBase, spans: InMemorySpanExporter) -> None:
    with pytest.raises(DeadlineExceeded):
        await base.retrieve("truffles", request=RequestContext(timeout=1e-9))
    span = only(spans)
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "DeadlineExceeded"
    assert span.events == ()


def test_a_server_goes_on_with_the_trace_of_its_caller(spans: InMemorySpanExporter) -> None:
    caller = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with serving() as server:
        body = {"query": "truffles"}
        server.http.post("/v1/retrieve", json=body, headers={"traceparent": caller})
        span = only(spans)
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == "ab" * 16
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == "cd" * 8
        server.post("/v1/retrieve", body)
        assert only(spans).parent is None


def test_without_the_package() -> None:
    """Nothing loads OpenTelemetry, and nothing needs it."""
    program = """
import sys
sys.modules["opentelemetry"] = None
from lagotto import Document, KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder
with KnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
    kb.add(Document(id="dog", text="A water dog."))
    assert kb.retrieve("dog")[0].document_id == "dog"
assert "opentelemetry.trace" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
