"""The stream of a search: R4's mapping, heartbeats, resuming, and its end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import EvidenceChunk
from lagotto.server.events import ANSWER, DEBUG, SOURCES, Event, EventStream, PlainOrchestrator
from lagotto.server.operations import ANONYMOUS, Call
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import DOCUMENTS, Running, serving, wait_until
from tests.server.test_request_body import WaitingEmbedder


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        await base.add(*DOCUMENTS)
        yield base


async def events_of(orchestrator: PlainOrchestrator, **settings: Any) -> list[Event]:
    prefs = RetrievalPrefs(query_text="truffles", **settings)
    return [event async for event in orchestrator.events(RequestContext(), prefs)]


async def test_sources_are_shown_and_evidence_is_not(base: AsyncKnowledgeBase) -> None:
    orchestrator = PlainOrchestrator(base.retriever)
    (shown,) = await events_of(orchestrator)
    bundle = await base.search("truffles")
    assert shown.name == SOURCES
    assert shown.data["candidates"] == bundle.candidates


async def test_statistics_with_debug_only(base: AsyncKnowledgeBase) -> None:
    orchestrator = PlainOrchestrator(base.retriever)
    sources, debug = await events_of(orchestrator, debug=True)
    assert (sources.name, debug.name) == (SOURCES, DEBUG)
    assert debug.data["stats"].timing_ms["total"] > 0


async def test_evidence_is_the_context_of_a_synthesis(base: AsyncKnowledgeBase) -> None:
    given: list[EvidenceChunk] = []

    async def synthesis(query: str, evidence: Sequence[EvidenceChunk]) -> AsyncIterator[str]:
        given.extend(evidence)
        for word in ("Dogs ", "find them."):
            yield word

    events = await events_of(PlainOrchestrator(base.retriever, synthesis=synthesis))
    assert [event.name for event in events] == [SOURCES, ANSWER, ANSWER]
    assert given == (await base.search("truffles")).evidence


EMBEDDER = WaitingEmbedder()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(embedder=EMBEDDER, heartbeat=0.1) as running:
        yield running


def parsed(text: str) -> list[tuple[int, str, Any]]:
    """The events in a stream: number, name, data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


def test_the_stream(server: Running) -> None:
    answer = server.post("/v1/search/stream", {"query": "truffles", "debug": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = parsed(answer.text)
    assert [(number, name) for number, name, _ in events] == [
        (1, "rag.sources"),
        (2, "rag.debug"),
        (3, "end"),
    ]
    bundle = server.post("/v1/search", {"query": "truffles"}).json()
    assert events[0][2]["candidates"] == bundle["candidates"]
    assert "evidence" not in events[0][2]
    assert events[1][2]["stats"]["timing_ms"]["total"] > 0
    quiet = parsed(server.post("/v1/search/stream", {"query": "truffles"}).text)
    assert [name for _, name, _ in quiet] == ["rag.sources", "end"]


def test_a_client_that_comes_back_gets_the_rest(server: Running) -> None:
    body = {"query": "truffles", "debug": True}
    answer = server.http.post("/v1/search/stream", json=body, headers={"Last-Event-ID": "1"})
    assert [name for _, name, _ in parsed(answer.text)] == ["rag.debug", "end"]


def test_problems(server: Running) -> None:
    answer = server.post("/v1/search/stream", {"query": "wait", "timeout": 2})
    ((_, name, data),) = parsed(answer.text)
    assert (name, data["error"], data["status"]) == ("error", "DeadlineExceeded", 504)
    wrong = server.post("/v1/search/stream", {"query": "a", "top_k": 0})
    assert wrong.status_code == 422


@contextmanager
def lines_of_a_search(server: Running) -> Iterator[Iterator[str]]:
    """The lines of a stream that does not end by itself."""
    body, path = {"query": "wait"}, f"{server.url}/v1/search/stream"
    with httpx.stream("POST", path, json=body, timeout=60) as answer:
        lines = answer.iter_lines()  # would close the connection if it were gone
        yield lines


def test_a_stream_ends_with_the_server() -> None:
    embedder = WaitingEmbedder()
    with serving(embedder=embedder, heartbeat=0.05) as own:
        with lines_of_a_search(own) as lines:
            assert next(lines) == ": heartbeat"
            own.loop.call_soon_threadsafe(own.state.stopping.set)
            assert "event: end" not in list(lines)
        assert embedder.cancelled.wait(60)
        assert own.http.get("/readyz").status_code == 503


def test_streams_have_places_of_their_own() -> None:
    """Who is sent away is told when to come back; one that ends makes room, however it ends."""
    embedder = WaitingEmbedder()
    with serving(embedder=embedder, heartbeat=0.05, streams=1) as own:
        with lines_of_a_search(own) as lines:
            assert next(lines) == ": heartbeat"
            refused = own.post("/v1/search/stream", {"query": "dog"})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert own.post("/v1/retrieve", {"query": "dog"}).status_code == 200
        assert embedder.cancelled.wait(60)
        wait_until(lambda: own.state.streams.working == 0)
        own.call(left_before_it_begins(own))
        assert own.state.streams.working == 0
        assert own.post("/v1/search/stream", {"query": "dog"}).status_code == 200


async def left_before_it_begins(server: Running) -> None:
    """A stream whose client is gone when the first byte is sent."""

    async def events() -> AsyncIterator[tuple[int, Event]]:
        yield 1, Event(SOURCES, {})

    async def gone(_: object = None) -> Any:
        raise OSError("the connection is gone")

    http = Request({"type": "http", "headers": [], "request_id": "r"})
    stream = EventStream(Call(http, server.state, ANONYMOUS), events())
    with pytest.raises((OSError, ClientDisconnect)):
        await stream({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)


def test_heartbeats_until_the_client_leaves_which_cancels_the_search(server: Running) -> None:
    EMBEDDER.entered.clear()
    EMBEDDER.cancelled.clear()
    with lines_of_a_search(server) as lines:
        assert [next(lines) for _ in range(4)] == [": heartbeat", "", ": heartbeat", ""]
        assert EMBEDDER.entered.wait(60)
        assert not EMBEDDER.cancelled.is_set()
    assert EMBEDDER.cancelled.wait(60)
