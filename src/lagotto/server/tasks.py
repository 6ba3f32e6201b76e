"""Uploads as tasks, kept in the base: they survive the server, and any of its processes does them.

A task is acknowledged once its files and it are stored. A process claims a task by a lease, which
it renews while it works; the task of one that has died is taken over when its lease ends, after the
last file that is done. Adding is idempotent, so a file that was half done is completed, not added
twice. task_worker.py does them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, Field

from lagotto.documents import DEFAULT_COLLECTION, Metadata, Record
from lagotto.filters import parse_filter
from lagotto.ingest import AddReport, Progress
from lagotto.server.access import Access, Sight
from lagotto.server.problems import Problem
from lagotto.server.settings import ServerSettings
from lagotto.stores.keyed_values import KeyedValue, KeyedValues

TASK, UPLOAD, OPEN = "task", "upload", "open_task"
"""Kinds of stored values. A task that has not ended has its name under OPEN as well, so that
looking for work does not read all tasks of the last week."""
LOOK = 0.25
"""Seconds between two looks at a task that is watched."""
ORPHANED = 3_600.0
"""Seconds after which what is left of a request without an answer is removed."""

TaskState = Literal["enqueued", "processing", "succeeded", "failed", "cancelled"]
FINAL: tuple[TaskState, ...] = ("succeeded", "failed", "cancelled")


class TaskFile(Record):
    """A file of a task; `documents` for documents that came as JSON."""

    name: str
    size: int
    kind: Literal["file", "documents"] = "file"
    state: TaskState = "enqueued"
    report: AddReport = AddReport()


class Task(Record):
    """An upload: its state, its files with what became of them, and the sum of their reports."""

    id: str
    state: TaskState = "enqueued"
    created_at: float
    updated_at: float
    files: tuple[TaskFile, ...]
    progress: Progress = Progress()
    report: AddReport = AddReport()
    error: str | None = None


class StoredTask(Record):
    """A task with what only the server needs to know."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    task: Task
    key_id: str | None = None
    collections: tuple[str, ...] | None = None
    filters: dict[str, Any] = Field(default_factory=dict)
    collection: str = DEFAULT_COLLECTION
    language: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    cancel: bool = False
    owner: str = ""
    lease_until: float = 0.0

    @property
    def access(self) -> Access:
        """The caller that the task is done for."""
        return Access(self.key_id, ("write",), Sight(self.collections, parse_filter(self.filters)))

    def changed(self, **changes: Any) -> StoredTask:
        """With another state of the task."""
        task = self.task.model_copy(update={"updated_at": time.time(), **changes})
        return self.model_copy(update={"task": task})

    def in_state(self, state: TaskState) -> dict[str, Any]:
        """The changes that give the task, and its files that have not ended, another state."""
        files = tuple(
            file if file.state in FINAL else file.model_copy(update={"state": state})
            for file in self.task.files
        )
        return {"state": state, "files": files}


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was sent."""

    name: str
    data: bytes
    kind: Literal["file", "documents"] = "file"


class TaskQueue:
    """The tasks of a base: submitted, listed, watched and cancelled."""

    def __init__(self, values: KeyedValues, settings: ServerSettings) -> None:
        self._values = values
        self._settings = settings
        self.submitted = asyncio.Event()
        self.waiting = 0
        """How many tasks had not ended at the last look for work."""

    async def submit(
        self,
        uploads: Sequence[Upload],
        access: Access,
        *,
        collection: str = DEFAULT_COLLECTION,
        language: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Task:
        """Store files and a task for them; what this returns is durable."""
        waiting = len(await self._values.items(OPEN))
        if waiting >= self._settings.max_tasks:
            raise Problem("TooManyRequests", f"{waiting} tasks are waiting; try again later")
        now = time.time()
        name = f"{int(now * 1000):012x}{secrets.token_hex(8)}"
        for index, upload in enumerate(uploads):
            about = {"task": name, "at": now}
            await self._values.put(UPLOAD, file_name(name, index), about, data=upload.data)
        files = tuple(
            TaskFile(name=upload.name, size=len(upload.data), kind=upload.kind)
            for upload in uploads
        )
        stored = StoredTask(
            task=Task(id=name, created_at=now, updated_at=now, files=files),
            key_id=access.key_id,
            collections=access.sight.collections,
            filters=access.sight.condition.to_json(),
            collection=collection,
            language=language,
            metadata=metadata or {},
        )
        await self._values.put(OPEN, name, {"at": now})
        await self._values.put(TASK, name, stored.model_dump(mode="json"), expected=0)
        self.submitted.set()
        return stored.task

    async def get(self, name: str, access: Access) -> tuple[int, StoredTask]:
        """A task with its version; NotFound if the caller may not see it."""
        found = await self._values.get(TASK, name)
        stored = StoredTask.model_validate(found.value) if found else None
        if found is None or stored is None or not _sees(access, stored):
            raise Problem("NotFound", f"there is no task {name!r}")
        return found.version, stored

    async def tasks_of(self, access: Access, *, after: str | None, limit: int) -> list[Task]:
        """The caller's tasks, the latest first; those before `after`."""
        found = [stored.task for _, stored in reversed(await self._all()) if _sees(access, stored)]
        return [task for task in found if after is None or task.id < after][:limit]

    async def cancel(self, name: str, access: Access) -> Task:
        """Cancel a task; what it has added stays. Conflict if it has ended."""
        while True:
            version, stored = await self.get(name, access)
            if stored.task.state in FINAL:
                raise Problem("Conflict", f"the task has {stored.task.state} already")
            waiting = stored.task.state == "enqueued"
            changed = stored.changed(**(stored.in_state("cancelled") if waiting else {}))
            changed = changed.model_copy(update={"cancel": True})
            value = changed.model_dump(mode="json")
            if await self._values.put(TASK, name, value, expected=version):
                if waiting:
                    await self._values.remove(OPEN, name)
                return changed.task

    async def watch(self, name: str, access: Access) -> AsyncIterator[tuple[int, Task]]:
        """The states of a task with their versions, up to the last one."""
        seen = 0
        while True:
            version, stored = await self.get(name, access)
            if version > seen:
                seen = version
                yield version, stored.task
            if stored.task.state in FINAL:
                return
            await asyncio.sleep(LOOK)

    async def open_tasks(self) -> AsyncIterator[tuple[KeyedValue, StoredTask]]:
        """The tasks that have not ended, the oldest first."""
        names = await self._values.items(OPEN)
        self.waiting = len(names)
        for marked in names:
            item = await self._values.get(TASK, marked.name)
            stored = StoredTask.model_validate(item.value) if item else None
            if item is not None and stored is not None and stored.task.state not in FINAL:
                yield item, stored
            elif stored is not None or marked.value["at"] < time.time() - ORPHANED:
                await self._values.remove(OPEN, marked.name)

    async def clean_up(self) -> None:
        """Remove tasks that ended long ago, and files whose task was never stored."""
        now = time.time()
        tasks = await self._all()
        for item, stored in tasks:
            if stored.task.state not in FINAL:
                await self._values.put(OPEN, item.name, {"at": stored.task.created_at})
                continue
            await self._drop_files(stored.task)
            if stored.task.updated_at < now - self._settings.keep_tasks:
                await self._values.remove(TASK, item.name)
        known = {item.name for item, _ in tasks}
        for upload in await self._values.items(UPLOAD):
            about = upload.value
            if about["task"] not in known and about["at"] < now - ORPHANED:
                await self._values.remove(UPLOAD, upload.name)

    async def _drop_files(self, task: Task) -> None:
        for index in range(len(task.files)):
            await self._values.remove(UPLOAD, file_name(task.id, index))

    async def _all(self) -> list[tuple[KeyedValue, StoredTask]]:
        items = await self._values.items(TASK)
        return [(item, StoredTask.model_validate(item.value)) for item in items]


def file_name(task: str, index: int) -> str:
    """Under which name a file of a task is stored."""
    return f"{task}/{index:06}"


def _sees(access: Access, stored: StoredTask) -> bool:
    return access.is_admin or access.key_id == stored.key_id
