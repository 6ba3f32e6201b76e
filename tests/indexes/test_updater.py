"""The thread that brings indexes up to date."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lagotto._internal.concurrency import checkpoint
from lagotto.errors import IndexUnavailableError, StoreFullError
from lagotto.indexes import updater
from lagotto.indexes.base import LogPosition
from lagotto.indexes.updater import IndexLocked, IndexUpdater, catch_up_all, retry_while_locked


def until_idle(indexing: IndexUpdater) -> None:
    deadline = time.monotonic() + 60
    while indexing._thread is not None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_many_requests_are_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that come while one runs are served by the next."""
    monkeypatch.setattr(updater, "SHORTEST_PAUSE", 0.01)
    begun, go, runs = threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        runs.append(1)
        begun.set()
        go.wait(60)

    indexing = IndexUpdater(work)
    indexing.request()
    assert begun.wait(60)
    for _ in range(100):
        indexing.request()
    go.set()
    until_idle(indexing)
    assert len(runs) == 2
    assert indexing.problem is None


def test_what_is_requested_is_done_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the pause between two runs."""
    monkeypatch.setattr(updater, "SHORTEST_PAUSE", 3600.0)
    first, runs = threading.Event(), list[int]()

    def work() -> None:
        runs.append(1)
        first.set()

    indexing = IndexUpdater(work)
    indexing.request()
    assert first.wait(60)
    indexing.request()
    indexing.finish()
    assert len(runs) == 2
    assert indexing._thread is None


def test_what_takes_too_long_is_stopped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater, "LONGEST_WAIT", 0.2)
    begun, runs = threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        for _ in range(1_000 if not runs else 0):
            checkpoint()
            time.sleep(0.01)
        runs.append("ended")

    indexing = IndexUpdater(work)
    indexing.request()
    assert begun.wait(60)
    indexing.finish()
    until_idle(indexing)
    assert runs == []
    runs.append("opened again")
    indexing.request()
    until_idle(indexing)
    assert runs == ["opened again", "ended"]
    assert indexing.problem is None


async def test_waiting_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater, "SHORTEST_PAUSE", 3600.0)
    problems: list[StoreFullError | None] = [StoreFullError("full"), None]

    def work() -> None:
        if problem := problems.pop(0):
            raise problem

    indexing = IndexUpdater(work)
    assert isinstance(await indexing.catch_up(), StoreFullError)
    assert await indexing.catch_up() is None
    indexing.finish()


async def test_whoever_stops_waiting_does_not_stop_the_run() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(10)
        done.set()

    indexing = IndexUpdater(work)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await indexing.catch_up()
    go.set()
    assert await asyncio.to_thread(done.wait, 10)
    indexing.finish()


async def test_an_error_of_ours_reaches_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def work() -> None:
        threads.append(threading.current_thread())
        raise ZeroDivisionError

    indexing = IndexUpdater(work)
    with pytest.raises(ZeroDivisionError):
        await indexing.catch_up()
    with pytest.raises(ZeroDivisionError):
        await indexing.catch_up()
    for thread in threads:
        thread.join(10)


async def test_waiting_for_another_process_that_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater, "SHORTEST_PAUSE", 3600.0)
    monkeypatch.setattr(updater, "BETWEEN_ATTEMPTS", 0.01)
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise IndexLocked

    indexing = IndexUpdater(work)
    assert await indexing.catch_up() is None
    assert len(attempts) == 3
    indexing.finish()


async def test_a_base_that_is_closed_leaves_it_to_the_other_process() -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        raise IndexLocked

    indexing = IndexUpdater(work)
    waiting = asyncio.create_task(indexing.catch_up())
    assert await asyncio.to_thread(begun.wait, 10)
    await asyncio.to_thread(indexing.finish)
    assert await asyncio.wait_for(waiting, 10) is None
    assert indexing._thread is None


class FakeIndex:
    """An index behind a network, as far as updaters care."""

    remote = True

    def __init__(self, *, reached: int = 0, down: bool = False) -> None:
        self.reached, self.down = reached, down
        self.calls: list[str] = []

    def refresh(self) -> None:
        if self.down:
            raise IndexUnavailableError("down")

    def applied_seq(self, _: object) -> int:
        return self.reached

    def catch_up(self, _: object) -> None:
        self.refresh()
        self.calls.append("catch_up")

    def compact(self, _: object) -> None:
        self.calls.append("compact")


def lock_held_for(*roles: str) -> Any:
    return lambda role: nullcontext(role not in roles)


LOG: Any = SimpleNamespace(head=LogPosition(9, 0))


def test_an_index_of_another_updater_is_left_alone() -> None:
    text, vectors = FakeIndex(reached=8), FakeIndex()
    indexes: Any = {"text": text, "vectors": vectors}
    with pytest.raises(IndexLocked):
        catch_up_all(indexes, LOG, lock=lock_held_for("text"))
    with pytest.raises(IndexLocked):
        catch_up_all(indexes, LOG, lock=lock_held_for("text"), least=1)
    assert (text.calls, vectors.calls) == ([], ["catch_up", "compact", "catch_up"])
    catch_up_all(indexes, LOG, lock=lock_held_for("text"), least=2)  # it lacks only one
    text.reached = 9
    catch_up_all(indexes, LOG, lock=lock_held_for("text"))
    assert text.calls == []


def test_an_index_that_is_down_does_not_keep_the_others() -> None:
    text, vectors = FakeIndex(down=True), FakeIndex()
    indexes: Any = {"text": text, "vectors": vectors}
    with pytest.raises(IndexUnavailableError):
        catch_up_all(indexes, LOG, lock=lock_held_for())
    with pytest.raises(IndexUnavailableError):
        catch_up_all(indexes, LOG, lock=lock_held_for(), least=1)
    assert vectors.calls == ["catch_up", "compact", "catch_up"]


def test_embedded_indexes_need_no_lock() -> None:
    index: Any = FakeIndex()
    index.remote = False
    catch_up_all({"text": index}, LOG, lock=lock_held_for("text"))
    assert index.calls == ["catch_up", "compact"]


def test_a_blocking_call_waits_for_the_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater, "BETWEEN_ATTEMPTS", 0.01)
    text = FakeIndex()
    indexes: Any = {"text": text}
    held = ["text"]

    def work() -> None:
        try:
            catch_up_all(indexes, LOG, lock=lock_held_for(*held), least=1)
        finally:
            held.clear()

    retry_while_locked(work)
    assert text.calls == ["catch_up"]


async def test_what_nobody_waits_for_leaves_searches_a_head_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(updater, "HEAD_START", 3600.0)
    runs = list[int]()
    indexing = IndexUpdater(lambda: runs.append(1))
    indexing.request()
    await asyncio.sleep(0.05)
    assert runs == []
    assert await indexing.catch_up() is None  # a call that waits does not
    assert runs == [1]
    indexing.finish()


async def test_a_call_that_waits_starts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater, "HEAD_START", 3600.0)
    indexing = IndexUpdater(lambda: None)
    assert await asyncio.wait_for(indexing.catch_up(), 60) is None
    indexing.finish()
