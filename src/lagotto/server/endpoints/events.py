"""A search as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import RetrievalBundle
from lagotto.server.bodies import SearchBody
from lagotto.server.event_stream import MEDIA_TYPE, event_stream
from lagotto.server.events import Event, PlainOrchestrator
from lagotto.server.operations import Call, Operation
from lagotto.server.scoped_base import Planned


async def search_stream(call: Call) -> object:
    """Answer with the events of a search.

    A search that is repeated gives the same events, so a client that comes back with
    `Last-Event-ID` gets those that it has missed.
    """
    planned = call.base.plan("search", call.body)
    orchestrator = PlainOrchestrator(_Observed(call, planned))

    async def events() -> AsyncIterator[tuple[int, Event]]:
        number = 0
        async with call.state.gate.place():
            async for event in orchestrator.events(call.context, planned.prefs):
                number += 1
                yield number, event

    return await event_stream(call.http, call.state, events())


@dataclass(frozen=True, slots=True)
class _Observed:
    """A Retriever that sees what the caller sees, and whose searches are counted."""

    call: Call
    planned: Planned

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        work = self.call.base.search(replace(self.planned, prefs=prefs), ctx)
        return await self.call.state.observed(self.call.http, self.planned, work)


OPERATIONS = (
    Operation(
        "POST", "/v1/search/stream", "searchStream", "A search as server-sent events.",
        search_stream, None, body=SearchBody, media_type=MEDIA_TYPE, problems=(429,),
    ),
)  # fmt: skip
