"""Two followers of one index at once, as two processes would be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lagotto.filters import Eq
from lagotto.indexes.qdrant.driver import QdrantDriver
from lagotto.stores.base import Store
from lagotto.testing.stores import entries

HEAD_START = 2.0
"""Seconds in which a follower that nobody stops would be done."""


async def check_that_one_waits(slow: Store, fast: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is about to write a chunk that the other one sees removed: no ghost stays."""
    reached, go_on = held_upload(monkeypatch)
    await slow.write(await entries())
    slowly = asyncio.create_task(slow.update_indexes())
    assert await asyncio.to_thread(reached.wait, 30)
    assert await fast.delete(Eq("document_id", "truffle")) == ["truffle"]
    quickly = asyncio.create_task(fast.update_indexes())
    await asyncio.wait([quickly], timeout=HEAD_START)
    go_on.set()
    await asyncio.gather(slowly, quickly)
    for store in (slow, fast):
        assert [finding for finding in await store.check() if finding.level == "problem"] == []
        states = (await store.info()).indexes
        assert [state.applied_seq for state in states] == [state.changes for state in states]


def held_upload(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold the first upload: it sets one event, and waits for the other."""
    reached, go_on = threading.Event(), threading.Event()
    usual: Callable[..., Any] = QdrantDriver.upsert

    def held(*args: Any) -> Any:
        if not reached.is_set():
            reached.set()
            go_on.wait(30)
        return usual(*args)

    monkeypatch.setattr(QdrantDriver, "upsert", held)
    return reached, go_on
