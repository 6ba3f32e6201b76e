"""Uploads as tasks, kept in the base: they survive the server, and any process can do them."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from pydantic import ConfigDict, Field

from lagotto._internal.concurrency import in_thread
from lagotto.base.ingest import AddReport, Progress, sum_reports
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import DEFAULT_COLLECTION, Document, Metadata, Record, digest
from lagotto.errors import LagottoError, StoreBusyError, StoreUnavailableError
from lagotto.filters import parse_filter
from lagotto.readers import ReadFailure, ReadOptions
from lagotto.readers.base import Source
from lagotto.readers.loader import load
from lagotto.server.access import Access, ApiKeys, Visibility
from lagotto.server.problems import LOGGER, Problem
from lagotto.server.scoped_base import ScopedBase
from lagotto.server.settings import ServerSettings
from lagotto.stores.base import KeyedValues, Lease, NewValue

TASK, UPLOAD, OPEN = "task", "upload", "open_task"
"""Kinds of stored values. A task that has not ended has its name under OPEN as well, so that
looking for work does not read all tasks of the last week."""
LOOK = 0.25
"""Seconds between two looks at a task that is watched."""
STAMP = 12
"""Characters at the beginning of a task's name that say when it was accepted."""
ORPHANED = 3_600.0
"""Seconds after which what is left of a request without an answer is removed."""

MOST_NAMED = 500
"""Documents of a task that are distinguished when tasks are put in order: a batch of the Python
client. A task with more of them is done after all earlier ones of its collections."""

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


Writes = dict[str, tuple[str, ...] | None]
"""What a task writes, by collection: short hashes of document ids; None may be any document."""
ANY = "*"
"""In place of hashes, for any document."""


