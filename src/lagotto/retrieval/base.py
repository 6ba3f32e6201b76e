"""The protocol of retrievers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import RetrievalBundle


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
