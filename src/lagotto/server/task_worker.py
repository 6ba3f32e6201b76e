"""Doing tasks: one after another in each process, under a lease that others can take over."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from contextlib import suppress
from typing import Any
from uuid import uuid4

from lagotto.concurrency import in_thread
from lagotto.documents import Document
from lagotto.errors import LagottoError, StoreBusyError, StoreUnavailableError
from lagotto.ingest import AddReport, Progress, sum_reports
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.readers import ReadFailure, ReadOptions
from lagotto.readers.base import Source
from lagotto.readers.loader import load
from lagotto.server.problems import Problem
from lagotto.server.request_log import LOGGER
from lagotto.server.scoped_base import ScopedBase
from lagotto.server.settings import ServerSettings
from lagotto.server.tasks import (
    FINAL,
    OPEN,
    TASK,
    UPLOAD,
    StoredTask,
    TaskFile,
    TaskQueue,
    TaskState,
    file_name,
)
from lagotto.stores.keyed_values import KeyedValue, KeyedValues

IDLE = 0.5
"""Seconds between two looks for tasks of other processes."""
CLEAN_UP = 3_600.0
"""Seconds between two removals of what ended long ago."""


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
        """Do tasks until cancelled; the one that is under way is given back then.

        While the base can't be used, tasks wait.
        """
        cleaned = -CLEAN_UP
        while True:
            self._queue.submitted.clear()
            try:
                if time.monotonic() - cleaned >= CLEAN_UP:
                    await self._queue.clean_up()
                    cleaned = time.monotonic()
                if (claimed := await self._claim()) is not None:
                    await self._do(claimed)
                    continue
            except LagottoError as exc:
                LOGGER.error(json.dumps({"worker": "tasks", "error": str(exc)}))
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE):
                    await self._queue.submitted.wait()

    async def _do(self, claimed: KeyedValue) -> None:
        run = TaskRun(claimed, self._values, self._settings, self._base)
        try:
            await run.run()
        except asyncio.CancelledError:
            await run.give_back()
            raise

    async def _claim(self) -> KeyedValue | None:
        """The oldest task that nobody does, now ours."""
        async for item, stored in self._queue.open_tasks():
            if stored.task.state == "processing" and stored.lease_until >= time.time():
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
        ended: TaskState | None = None
        error: str | None = None
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                await self._files()
                renewing.cancel()
        except* _CancelledError:
            ended = "cancelled"
        except* _LostError:
            LOGGER.warning(json.dumps({"task": self._stored.task.id, "error": "lease lost"}))
        except* (StoreBusyError, StoreUnavailableError) as failed:
            self._log(failed)  # it is taken up again when the lease has ended
        except* Exception as failed:  # noqa: BLE001 the edge of the server
            self._log(failed)
            ours = (type(each).__name__ for each in failed.exceptions if _is_ours(each))
            ended, error = "failed", next(ours, "InternalError")
        if ended is not None:
            with suppress(_LostError, _CancelledError):
                await self._save(**self._stored.in_state(ended), error=error)
        if self._stored.task.state in FINAL:
            await self._values.remove(OPEN, self._stored.task.id)

    def _log(self, failed: BaseExceptionGroup[BaseException]) -> None:
        told = {"task": self._stored.task.id, "error": "".join(traceback.format_exception(failed))}
        LOGGER.error(json.dumps(told))

    async def give_back(self) -> None:
        """Let another process, or the next one, go on with the task."""
        with suppress(_LostError, _CancelledError, LagottoError):
            await self._save(**self._stored.in_state("enqueued"))

    async def _files(self) -> None:
        for index, file in enumerate(self._stored.task.files):
            if file.state not in FINAL:
                await self._do(index, file)
        files = self._stored.task.files
        failed = all(file.state == "failed" for file in files)
        await self._save(state="failed" if failed else "succeeded")

    async def _do(self, index: int, file: TaskFile) -> None:
        """Add the documents of a file; what it fails on goes into its report."""
        name = file_name(self._stored.task.id, index)
        self._stored = self._with_file(index, file.model_copy(update={"state": "processing"}))
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
        files = self._with_file(index, done).task.files
        await self._save(files=files, report=sum_reports(each.report for each in files))
        await self._values.remove(UPLOAD, name)

    def _with_file(self, index: int, file: TaskFile) -> StoredTask:
        files = self._stored.task.files
        return self._stored.changed(files=(*files[:index], file, *files[index + 1 :]))

    def _note(self, progress: Progress) -> None:
        self._progress = progress

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease / 4)
            await self._save()

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


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, LagottoError)
