"""Brings the indexes to the head of the change log, in a thread of its own, beside searches."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TypeVar

from lagotto._internal.concurrency import Interrupted, checkpoint, until_stopped
from lagotto.errors import IndexUnavailableError, StoreError
from lagotto.indexes.base import ChangeLog, IndexRole, SearchIndex, Snapshot

log = logging.getLogger(__name__)

Log = TypeVar("Log", bound=ChangeLog)

Indexes = Mapping[IndexRole, SearchIndex[Log, Snapshot]]

UpdaterLock = Callable[[IndexRole], AbstractContextManager[bool]]
"""Takes the lock that updaters of an index exclude each other by; whether it was free."""

HEAD_START = 0.1
"""Seconds that the search which asks for a run has for itself: beside one it takes twice as long,
since both run Python."""

SHORTEST_PAUSE = 0.5
PAUSES = 4.0
"""Seconds between two runs: at least the first, and so many times as long as the last run took. So
writers that never rest cost searches a fifth of a core at most; meanwhile the overlay has the rest.
"""

LONGEST_WAIT = 10.0
"""Seconds that closing a base waits for the run that is under way, and again once it is stopped."""

BETWEEN_ATTEMPTS = 0.2
"""Seconds until the next attempt to update an index that another process is updating."""


class IndexLocked(Exception):  # noqa: N818 a signal, not an error
    """Another process is updating an index that still lacks changes."""


class IndexUpdater:
    """Runs `work` when requested, but not too often; the thread ends when there is nothing to do.

    `problem` is why the last run failed, None if it did not.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self.problem: StoreError | None = None
        self._work = work
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._waiting: list[Future[None]] = []
        self._hurry = threading.Event()
        self._closing = False
        self._stop = threading.Event()
        self._not_before = 0.0

    def request(self) -> None:
        with self._lock:
            self._wanted = True
            if self._thread is None and not self._closing:
                if not self._waiting:
                    self._not_before = max(self._not_before, time.monotonic() + HEAD_START)
                self._thread = threading.Thread(
                    target=self._run, name="lagotto-indexes", daemon=True
                )
                self._thread.start()

    async def catch_up(self) -> StoreError | None:
        """Wait for a run that begins now; why it failed, None if it did not.

        Whoever stops waiting does not stop the run.
        """
        done: Future[None] = Future()
        with self._lock:
            self._waiting.append(done)
            self._not_before = 0.0
        self._hurry.set()
        self.request()
        await asyncio.wrap_future(done)
        return self.problem

    def finish(self) -> None:
        """Do at once what is still to do, and end; what takes too long is left to the next run."""
        with self._lock:
            self._closing = True
            thread = self._thread
        self._hurry.set()
        if thread is not None:
            thread.join(LONGEST_WAIT)
        if thread is not None and thread.is_alive():
            self._stop.set()
            thread.join(LONGEST_WAIT)
            self._stop = threading.Event()
        self._closing = False

    def _run(self) -> None:
        while self._is_wanted():
            with self._lock:
                waiting, self._waiting = self._waiting, []
            start = time.monotonic()
            try:
                until_stopped(self._work, self._stop)
                self.problem = None
            except Interrupted:
                _tell(waiting, None)
                continue
            except IndexLocked:
                self._try_again(waiting)
                continue
            except StoreError as exc:
                if str(exc) != str(self.problem):
                    log.warning("the indexes can't be brought up to date: %s", exc)
                self.problem = exc
            except BaseException as exc:
                self._thread = None  # an error of ours; the next request starts another thread
                _tell(waiting, exc)
                raise
            now = time.monotonic()
            self._not_before = now + max(SHORTEST_PAUSE, PAUSES * (now - start))
            _tell(waiting, None)

    def _is_wanted(self) -> bool:
        self._hurry.wait(max(0.0, self._not_before - time.monotonic()))
        with self._lock:
            wanted, self._wanted = self._wanted, False
            if not wanted:
                self._thread = None
            if not self._closing:
                self._hurry.clear()
            return wanted

    def _try_again(self, waiting: Sequence[Future[None]]) -> None:
        """Run again soon for those who wait; a base that is closed leaves it to the others."""
        with self._lock:
            if not self._closing:
                self._waiting[:0] = waiting
                self._wanted = True
                self._not_before = time.monotonic() + BETWEEN_ATTEMPTS
                return
        _tell(waiting, None)


def catch_up_all(indexes: Indexes[Log], changes: Log, *, lock: UpdaterLock, least: int = 0) -> None:
    """Bring each of the indexes up to date; one that can't be reached does not keep the others.

    With `least`, only those that lack so many changes or more, and none is compacted. IndexLocked
    if another process is updating one of them, and is not done yet.
    """
    problems: list[Exception] = []
    for role, index in indexes.items():
        try:
            if least and _lacking(index, changes) < least:
                continue
            # Two updaters at once could leave a chunk in an index behind a network that is gone
            # from the record: the slower one writes it after the faster one has removed it.
            # Embedded indexes have locks of their own.
            with lock(role) if index.remote else nullcontext(True) as free:
                if free:
                    index.catch_up(changes)
                    if not least:
                        index.compact(changes)
            if not free and _lacking(index, changes):
                raise IndexLocked
        except (IndexUnavailableError, IndexLocked) as exc:
            problems.append(exc)
    for problem in sorted(problems, key=lambda exc: isinstance(exc, IndexLocked)):
        raise problem


def _lacking(index: SearchIndex[Log, Snapshot], changes: Log) -> int:
    index.refresh()
    return max(0, changes.head.seq - index.applied_seq(changes))


def retry_while_locked(work: Callable[[], None]) -> None:
    """Run `work` until no other process keeps it from being done; blocks."""
    while True:
        with suppress(IndexLocked):
            work()
            return
        checkpoint()
        time.sleep(BETWEEN_ATTEMPTS)


def delete_remote(indexes: Iterable[SearchIndex[Log, Snapshot]]) -> None:
    """Delete the indexes of a former generation that are behind a network; blocks."""
    for index in indexes:
        try:
            if index.remote:
                index.delete()
        except IndexUnavailableError as exc:
            log.warning("the former %s index could not be deleted: %s", index.kind, exc)


def _tell(waiting: Sequence[Future[None]], problem: BaseException | None) -> None:
    for done in waiting:
        if done.set_running_or_notify_cancel():
            done.set_exception(problem)
