"""Bases and views with documents in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lagotto import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.filters import And
from lagotto.stores.base import Entry, View
from lagotto.stores.memory import MemoryStore
from lagotto.testing.stores import entry


@asynccontextmanager
async def base_of(
    *documents: Any, location: Any = ":memory:", **settings: Any
) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base, open, with a document or several."""
    async with AsyncKnowledgeBase(location, **settings) as base:
        await base.add(*documents)
        yield base


@asynccontextmanager
async def view_of(*documents: Document | Entry) -> AsyncIterator[View]:
    """A view of a store in memory that has these documents."""
    store = MemoryStore()
    for one in documents:
        await store.write([one if isinstance(one, Entry) else await entry(one)])
    async with store.view(And()) as view:
        yield view