class StoredTask(Record):
    """A task with what only the server needs to know."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    task: Task
    key_id: str | None = None
    key_hash: str | None = None
    collections: tuple[str, ...] | None = None
    filters: dict[str, Any] = Field(default_factory=dict)
    collection: str = DEFAULT_COLLECTION
    language: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    replace: bool = True
    writes: Writes = Field(default_factory=dict)
    cancel: bool = False
    owner: str = ""
    lease_until: float = 0.0

    @property
    def access(self) -> Access:
        return Access(
            self.key_id, ("write",), Visibility(self.collections, parse_filter(self.filters))
        )

    def is_seen_by(self, access: Access) -> bool:
        return access.is_admin or access.key_id == self.key_id

    def changed(self, own: Mapping[str, Any] | None = None, **changes: Any) -> StoredTask:
        """With changes of the task, and `own` ones of what is stored beside it."""
        task = self.task.model_copy(update={"updated_at": time.time(), **changes})
        return self.model_copy(update={"task": task, **(own or {})})

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
        self.values = values
        self.settings = settings
        self.keys = ApiKeys(values)
        self.submitted = asyncio.Event()
        self.waiting = 0
        """How many tasks had not ended at the last look for work."""

    async def submit(
        self,
        uploads: Sequence[Upload],
        access: Access,
        *,
        writes: Writes | None = None,
        **reading: Any,
    ) -> Task:
        """Store files and a task for them; what this returns is durable.

        `reading` is how they are read: other fields of StoredTask, such as `collection`.
        The name of a task is greater than those of all open tasks that were accepted before,
        whatever the clocks of several machines say.
        """
        waiting = await self.values.items(OPEN)
        if len(waiting) >= self.settings.max_tasks:
            raise Problem("TooManyRequests", f"{len(waiting)} tasks are waiting; try again later")
        now = time.time()
        least = int(waiting[-1].name[:STAMP], 16) + 1 if waiting else 0
        name = f"{max(int(now * 1000), least):0{STAMP}x}{secrets.token_hex(8)}"
        files = tuple(
            TaskFile(name=upload.name, size=len(upload.data), kind=upload.kind)
            for upload in uploads
        )
        stored = StoredTask(
            task=Task(id=name, created_at=now, updated_at=now, files=files),
            key_id=access.key_id,
            key_hash=access.key_hash,
            collections=access.visibility.collections,
            filters=access.visibility.condition.to_json(),
            writes=writes or {reading.get("collection", DEFAULT_COLLECTION): None},
            **reading,
        )
        values = [NewValue(OPEN, name, {"at": now})]
        values.append(NewValue(TASK, name, stored.model_dump(mode="json")))
        for index, upload in enumerate(uploads):
            about = {"task": name, "at": now}
            values.append(NewValue(UPLOAD, file_name(name, index), about, upload.data))
        await self.values.create(values)
        self.submitted.set()
        return stored.task

    async def find(self, name: str) -> tuple[int, StoredTask] | None:
        record = await self.values.get(TASK, name)
        return record and (record.version, StoredTask.model_validate(record.value))

    async def get(self, name: str, access: Access) -> tuple[int, StoredTask]:
        """A task with its version; NotFound if the caller may not see it."""
        entry = await self.find(name)
        if entry is None or not entry[1].is_seen_by(access):
            raise Problem("NotFound", f"there is no task {name!r}")
        return entry

    async def tasks_of(self, access: Access, *, after: str | None, limit: int) -> list[Task]:
        """The caller's tasks, the latest first; those before `after`."""
        stored = reversed(await self._all())
        tasks = [each.task for each in stored if each.is_seen_by(access)]
        return [task for task in tasks if after is None or task.id < after][:limit]

    async def cancel(self, name: str, access: Access) -> Task:
        """Cancel a task; what it has added stays. Conflict if it has ended."""
        while True:
            version, stored = await self.get(name, access)
            if stored.task.state in FINAL:
                raise Problem("Conflict", f"the task has {stored.task.state} already")
            waiting = stored.task.state == "enqueued"
            changes = stored.in_state("cancelled") if waiting else {}
            changed = stored.changed({"cancel": True}, **changes)
            if await self.put(changed, expected=version):
                if waiting:
                    await self.values.remove(OPEN, name)
                return changed.task

    async def put(self, stored: StoredTask, *, expected: int) -> bool:
        """Store a task; False if its version is not the expected one."""
        value = stored.model_dump(mode="json")
        return await self.values.put(TASK, stored.task.id, value, expected=expected)

    async def watch(self, name: str, access: Access) -> AsyncIterator[tuple[int, Task]]:
        """The states of a task with their versions, up to the last one.

        Unauthorized as soon as the key of the caller can't be used any more.
        """
        latest = 0
        while True:
            if (state := await self.keys.state(access.key_hash)) != "active":
                raise Problem("Unauthorized", f"the key is {state}")
            version, stored = await self.get(name, access)
            if version > latest:
                latest = version
                yield version, stored.task
            if stored.task.state in FINAL:
                return
            await asyncio.sleep(LOOK)

    async def open_tasks(self) -> AsyncIterator[tuple[int, StoredTask]]:
        """The tasks that have not ended with their versions, the oldest first."""
        names = await self.values.items(OPEN)
        self.waiting = len(names)
        for marked in names:
            entry = await self.find(marked.name)
            if entry is not None and entry[1].task.state not in FINAL:
                yield entry
            elif entry is not None or marked.value["at"] < time.time() - ORPHANED:
                await self.values.remove(OPEN, marked.name)

    async def claim(self, owner: str) -> tuple[int, StoredTask] | None:
        """The oldest task that nobody does with its version, now that of the `owner`.

        It waits for earlier ones that may write the same documents, even if their process has died:
        done later, they would replace what it wrote.
        """
        earlier = PendingWrites()
        async for version, stored in self.open_tasks():
            leased = stored.task.state == "processing" and stored.lease_until >= time.time()
            waits = leased or earlier.overlap(stored.writes)
            earlier.add(stored.writes)
            if waits:
                continue
            until = time.time() + self.settings.lease
            own = {"owner": owner, "lease_until": until}
            ours = stored.changed(own, state="processing")
            if await self.put(ours, expected=version):
                return version + 1, ours
        return None

    async def clean_up(self) -> None:
        """Remove tasks that ended long ago, and files whose task was never stored."""
        now = time.time()
        tasks = [stored.task for stored in await self._all()]
        for task in tasks:
            if task.state not in FINAL:
                await self.values.put(OPEN, task.id, {"at": task.created_at})
                continue
            for index in range(len(task.files)):
                await self.values.remove(UPLOAD, file_name(task.id, index))
            if task.updated_at < now - self.settings.keep_tasks:
                await self.values.remove(TASK, task.id)
        ids = {task.id for task in tasks}
        for upload in await self.values.items(UPLOAD):
            about = upload.value
            if about["task"] not in ids and about["at"] < now - ORPHANED:
                await self.values.remove(UPLOAD, upload.name)

    async def _all(self) -> list[StoredTask]:
        return [StoredTask.model_validate(item.value) for item in await self.values.items(TASK)]


