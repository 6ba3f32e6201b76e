"""Events of a search, for user interfaces. The retriever knows nothing of them.

| result of the retriever | event |
| --- | --- |
| candidates | `rag.sources` |
| stats, if `debug` is set | `rag.debug` |
| evidence | none: it is the context of a synthesis step |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import EvidenceChunk
from lagotto.retrieval.base import Retriever

SOURCES, DEBUG, ANSWER = "rag.sources", "rag.debug", "rag.answer"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to show; `data` is JSON, or records."""

    name: str
    data: Any


class Synthesis(Protocol):
    """Writes an answer from evidence, piece by piece: a DSPy program, a chat model, anything."""

    def __call__(self, query: str, evidence: Sequence[EvidenceChunk]) -> AsyncIterator[str]:
        """The pieces of the answer."""
        ...


@runtime_checkable
class Orchestrator(Protocol):
    """Decides what is done with a query, and what of it is shown."""

    def events(self, ctx: RequestContext, prefs: RetrievalPrefs) -> AsyncIterator[Event]:
        """The events, in order; the same ones for the same query and state of the base."""
        ...


class PlainOrchestrator:
    """Searches, shows the sources, and hands the evidence to a synthesis, if there is one."""

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
