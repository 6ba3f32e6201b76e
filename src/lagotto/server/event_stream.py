"""Server-sent events: numbered, with heartbeats, and with an end when the server ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lagotto.errors import LagottoError
from lagotto.server.events import Event
from lagotto.server.problems import Problem, problem_of
from lagotto.server.state import ServerState

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": heartbeat\n\n"
END = Event("end", {})
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Neither caches nor proxies, nginx for instance, are to hold events back."""


def last_event_id(http: HttpRequest) -> int:
    """The number of the last event that the client has had; 0 for none."""
    given = http.headers.get("last-event-id", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else 0


async def event_stream(
    http: HttpRequest, state: ServerState, events: AsyncIterator[tuple[int, Event]]
) -> StreamingResponse:
    """The answer with these events, those that the client has had left out.

    A problem on the way is an event `error`. Without one, the last event is `end`, so that a client
    can tell it from a broken connection.
    """
    place = AsyncExitStack()
    await place.enter_async_context(state.streams.place())
    return _EventResponse(_sent(http, state, events), place)


class _EventResponse(StreamingResponse):
    """A stream that gives its place back when it ends, even if its client left before it began."""

    def __init__(self, sent: AsyncIterator[bytes], place: AsyncExitStack) -> None:
        super().__init__(sent, media_type=MEDIA_TYPE, headers=HEADERS)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._place:
            await super().__call__(scope, receive, send)


async def _sent(
    http: HttpRequest, state: ServerState, events: AsyncIterator[tuple[int, Event]]
) -> AsyncIterator[bytes]:
    had, number = last_event_id(http), 0
    try:
        async for found in _with_heartbeats(events, state):
            if found is None:
                yield HEARTBEAT
                continue
            number, event = found
            if number > had:
                yield _written(number, event)
    except (LagottoError, Problem) as exc:
        problem = exc if isinstance(exc, Problem) else problem_of(exc)
        details = problem.details(http.scope["request_id"])
        yield _written(number + 1, Event("error", details))
        return
    if not state.stopping.is_set():
        yield _written(number + 1, END)


async def _with_heartbeats(
    events: AsyncIterator[tuple[int, Event]], state: ServerState
) -> AsyncIterator[tuple[int, Event] | None]:
    """The events, None after each silence; they end early when the server is to end."""
    stopping = asyncio.create_task(state.stopping.wait())
    following: asyncio.Future[tuple[int, Event]] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events))
            waited: list[asyncio.Future[Any]] = [following, stopping]
            await asyncio.wait(
                waited,
                timeout=state.settings.heartbeat,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if following.done():
                done, following = following, None
                try:
                    yield done.result()
                except StopAsyncIteration:
                    return
            elif stopping.done():
                return
            else:
                yield None
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await following


def _written(number: int, event: Event) -> bytes:
    """JSON has no line ends of its own, so an event has one line of data."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, event.name.encode(), to_json(event.data))