def file_name(task: str, index: int) -> str:
    return f"{task}/{index:06}"


def writes_of(documents: Iterable[Document]) -> Writes:
    by_collection: dict[str, set[str]] = {}
    for document in documents:
        by_collection.setdefault(document.collection, set()).add(digest(document.id)[:8])
    return {
        collection: tuple(sorted(names)) if len(names) <= MOST_NAMED else None
        for collection, names in by_collection.items()
    }


class PendingWrites:
    """What tasks that have not ended write."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = defaultdict(set)

    def add(self, writes: Writes) -> None:
        for collection, names in writes.items():
            self._names[collection].update([ANY] if names is None else names)

    def overlap(self, writes: Writes) -> bool:
        """Whether a task may write a document that one of these writes."""
        return any(
            names is None or ANY in pending or not pending.isdisjoint(names)
            for collection, names in writes.items()
            if (pending := self._names[collection])
        )


IDLE = 0.5
"""Seconds between two looks for tasks of other processes."""
CLEAN_UP = 3_600.0
"""Seconds between two removals of what ended long ago."""


async def do_tasks(queue: TaskQueue, base: AsyncKnowledgeBase) -> None:
    """Do tasks, one after another, until cancelled; the one that is under way is given back then.

    While the base can't be used, tasks wait.
    """
    owner, cleaned = uuid4().hex, -CLEAN_UP
    while True:
        queue.submitted.clear()
        try:
            if time.monotonic() - cleaned >= CLEAN_UP:
                await queue.clean_up()
                cleaned = time.monotonic()
            if (claimed := await queue.claim(owner)) is not None:
                run = TaskRun(*claimed, queue, base)
                try:
                    await run.run()
                except asyncio.CancelledError:
                    await run.give_back()
                    raise
                continue
        except LagottoError as exc:
            LOGGER.error(json.dumps({"worker": "tasks", "error": str(exc)}))
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE):
                await queue.submitted.wait()


class _LostError(Exception):
    """Another process has the task now."""


class _CancelledError(Exception):
    """Somebody cancelled the task; the message is its error, if it has one."""


class TaskRun:
    """One task, done by this process."""

    def __init__(
        self, version: int, stored: StoredTask, queue: TaskQueue, base: AsyncKnowledgeBase
    ) -> None:
        self._version = version
        self._stored = stored
        self._queue = queue
        self._base = ScopedBase(base, stored.access, queue.settings)
        self._lease = Lease(TASK, stored.task.id, stored.owner)
        self._saving = asyncio.Lock()
        self._progress = Progress()

    async def run(self) -> None:
        """Do what is left of the task, and renew its lease meanwhile."""
        ended: TaskState | None = None
        error: str | None = None
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                await self._files()
                renewing.cancel()
        except* _CancelledError as cancelled:
            ended = "cancelled"
            error = next(filter(None, map(str, cancelled.exceptions)), None)
        except* _LostError:
            LOGGER.warning(json.dumps({"task": self._stored.task.id, "error": "lease lost"}))
        except* (StoreBusyError, StoreUnavailableError) as failed:
            self._log(failed)  # it is taken up again when the lease has ended
        except* Exception as failed:  # noqa: BLE001 the edge of the server
            self._log(failed)
            ours = (each for each in failed.exceptions if isinstance(each, LagottoError))
            names = (type(each).__name__ for each in ours)
            ended, error = "failed", next(names, "InternalError")
        if ended is not None:
            with suppress(_LostError, _CancelledError):
                await self._save(**self._stored.in_state(ended), error=error)
        if self._stored.task.state in FINAL:
            await self._queue.values.remove(OPEN, self._stored.task.id)

    def _log(self, failed: BaseExceptionGroup[BaseException]) -> None:
        entry = {"task": self._stored.task.id, "error": "".join(traceback.format_exception(failed))}
        LOGGER.error(json.dumps(entry))

    async def give_back(self) -> None:
        with suppress(_LostError, _CancelledError, LagottoError):
            await self._save(**self._stored.in_state("enqueued"))

    async def _files(self) -> None:
        for index, file in enumerate(self._stored.task.files):
            if file.state not in FINAL:
                await self._check_key()
                await self._do(index, file)
            # Also of a file that a process finished and died before it removed what was sent.
            await self._queue.values.remove(UPLOAD, file_name(self._stored.task.id, index))
        files = self._stored.task.files
        failed = all(file.state == "failed" for file in files)
        await self._save(state="failed" if failed else "succeeded")

    async def _do(self, index: int, file: TaskFile) -> None:
        """Add the documents of a file; what it fails on goes into its report."""
        name = file_name(self._stored.task.id, index)
        self._stored = self._with_file(index, state="processing")
        data = await self._queue.values.data(UPLOAD, name) or b""
        results = await in_thread(_read, file, data, self._stored)
        documents = [item for item in results if isinstance(item, Document)]
        failures = tuple(item for item in results if isinstance(item, ReadFailure))
        report = AddReport()
        try:
            if documents:
                report = await self._base.add_documents(
                    documents,
                    replace=self._stored.replace,
                    lease=self._lease,
                    progress=partial(setattr, self, "_progress"),
                )
        except Problem as exc:
            refused = ReadFailure(source=file.name, reason=exc.detail, error=exc.name)
            failures = (*failures, refused)
        report = report.model_copy(update={"failures": (*failures, *report.failures)})
        added = report.added + report.updated + report.unchanged
        state: TaskState = "failed" if report.failures and not added else "succeeded"
        files = self._with_file(index, state=state, report=report).task.files
        await self._save(files=files, report=sum_reports(each.report for each in files))

    def _with_file(self, index: int, **changes: Any) -> StoredTask:
        files = list(self._stored.task.files)
        files[index] = files[index].model_copy(update=changes)
        return self._stored.changed(files=tuple(files))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._queue.settings.lease / 4)
            await self._check_key()
            await self._save()

    async def _check_key(self) -> None:
        """End the task if its key was revoked; one that has expired was valid when it was sent."""
        if await self._queue.keys.state(self._stored.key_hash) == "revoked":
            raise _CancelledError("Unauthorized")

    async def _save(self, **changes: Any) -> None:
        """Store the task and renew the lease; an error if it is no longer ours to do."""
        async with self._saving:
            own = {"lease_until": time.time() + self._queue.settings.lease}
            stored = self._stored.changed(own, progress=self._progress, **changes)
            while not await self._queue.put(stored, expected=self._version):
                entry = await self._queue.find(stored.task.id)
                if entry is None or entry[1].owner != stored.owner:
                    raise _LostError
                self._version, theirs = entry
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
