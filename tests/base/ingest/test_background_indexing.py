"""Indexes follow in steps while documents are added."""

from __future__ import annotations

import asyncio

import pytest

from lagotto.base.ingest import (
    GROWTH,
    LONGEST_STEP,
    MIN_CHANGES_TO_INDEX,
    SHORTEST_STEP,
    BackgroundIndexing,
)
from lagotto.errors import StoreFullError
from lagotto.stores.memory import MemoryStore


class IndexedStore(MemoryStore):
    """Records each call, and waits inside until it may go on."""

    def __init__(self, *, error: Exception | None = None) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.running = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._error = error

    async def update_indexes(self, *, least: int = 1) -> None:
        self.calls.append(least)
        self.running += 1
        assert self.running == 1, "one step at a time"
        try:
            await self.may_end.wait()
        finally:
            self.running -= 1
        if self._error:
            raise self._error


async def test_nothing_is_indexed_before_there_is_enough() -> None:
    store = IndexedStore()
    indexing = BackgroundIndexing(store)
    indexing.wrote(SHORTEST_STEP - 1)
    await asyncio.sleep(0)
    assert store.calls == []
    indexing.wrote(1)
    await indexing.settle()
    assert store.calls == [1]


async def test_steps_grow_with_what_is_indexed() -> None:
    store = IndexedStore()
    indexing = BackgroundIndexing(store)
    indexing.wrote(4 * GROWTH * LONGEST_STEP)
    await indexing.settle()
    indexing.wrote(LONGEST_STEP - 1)
    await indexing.settle()
    assert store.calls == [1]
    indexing.wrote(1)
    await indexing.settle()
    assert store.calls == [1, 1]


async def test_the_next_step_waits_for_the_one_before() -> None:
    store = IndexedStore()
    store.may_end.clear()
    indexing = BackgroundIndexing(store)
    for _ in range(5):
        indexing.wrote(SHORTEST_STEP)
        await asyncio.sleep(0)
    assert store.calls == [1]
    store.may_end.set()
    await indexing.finish()
    assert store.calls == [1, MIN_CHANGES_TO_INDEX]


async def test_an_index_that_cant_be_written_does_not_stop_an_ingest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    indexing = BackgroundIndexing(IndexedStore(error=StoreFullError("the disk is full")))
    indexing.wrote(SHORTEST_STEP)
    await indexing.finish()
    assert "the disk is full" in caplog.text


async def test_a_cancelled_ingest_gives_up_the_step_that_is_running() -> None:
    """A store interrupts it, and nothing that is closed afterwards is still in use."""
    store = IndexedStore()
    store.may_end.clear()
    indexing = BackgroundIndexing(store)
    indexing.wrote(SHORTEST_STEP)
    waiting = asyncio.create_task(indexing.settle())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert store.running == 1
    await indexing.stop()
    assert store.running == 0


async def test_stopping_after_the_end_does_nothing() -> None:
    store = IndexedStore()
    indexing = BackgroundIndexing(store)
    await indexing.stop()
    indexing.wrote(SHORTEST_STEP)
    await indexing.finish()
    await indexing.stop()
    assert store.calls == [1, MIN_CHANGES_TO_INDEX]
