"""Run functions in threads, many jobs with a few workers, and guard what belongs to one loop."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from lagotto.errors import StoreError, native_panics

Job = TypeVar("Job")
P = ParamSpec("P")
T = TypeVar("T")

BETWEEN_INTERRUPTS = 0.02
"""Seconds between two calls of `interrupt`."""

MOST_WITHOUT_THREAD = 20
"""Items that are worked on where they are."""

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class Interrupted(BaseException):
    """Ends a function in a thread whose result is no longer awaited; it never reaches a caller."""


def checkpoint() -> None:
    """Raise Interrupted if this runs in a thread for a task that has been cancelled.

    For loops that may take long, about every hundredth of a second; elsewhere it does nothing.
    """
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise Interrupted


def with_checkpoints(items: Iterable[Job]) -> Iterator[Job]:
    """The items, each after a checkpoint: for loops whose length a caller decides."""
    for item in items:
        checkpoint()
        yield item


_awaited: set[object] = set()
"""One object for each piece of `awaited_work` of this process; adding and removing is atomic."""


@contextmanager
def awaited_work() -> Iterator[None]:
    """Work that somebody waits for: loops in other threads give way to it."""
    own = object()
    _awaited.add(own)
    try:
        yield
    finally:
        _awaited.discard(own)


def give_way() -> None:
    """Let awaited work in other threads run Python now, for loops of work in the background.

    A search beside such a loop would get the interpreter every five milliseconds only, each time
    that it has read something. Giving way takes 80 us, as long as it takes to index a chunk.
    """
    if _awaited:
        time.sleep(0)


def in_thread(
    function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> Coroutine[None, None, T]:
    """Run `function` in a thread and return its result.

    A thread can't be stopped: a cancellation waits until it has ended, or reached a `checkpoint`,
    so that nothing the function uses is closed or used by others before.
    """
    return interruptible(partial(function, *args, **kwargs), interrupt=lambda: None)


async def for_each(function: Callable[[Sequence[Job]], T], items: Sequence[Job]) -> T:
    """Run `function` on items, in a thread unless they are few: with 8 clients that ask for ten
    hits, a server answered a third fewer of them when each stage changed threads."""
    few = len(items) <= MOST_WITHOUT_THREAD
    return function(items) if few else await in_thread(function, items)


async def interruptible(
    call: Callable[[], T], *, interrupt: Callable[[], None], executor: Executor | None = None
) -> T:
    """Run `call` in a thread and return its result; `interrupt` makes it end early.

    The thread is one of `executor`, or of the loop's own. On a cancellation `interrupt` is called
    repeatedly until the thread has ended, since the operation it interrupts may not have started
    yet; a call that still waits for a thread is not started any more.
    """
    stop, started = threading.Event(), threading.Event()

    def run() -> T:
        started.set()  # before the check, so that it is one or the other
        if stop.is_set():
            raise Interrupted
        return until_stopped(call, stop)

    running = asyncio.get_running_loop().run_in_executor(executor, run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        # asyncio would log the error of the interrupted call, unless somebody asks for it
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        while started.is_set() and not running.done():
            interrupt()
            await asyncio.wait([running], timeout=BETWEEN_INTERRUPTS)
        raise


def until_stopped(call: Callable[[], T], stop: threading.Event) -> T:
    """Run `call`; once `stop` is set, its next `checkpoint` raises Interrupted."""
    former = _stop.set(stop)
    try:
        with native_panics("native code"):
            return call()
    finally:
        _stop.reset(former)


async def run_all(
    jobs: Iterable[Job], run: Callable[[Job], Awaitable[None]], *, workers: int
) -> None:
    """Run `run(job)` for every job, at most `workers` at a time, started in order.

    Jobs are not queued ahead, so two calls that share a thread pool or a connection alternate. The
    first failure, or a cancellation, stops the rest.
    """
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await run(job)

    tasks = [asyncio.ensure_future(work()) for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class Lazy(Generic[T]):
    """A value that is made on first use, once for all threads, and again after `drop`."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._value: T | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._value is None:
                self._value = self._make()
            return self._value

    @property
    def is_loaded(self) -> bool:
        return self._value is not None

    def drop(self) -> T | None:
        """Forget the value, and return it."""
        value, self._value = self._value, None
        return value


def available_cpus() -> int:
    """The number of CPUs that this process may use, possibly fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LoopGuard:
    """Refuses the use of a base in another process or event loop than the one that opened it.

    A forked process inherits neither the threads nor the locks of its parent, and a lock or an HTTP
    client of one event loop blocks another: without this check such a call hangs.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def forked(self) -> bool:
        """Whether this is a fork of the process that the guard was created in."""
        return os.getpid() != self._process

    def bind(self) -> None:
        """Bind to the running loop and to this process; StoreError if bound elsewhere already."""
        if self._loop is not None:
            self.check()
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()

    def check(self) -> None:
        """Raise StoreError in another process, or in another loop than the one bound to."""
        if self.forked:
            raise StoreError(
                f"this knowledge base was opened in process {self._process}, of which this one "
                f"({os.getpid()}) is a fork; open it again in this process, after the fork"
            )
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise StoreError(
                "this knowledge base was opened in another event loop; open one in each loop, or "
                "use KnowledgeBase, which any number of threads and loops may share"
            )

    def release(self) -> bool:
        """Unbind before closing; False in a fork, where everything belongs to the parent."""
        if self.forked:
            return False
        if self._loop is not None and not self._loop.is_closed():  # else in any loop
            self.check()
        self._loop = None
        return True
