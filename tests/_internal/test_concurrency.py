from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from lagotto import AsyncKnowledgeBase, Document
from lagotto._internal import concurrency
from lagotto._internal.concurrency import (
    available_cpus,
    awaited_work,
    checkpoint,
    give_way,
    in_thread,
    interruptible,
    run_all,
)
from lagotto.documents import Vectors
from lagotto.embedders.base import Role
from lagotto.testing.hash_embedder import HashEmbedder


async def test_every_job_runs_once_and_no_more_than_allowed_at_once() -> None:
    running, most, done = 0, 0, list[int]()

    async def run(job: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        done.append(job)
        running -= 1

    await run_all(range(20), run, workers=3)
    assert sorted(done) == list(range(20))
    assert most == 3


async def test_no_jobs() -> None:
    async def run(job: int) -> None:
        raise AssertionError(job)

    await run_all([], run, workers=2)


async def test_the_first_failure_stops_the_rest() -> None:
    started = list[int]()

    async def run(job: int) -> None:
        started.append(job)
        if job == 1:
            raise ValueError("job 1")
        await asyncio.sleep(0.01)

    with pytest.raises(ValueError, match="job 1"):
        await run_all(range(100), run, workers=2)
    await asyncio.sleep(0.03)
    assert started == [0, 1]


async def test_a_cancellation_stops_the_rest() -> None:
    started, both = list[int](), asyncio.Event()

    async def run(job: int) -> None:
        started.append(job)
        if len(started) == 2:
            both.set()
        await asyncio.sleep(3600)

    task = asyncio.ensure_future(run_all(range(100), run, workers=2))
    await both.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started == [0, 1]


def test_there_is_a_cpu() -> None:
    assert available_cpus() >= 1


async def test_a_thread_gives_what_its_function_gives() -> None:
    assert await in_thread(max, 3, 7) == 7
    assert await in_thread(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)


async def test_a_cancellation_waits_for_the_thread() -> None:
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        may_end.wait(timeout=10)
        ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_is_cancelled_while_it_waits_for_a_thread_is_never_started() -> None:
    may_end, entered, calls = threading.Event(), threading.Event(), list[str]()
    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))

    def busy() -> None:
        entered.set()
        may_end.wait(60)

    with ThreadPoolExecutor(1) as executor:
        executor.submit(busy)
        entered.wait(60)
        waiting = asyncio.create_task(
            interruptible(lambda: calls.append("ran"), interrupt=lambda: None, executor=executor)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait([waiting], timeout=60)
        may_end.set()
    assert done
    assert waiting.cancelled()
    del waiting, done
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)
    assert calls == logged == []


async def test_an_interrupt_ends_the_thread_before_the_cancellation_goes_on() -> None:
    started, stop, ended = threading.Event(), threading.Event(), list[bool]()

    def call() -> None:
        started.set()
        ended.append(stop.wait(60))

    task = asyncio.create_task(interruptible(call, interrupt=stop.set))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_the_error_of_an_interrupted_call_is_not_logged() -> None:
    """The call fails because it was interrupted; nobody waits for that any more."""
    started, interrupted, logged = threading.Event(), threading.Event(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))

    def call() -> None:
        started.set()
        interrupted.wait(10)
        raise ValueError("interrupted")

    task = asyncio.ensure_future(interruptible(call, interrupt=interrupted.set))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert logged == []


async def test_a_cancelled_thread_ends_at_its_next_checkpoint() -> None:
    turns, started = list[int](), threading.Event()

    def work() -> None:
        for turn in range(100_000):
            checkpoint()
            turns.append(turn)
            started.set()
            time.sleep(0.001)

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(turns) < 10_000


async def test_a_checkpoint_elsewhere_does_nothing() -> None:
    checkpoint()
    await in_thread(checkpoint)
    await asyncio.to_thread(checkpoint)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each pause was."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def test_loops_give_way_only_to_awaited_work(pauses: list[float]) -> None:
    give_way()
    assert pauses == []
    with awaited_work():
        with awaited_work():
            give_way()
        give_way()
    with pytest.raises(ValueError, match="failed"), awaited_work():
        raise ValueError("failed")
    give_way()
    assert pauses == [0, 0]


class Asked(HashEmbedder):
    """Notes whether work is awaited while it embeds."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.awaited = bool(concurrency._awaited)
        return await super().embed(texts, role=role)


async def test_searches_are_awaited() -> None:
    embedder = Asked()
    async with AsyncKnowledgeBase(":memory:", embedder=embedder) as base:
        await base.add(Document(id="a", text="truffles"))
        assert not embedder.awaited
        await base.retrieve("truffles")
        assert embedder.awaited
    assert not concurrency._awaited
