"""Tasks without a server: leases, processes that die or come back, and how long what is kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lagotto.base.ingest import AddReport
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.server.access import Access
from lagotto.server.problems import Problem
from lagotto.server.settings import ServerSettings
from lagotto.server.tasks import (
    MOST_NAMED,
    OPEN,
    ORPHANED,
    TASK,
    UPLOAD,
    PendingWrites,
    StoredTask,
    Task,
    TaskQueue,
    TaskWorker,
    Upload,
    Writes,
    writes_of,
)
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder

FILES = [Upload("first.txt", b"The first file."), Upload("second.txt", b"The second file.")]
PATIENT = ServerSettings(location=":memory:", lease=600)
"""The settings of a process that does not notice that its lease has ended."""


class Base(AsyncKnowledgeBase):
    """Notes what is added; `held` files are added only when they are let go."""

    def __init__(self) -> None:
        super().__init__(":memory:", embedder=HashEmbedder())
        self.begun: list[str] = []
        self.held = {"second.txt"}
        self.released = asyncio.Event()

    async def add_guarded(self, documents: Any, *args: Any, **options: Any) -> AddReport:
        (document,) = documents
        assert isinstance(document, Document)
        self.begun.append(document.source or "")
        if document.source in self.held:
            await self.released.wait()
        return await super().add_guarded(documents, *args, **options)


class Setting:
    """A base and its tasks, on which several processes work."""

    def __init__(self, base: Base, **settings: Any) -> None:
        self.base = base
        self.values = base.store.keyed_values
        self.settings = ServerSettings(location=":memory:", **settings)
        self.queue = TaskQueue(self.values, self.settings)

    def worker(self) -> TaskWorker:
        return TaskWorker(self.queue, self.base)

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
    run = await setting.worker()._claim()
    assert run is not None
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
    await lost.run()
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


def revision(number: int) -> list[Upload]:
    """An upload of a document, the same one each time."""
    document = Document(id="shared", text=f"Revision {number}.", source=f"r{number}")
    data = json.dumps([document.model_dump(mode="json")]).encode()
    return [Upload("documents.json", data, "documents")]


SHARED = writes_of([Document(id="shared", text="")])


async def test_uploads_of_one_document_are_done_in_order(base: Base) -> None:
    """Even if the process that had begun the first one has died, and its lease goes on."""
    setting = Setting(base, lease=600)
    base.held = set()
    first, second = [
        await setting.queue.submit(revision(number), Access(), writes=SHARED) for number in (1, 2)
    ]
    other = await setting.queue.submit(
        revision(3), Access(), writes=writes_of([Document(id="other", text="")])
    )
    left = await setting.worker()._claim()
    assert left is not None
    assert left._stored.task.id == first.id
    claimed = await setting.worker()._claim()
    assert claimed is not None
    assert claimed._stored.task.id == other.id  # not the second one, which waits for the first
    assert await setting.worker()._claim() is None
    over = left._stored.model_copy(update={"lease_until": 0.0})
    await setting.values.put(TASK, first.id, over.model_dump(mode="json"))
    running = asyncio.create_task(setting.worker().run())
    await setting.until(second, lambda stored: stored.task.state == "succeeded")
    await died(running)
    stored = await base.get("shared")
    assert stored is not None
    assert stored.text == "Revision 2."
    assert base.begun == ["r1", "r2"]


async def test_a_process_that_wakes_up_late_does_not_bring_the_older_upload_back(
    base: Base,
) -> None:
    setting = Setting(base, lease=0.001)
    first = await setting.queue.submit(revision(1), Access(), writes=SHARED)
    second = await setting.queue.submit(revision(2), Access(), writes=SHARED)
    base.held = {"r1"}
    claimed = await setting.worker()._claim()
    assert claimed is not None
    claimed._queue = TaskQueue(setting.values, PATIENT)
    late = asyncio.create_task(claimed.run())
    async with asyncio.timeout(60):
        while base.begun != ["r1"]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    base.held = set()
    running = asyncio.create_task(setting.worker().run())
    for task in (first, second):
        await setting.until(task, lambda stored: stored.task.state == "succeeded")
    base.released.set()
    await late
    await died(running)
    stored = await base.get("shared")
    assert stored is not None
    assert stored.text == "Revision 2."


async def test_the_order_of_uploads_does_not_depend_on_the_clock(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting(base)
    now = time.time()
    names = []
    for moment in (now, now, now - 3_600, now - 7_200, now + 1):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        names.append((await setting.queue.submit(FILES, Access())).id)
    assert names == sorted(names)
    assert [item.name for item in await setting.values.items(OPEN)] == names


@pytest.mark.parametrize(
    ("writes", "waits"),
    [
        ({"a": ("1",)}, True),
        ({"a": ("3",)}, False),
        ({"a": None}, True),
        ({"b": ("1",)}, True),  # it may be any document there
        ({"c": None}, False),
        ({"c": ("9",), "a": ("2",)}, True),
    ],
)
def test_which_tasks_wait_for_others(writes: Writes, waits: bool) -> None:
    pending = PendingWrites()
    pending.add({"a": ("1",)})
    pending.add({"a": ("2",), "b": None})
    pending.add({"b": ("7",)})
    assert pending.overlap(writes) is waits
    many = [Document(id=str(number), text="") for number in range(MOST_NAMED + 1)]
    assert writes_of(many) == {"default": None}
    assert len(writes_of(many[1:])["default"] or ()) == MOST_NAMED


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


async def test_an_upload_is_stored_in_one_transaction(tmp_path: Path) -> None:
    """Each of them waits for others that write, and for the disk."""
    store = SqliteStore(tmp_path / "kb.db")
    await store.open()
    values = store.keyed_values
    inner, writes = values._write, list[str]()

    async def write(change: Callable[[Any], Any]) -> Any:
        writes.append("write")
        return await inner(change)

    values._write = write
    queue = TaskQueue(values, ServerSettings(location=":memory:"))
    task = await queue.submit(FILES, Access())
    assert writes == ["write"]
    assert [item.name for item in await values.items(OPEN)] == [task.id]
    stored = [await values.data(UPLOAD, item.name) for item in await values.items(UPLOAD)]
    assert stored == [file.data for file in FILES]
    assert await values.put(OPEN, "again", {})
    assert writes == ["write"] * 2
    await store.close()
