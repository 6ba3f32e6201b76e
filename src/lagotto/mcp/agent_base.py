"""A base as agents see it: what the tools ask, whether the base is a file or on a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from lagotto.base.client import AsyncClient
from lagotto.base.ingest import AddReport
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.context import ContextPack
from lagotto.documents import Document
from lagotto.errors import DeadlineExceeded, LagottoError
from lagotto.filters import And, Eq, Filter, Gt, Or
from lagotto.mcp.documents import DocumentAddress
from lagotto.request_context import RequestContext
from lagotto.results import Results

TIMEOUT = 60.0
"""Seconds for a call."""


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """What to search for, and where."""

    query: str
    top_k: int
    collection: str | None = None
    filters: dict[str, Any] | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of a search, without the query."""
        return {"top_k": self.top_k, "collection": self.collection, "filters": self.filters}


class AgentBase(Protocol):
    """What the tools need.

    Every method shows what the caller may see and nothing else. `writes` is whether the tools that
    change the base are there; it must also be checked where they are carried out.
    """

    @property
    def writes(self) -> bool:
        """Whether documents may be added and removed."""
        ...

    def admission(self) -> AbstractAsyncContextManager[None]:
        """Work on one call inside: it may have to wait for others, and has a deadline."""
        ...

    def message(self, error: Exception) -> str | None:
        """What an agent is told of an error; None for one that is not foreseen."""
        ...

    async def retrieve(self, question: AgentQuestion) -> Results:
        """The best passages."""
        ...

    async def context(self, question: AgentQuestion, *, max_tokens: int) -> ContextPack:
        """The best passages with what is around them, in about so many tokens."""
        ...

    async def get(self, name: DocumentAddress) -> Document | None:
        """A document with its text."""
        ...

    async def documents(self, *, after: DocumentAddress | None, limit: int) -> list[Document]:
        """Documents without their texts, by collection and id, those after a name."""
        ...

    async def collections(self) -> dict[str, int]:
        """The number of documents in each collection."""
        ...

    async def add(self, document: Document) -> AddReport:
        """Add a document; a ReplaceRefusedError in the report if there is one with its id."""
        ...

    async def remove(self, name: DocumentAddress) -> bool:
        """Remove a document; whether there was one."""
        ...


class OpenBase:
    """A base of one's own, or one on a server, with all that its key allows."""

    def __init__(self, base: AsyncKnowledgeBase | AsyncClient, *, writes: bool = False) -> None:
        self._base = base
        self.writes = writes

    @asynccontextmanager
    async def admission(self) -> AsyncIterator[None]:
        """Work inside, at once, until the deadline."""
        try:
            async with asyncio.timeout(TIMEOUT):
                yield
        except TimeoutError:
            raise DeadlineExceeded(f"the call took longer than {TIMEOUT:g} s") from None

    def message(self, error: Exception) -> str | None:
        """What an agent is told of an error."""
        return str(error) if isinstance(error, LagottoError) else None

    async def retrieve(self, question: AgentQuestion) -> Results:
        """The best passages."""
        request = RequestContext(timeout=TIMEOUT)
        return await self._base.retrieve(question.query, request=request, **question.arguments())

    async def context(self, question: AgentQuestion, *, max_tokens: int) -> ContextPack:
        """The best passages with what is around them."""
        return await self._base.context(
            question.query,
            max_tokens=max_tokens,
            request=RequestContext(timeout=TIMEOUT),
            **question.arguments(),
        )

    async def get(self, name: DocumentAddress) -> Document | None:
        """A document with its text."""
        return await self._base.get(name.document_id, collection=name.collection)

    async def documents(self, *, after: DocumentAddress | None, limit: int) -> list[Document]:
        """Documents without their texts, those after a name."""
        found: list[Document] = []
        async for document in self._base.iter_documents(filters=_later(after)):
            found.append(document)
            if len(found) == limit:
                break
        return found

    async def collections(self) -> dict[str, int]:
        """The number of documents in each collection."""
        return await self._base.collections()

    async def add(self, document: Document) -> AddReport:
        """Add a document, unless there is one with its id."""
        return await self._base._add_new(document)

    async def remove(self, name: DocumentAddress) -> bool:
        """Remove a document."""
        return bool(await self._base.remove(name.document_id, collection=name.collection))


def _later(name: DocumentAddress | None) -> Filter | None:
    if name is None:
        return None
    same = And(Eq("collection", name.collection), Gt("document_id", name.document_id))
    return Or(Gt("collection", name.collection), same)
