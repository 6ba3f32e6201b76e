"""The thread that brings indexes up to date."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from lagotto.errors import StoreFullError
from lagotto.stores import index_follower as follower
from lagotto.stores.index_follower import IndexFollower


def until_idle(following: IndexFollower) -> None:
    deadline = time.monotonic() + 10
    while following._thread is not None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_many_requests_are_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "SHORTEST_PAUSE", 0.05)
    runs: list[float] = []
    following = IndexFollower(lambda: runs.append(time.monotonic()))
    for _ in range(100):
        following.request()
    until_idle(following)
    assert 1 <= len(runs) <= 2
    assert following.problem is None


def test_what_is_requested_is_done_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the pause between two runs."""
    monkeypatch.setattr(follower, "SHORTEST_PAUSE", 3600.0)
    first, runs = threading.Event(), list[int]()

    def work() -> None:
        runs.append(1)
        first.set()

    following = IndexFollower(work)
    following.request()
    assert first.wait(10)
    following.request()
    following.finish()
    assert len(runs) == 2
    assert following._thread is None


async def test_waiting_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "SHORTEST_PAUSE", 3600.0)
    problems: list[StoreFullError | None] = [StoreFullError("full"), None]

    def work() -> None:
        if problem := problems.pop(0):
            raise problem

    following = IndexFollower(work)
    assert isinstance(await following.catch_up(), StoreFullError)
    assert await following.catch_up() is None
    following.finish()


async def test_whoever_stops_waiting_does_not_stop_the_run() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(10)
        done.set()

    following = IndexFollower(work)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await following.catch_up()
    go.set()
    assert await asyncio.to_thread(done.wait, 10)
    following.finish()


async def test_an_error_of_ours_reaches_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def work() -> None:
        threads.append(threading.current_thread())
        raise ZeroDivisionError

    following = IndexFollower(work)
    with pytest.raises(ZeroDivisionError):
        await following.catch_up()
    with pytest.raises(ZeroDivisionError):
        await following.catch_up()
    for thread in threads:
        thread.join(10)
