"""Uploads as tasks, kept in the base: they survive the server, and any of its processes does them.

A task is acknowledged once its files and it are stored. A process claims a task by a lease, which
it renews while it works; the task of one that has died is taken over when its lease ends, after the
last file that is done. Adding is idempotent, so a file that was half done is completed, not added
twice.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from pydantic import ConfigDict, Field

from lagotto.concurrency import in_thread
from lagotto.documents import DEFAULT_COLLECTION, Document, Metadata, Record
from lagotto.errors import LagottoError
from lagotto.filters import parse_filter
from lagotto.ingest import AddReport, Progress, sum_reports
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.readers import ReadFailure, ReadOptions
from lagotto.readers.base import Source
from lagotto.readers.load import load
from lagotto.server.access import Access, Sight
from lagotto.server.problems import Problem
from lagotto.server.request_log import LOGGER
from lagotto.server.scoped_base import ScopedBase
from lagotto.server.settings import ServerSettings
from lagotto.stores.keyed_values import KeyedValue, KeyedValues

TASK, UPLOAD = "task", "upload"
IDLE = 0.5
"""Seconds between two looks for tasks of other processes."""
ORPHANED = 3_600.0
"""Seconds after which files without a task are removed: whoever sent them got no answer."""

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
        waiting = [task for _, task in await self._all() if task.task.state not in FINAL]
        if len(waiting) >= self._settings.max_tasks:
            raise Problem("TooManyRequests", f"{len(waiting)} tasks are waiting; try again later")
        now = time.time()
        name = f"{int(now * 1000):012x}{secrets.token_hex(8)}"
        for index, upload in enumerate(uploads):
            about = {"task": name, "at": now}
            await self._values.put(UPLOAD, _file_name(name, index), about, data=upload.data)
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
            changed = stored.changed(**({"state": "cancelled"} if waiting else {}))
            changed = changed.model_copy(update={"cancel": True})
            if await self._values.put(
                TASK, name, changed.model_dump(mode="json"), expected=version
            ):
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
            await asyncio.sleep(IDLE / 2)

    async def clean_up(self) -> None:
        """Remove tasks that ended long ago, and files whose task was never stored."""
        now = time.time()
        for item, stored in await self._all():
            if stored.task.state in FINAL:
                await self._drop_files(stored.task)
                if stored.task.updated_at < now - self._settings.keep_tasks:
                    await self._values.remove(TASK, item.name)
        known = {item.name for item, _ in await self._all()}
        for upload in await self._values.items(UPLOAD):
            about = upload.value
            if about["task"] not in known and about["at"] < now - ORPHANED:
                await self._values.remove(UPLOAD, upload.name)

    async def _drop_files(self, task: Task) -> None:
        for index in range(len(task.files)):
            await self._values.remove(UPLOAD, _file_name(task.id, index))

    async def _all(self) -> list[tuple[KeyedValue, StoredTask]]:
        items = await self._values.items(TASK)
        return [(item, StoredTask.model_validate(item.value)) for item in items]


class TaskWorker:
    """Does tasks, one after another, in one process."""

    def __init__(
        self,
        queue: TaskQueue,
        values: KeyedValues,
        settings: ServerSettings,
        base: AsyncKnowledgeBase,
    ) -> None:
        self._queue = queue
        self._values = values
        self._settings = settings
        self._base = base
        self._owner = uuid4().hex

    async def run(self) -> None:
        """Do tasks until cancelled; the one that is under way is given back then."""
        await self._queue.clean_up()
        while True:
            self._queue.submitted.clear()
            if (claimed := await self._claim()) is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE):
                        await self._queue.submitted.wait()
                continue
            run = TaskRun(claimed, self._values, self._settings, self._base)
            try:
                await run.run()
            except asyncio.CancelledError:
                await run.give_back()
                raise

    async def _claim(self) -> KeyedValue | None:
        """The oldest task that nobody does, now ours."""
        for item in await self._values.items(TASK):
            stored = StoredTask.model_validate(item.value)
            abandoned = stored.task.state == "processing" and stored.lease_until < time.time()
            if stored.task.state != "enqueued" and not abandoned:
                continue
            ours = stored.changed(state="processing").model_copy(
                update={"owner": self._owner, "lease_until": time.time() + self._settings.lease}
            )
            value = ours.model_dump(mode="json")
            if await self._values.put(TASK, item.name, value, expected=item.version):
                return KeyedValue(item.name, item.version + 1, value)
        return None


class _LostError(Exception):
    """Another process has the task now."""


class _CancelledError(Exception):
    """Somebody cancelled the task."""


class TaskRun:
    """One task, done by this process."""

    def __init__(
        self,
        claimed: KeyedValue,
        values: KeyedValues,
        settings: ServerSettings,
        base: AsyncKnowledgeBase,
    ) -> None:
        self._version = claimed.version
        self._stored = StoredTask.model_validate(claimed.value)
        self._values = values
        self._settings = settings
        self._base = ScopedBase(base, self._stored.access, settings=settings)
        self._saving = asyncio.Lock()
        self._progress = Progress()

    async def run(self) -> None:
        """Do what is left of the task, and renew its lease meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                await self._files()
                renewing.cancel()
        except* _CancelledError:
            await self._end(state="cancelled")
        except* _LostError:
            LOGGER.warning(json.dumps({"task": self._stored.task.id, "error": "lease lost"}))
        except* LagottoError as failed:
            (error,) = failed.exceptions[:1]
            LOGGER.error(json.dumps({"task": self._stored.task.id, "error": str(error)}))
            await self._end(state="failed", error=type(error).__name__)

    async def give_back(self) -> None:
        """Let another process, or the next one, go on with the task."""
        with suppress(_LostError, _CancelledError, LagottoError):
            await self._save(state="enqueued")

    async def _files(self) -> None:
        for index, file in enumerate(self._stored.task.files):
            if file.state not in FINAL:
                await self._do(index, file)
        files = self._stored.task.files
        failed = all(file.state == "failed" for file in files)
        await self._save(state="failed" if failed else "succeeded")

    async def _do(self, index: int, file: TaskFile) -> None:
        """Add the documents of a file; what it fails on goes into its report."""
        name = _file_name(self._stored.task.id, index)
        data = await self._values.data(UPLOAD, name) or b""
        found = await in_thread(_read, file, data, self._stored)
        documents = [item for item in found if isinstance(item, Document)]
        failures = tuple(item for item in found if isinstance(item, ReadFailure))
        report = AddReport()
        try:
            if documents:
                report = await self._base.add(documents, progress=self._note)
        except Problem as exc:
            refused = ReadFailure(source=file.name, reason=exc.detail, error=exc.name)
            failures = (*failures, refused)
        report = report.model_copy(update={"failures": (*failures, *report.failures)})
        added = report.added + report.updated + report.unchanged
        state: TaskState = "failed" if report.failures and not added else "succeeded"
        done = file.model_copy(update={"state": state, "report": report})
        files = list(self._stored.task.files)
        files[index] = done
        await self._save(files=tuple(files), report=sum_reports(each.report for each in files))
        await self._values.remove(UPLOAD, name)

    def _note(self, progress: Progress) -> None:
        self._progress = progress

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease / 4)
            await self._save()

    async def _end(self, **changes: Any) -> None:
        with suppress(_LostError, _CancelledError):
            await self._save(**changes)

    async def _save(self, **changes: Any) -> None:
        """Store the task and renew the lease; an error if it is no longer ours to do."""
        async with self._saving:
            stored = self._stored.changed(progress=self._progress, **changes).model_copy(
                update={"lease_until": time.time() + self._settings.lease}
            )
            while not await self._values.put(
                TASK, stored.task.id, stored.model_dump(mode="json"), expected=self._version
            ):
                found = await self._values.get(TASK, stored.task.id)
                theirs = StoredTask.model_validate(found.value) if found else None
                if found is None or theirs is None or theirs.owner != stored.owner:
                    raise _LostError
                self._version = found.version
                stored = stored.model_copy(update={"cancel": theirs.cancel})
            self._version += 1
            self._stored = stored
        if stored.cancel and stored.task.state == "processing":
            raise _CancelledError


def _read(file: TaskFile, data: bytes, stored: StoredTask) -> list[Document | ReadFailure]:
    """The documents in a file, and what could not be read of it. The name is never a path."""
    if file.kind == "documents":
        return [Document.model_validate(item) for item in json.loads(data)]
    options = ReadOptions(
        collection=stored.collection, language=stored.language, metadata=stored.metadata
    )
    return list(load([Source(name=file.name, data=data)], options=options))


def _file_name(task: str, index: int) -> str:
    return f"{task}/{index:06}"


def _sees(access: Access, stored: StoredTask) -> bool:
    return access.is_admin or access.key_id == stored.key_id
