"""A search as server-sent events: numbered, with heartbeats, through an orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lagotto.base.protocol import BaseRetriever
from lagotto.errors import LagottoError
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import EvidenceChunk
from lagotto.retrieval.retriever import Retriever
from lagotto.server.operations import Call, operation
from lagotto.server.problems import Problem, problem_of
from lagotto.server.request_body import SearchBody

SOURCES, DEBUG, ANSWER = "rag.sources", "rag.debug", "rag.answer"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to show; `data` is JSON, or records."""

    name: str
    data: Any


Synthesis = Callable[[str, Sequence[EvidenceChunk]], AsyncIterator[str]]
"""Writes an answer to a query from evidence, piece by piece: a DSPy program, a chat model,
anything."""


class PlainOrchestrator:
    """Decides what of a search is shown: the sources, and what a synthesis makes of the evidence.

    The same query and state of the base give the same events.
    """

    def __init__(self, retriever: Retriever, *, synthesis: Synthesis | None = None) -> None:
        self._retriever = retriever
        self._synthesis = synthesis

    async def events(self, ctx: RequestContext, prefs: RetrievalPrefs) -> AsyncIterator[Event]:
        """Sources first; statistics with `debug` only; then the answer in pieces."""
        bundle = await self._retriever.search(ctx, prefs)
        yield Event(SOURCES, {"candidates": bundle.candidates, "degraded": bundle.stats.degraded})
        if prefs.debug:
            yield Event(DEBUG, {"stats": bundle.stats})
        if self._synthesis is not None:
            async for piece in self._synthesis(prefs.query_text, bundle.evidence):
                yield Event(ANSWER, {"text": piece})


MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": heartbeat\n\n"
END = Event("end", {})
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Neither caches nor proxies, nginx for instance, are to hold events back."""


class EventStream(StreamingResponse):
    """The answer with these events, those that the client has had left out.

    A problem on the way is an event `error`. Without one, the last event is `end`, so that a client
    can tell it from a broken connection. TooManyRequests if as many streams are sent as may be.
    """

    def __init__(self, call: Call, events: AsyncIterator[tuple[int, Event]]) -> None:
        super().__init__(_sent(call, events), media_type=MEDIA_TYPE, headers=HEADERS)
        self._streams = call.state.streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._streams.slot():
            await super().__call__(scope, receive, send)


async def _sent(call: Call, events: AsyncIterator[tuple[int, Event]]) -> AsyncIterator[bytes]:
    """The events, heartbeats in silences; they end early when the server is to end."""
    http, state = call.http, call.state
    header = http.headers.get("last-event-id", "")
    last_id = int(header) if header.isascii() and header.isdecimal() and len(header) < 16 else 0
    event_id = 0
    stopping = asyncio.create_task(state.stopping.wait())
    upcoming: asyncio.Future[tuple[int, Event]] | None = None
    try:
        while not state.stopping.is_set():
            upcoming = upcoming or asyncio.ensure_future(anext(events))
            waited: list[asyncio.Future[Any]] = [upcoming, stopping]
            silence = state.settings.heartbeat
            await asyncio.wait(waited, timeout=silence, return_when=asyncio.FIRST_COMPLETED)
            if upcoming.done():
                done, upcoming = upcoming, None
                event_id, event = done.result()
                if event_id > last_id:
                    yield _event_bytes(event_id, event)
            elif not stopping.done():
                yield HEARTBEAT
    except StopAsyncIteration:
        if not state.stopping.is_set():
            yield _event_bytes(event_id + 1, END)
    except (LagottoError, Problem) as exc:
        details = problem_of(exc).details(http.scope["request_id"])
        yield _event_bytes(event_id + 1, Event("error", details))
    finally:
        stopping.cancel()
        if upcoming is not None:
            upcoming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await upcoming


def _event_bytes(event_id: int, event: Event) -> bytes:
    """JSON has no line ends of its own, so an event has one line of data."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event_id, event.name.encode(), to_json(event.data))


@operation("POST /v1/search/stream", None, media_type=MEDIA_TYPE, problems=(429,))
async def search_stream(call: Call, body: SearchBody) -> object:
    """A search as server-sent events.

    A search that is repeated gives the same events, so a client that comes back with
    `Last-Event-ID` gets those that it has missed.
    """
    request = await call.search_request("search")
    orchestrator = PlainOrchestrator(BaseRetriever(call.base, request.vector))

    async def events() -> AsyncIterator[tuple[int, Event]]:
        number = 0
        async with call.slot():
            async for event in orchestrator.events(request.context, request.preferences):
                number += 1
                yield number, event

    return EventStream(call, events())
