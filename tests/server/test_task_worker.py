"""Tasks without a server: leases, processes that die or come back, and how long what is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from lagotto.documents import Document
from lagotto.ingest import AddReport
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.server.access import Access
from lagotto.server.problems import Problem
from lagotto.server.settings import ServerSettings
from lagotto.server.task_worker import TaskRun, TaskWorker
from lagotto.server.tasks import OPEN, ORPHANED, TASK, UPLOAD, StoredTask, Task, TaskQueue, Upload
from lagotto.stores.keyed_values import MemoryKeyedValues
from lagotto.testing.hash_embedder import HashEmbedder

FILES = [Upload("first.txt", b"The first file."), Upload("second.txt", b"The second file.")]


class Base(AsyncKnowledgeBase):
    """Notes what is added; `held` files are added only when they are let go."""

    def __init__(self) -> None:
        super().__init__(":memory:", embedder=HashEmbedder())
        self.begun: list[str] = []
        self.held = {"second.txt"}
        self.released = asyncio.Event()

    async def add(self, *documents: Any, **options: Any) -> AddReport:
        (document,) = documents
        assert isinstance(document, Document)
        self.begun.append(document.source or "")
        if document.source in self.held:
            await self.released.wait()
        return await super().add(*documents, **options)


class Setting:
    """A base and its tasks, on which several processes work."""

    def __init__(self, base: Base, **settings: Any) -> None:
        self.base = base
        self.values = MemoryKeyedValues()
        self.settings = ServerSettings(location=":memory:", **settings)
        self.queue = TaskQueue(self.values, self.settings)

    def worker(self) -> TaskWorker:
        return TaskWorker(self.queue, self.values, self.settings, self.base)

    async def stored(self, task: Task) -> StoredTask:
        return (await self.queue.get(task.id, Access()))[1]

    async def until(self, task: Task, reached: Callable[[StoredTask], bool]) -> StoredTask:
        """The task once it has come so far."""
        async with asyncio.timeout(60):
            while not reached(stored := await self.stored(task)):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return stored


@pytest.fixture
async def base() -> AsyncIterator[Base]:
    async with Base() as base:
        yield base


def first_is_done(stored: StoredTask) -> bool:
    return stored.task.files[0].state == "succeeded"


async def died(running: asyncio.Task[None]) -> None:
    """End a task as if its process had been killed."""
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_what_is_done_is_not_done_again_by_another_process(base: Base) -> None:
    setting = Setting(base, lease=0.3)
    task = await setting.queue.submit(FILES, Access())
    claimed = await setting.worker()._claim()
    assert claimed is not None
    run = TaskRun(claimed, setting.values, setting.settings, base)
    running = asyncio.create_task(run.run())
    await setting.until(task, first_is_done)
    await died(running)
    base.released.set()
    another = asyncio.create_task(setting.worker().run())
    ended = await setting.until(task, lambda stored: stored.task.state == "succeeded")
    async with asyncio.timeout(60):
        while await setting.values.items(OPEN):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await died(another)
    assert base.begun[0] == "first.txt"
    assert set(base.begun[1:]) == {"second.txt"}
    assert [file.report.added for file in ended.task.files] == [1, 1]
    assert ended.task.report.added == 2
    assert await setting.values.items(UPLOAD) == []


async def test_a_task_that_is_worked_on_is_left_alone(base: Base) -> None:
    setting = Setting(base, lease=600)
    await setting.queue.submit(FILES, Access())
    assert await setting.worker()._claim() is not None
    assert await setting.worker()._claim() is None


async def test_a_process_that_lost_its_lease_changes_nothing(base: Base) -> None:
    """It was stopped for so long that another one has taken the task over."""
    setting = Setting(base, lease=0.001)
    base.held = set()
    task = await setting.queue.submit(FILES, Access())
    slow, quick = setting.worker(), setting.worker()
    lost = await slow._claim()
    assert lost is not None
    await asyncio.sleep(0.01)  # more than the lease
    assert await quick._claim() is not None
    before = await setting.stored(task)
    await TaskRun(lost, setting.values, setting.settings, base).run()
    assert await setting.stored(task) == before
    assert before.owner == quick._owner
    assert await setting.values.data(UPLOAD, f"{task.id}/000000") == FILES[0].data


async def test_a_process_that_ends_gives_its_task_back(base: Base) -> None:
    """The next one need not wait for the end of the lease."""
    setting = Setting(base, lease=600)
    task = await setting.queue.submit(FILES, Access())
    running = asyncio.create_task(setting.worker().run())
    await setting.until(task, lambda stored: first_is_done(stored) and len(base.begun) == 2)
    await died(running)
    stored = await setting.stored(task)
    assert stored.task.state == "enqueued"
    assert [file.state for file in stored.task.files] == ["succeeded", "enqueued"]
    base.released.set()
    another = asyncio.create_task(setting.worker().run())
    await setting.until(task, lambda stored: stored.task.state == "succeeded")
    await died(another)
    assert base.begun == ["first.txt", "second.txt", "second.txt"]


async def test_too_many_tasks_are_told_to_come_back(base: Base) -> None:
    setting = Setting(base, max_tasks=2)
    first = await setting.queue.submit(FILES, Access())
    await setting.queue.submit(FILES, Access())
    with pytest.raises(Problem, match="2 tasks are waiting; try again later") as refused:
        await setting.queue.submit(FILES, Access())
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
    await setting.queue.cancel(first.id, Access())
    await setting.queue.submit(FILES, Access())


async def test_what_ended_long_ago_is_removed(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are files that were stored for a request that was never acknowledged."""
    setting = Setting(base, keep_tasks=86_400)
    over = await setting.queue.submit(FILES, Access())
    await setting.queue.cancel(over.id, Access())
    waiting = await setting.queue.submit(FILES, Access())
    await setting.values.put(UPLOAD, "lost/000000", {"task": "lost", "at": time.time()}, data=b"x")

    async def kept() -> tuple[set[str], set[str]]:
        await setting.queue.clean_up()
        files = {item.value["task"] for item in await setting.values.items(UPLOAD)}
        return {item.name for item in await setting.values.items(TASK)}, files

    assert await kept() == ({over.id, waiting.id}, {waiting.id, "lost"})
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ORPHANED + 1)
    assert await kept() == ({over.id, waiting.id}, {waiting.id})
    monkeypatch.setattr(time, "time", lambda: now + 86_401)
    assert await kept() == ({waiting.id}, {waiting.id})
