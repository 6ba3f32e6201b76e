"""Running many small jobs a few at a time, and in threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import ParamSpec, TypeVar

Job = TypeVar("Job")
P = ParamSpec("P")
T = TypeVar("T")

BETWEEN_INTERRUPTS = 0.02
"""Seconds."""


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns, run in a thread.

    A thread can't be stopped. A cancellation waits for it to end, so that nothing which the
    function uses is taken away or used by others meanwhile.
    """
    return await interruptible(partial(function, *args, **kwargs), interrupt=lambda: None)


async def interruptible(call: Callable[[], T], *, interrupt: Callable[[], None]) -> T:
    """What `call` returns, run in a thread; `interrupt` makes it end early.

    On a cancellation `interrupt` is called until the thread has ended: what it interrupts may not
    have begun yet.
    """
    running = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            interrupt()
            await asyncio.wait([running], timeout=BETWEEN_INTERRUPTS)
        raise


async def run_all(
    jobs: Iterable[Job], run: Callable[[Job], Awaitable[None]], *, workers: int
) -> None:
    """Run `run(job)` for every job, at most `workers` at once, starting them in order.

    Nothing is queued ahead, so two calls that share a thread pool or a connection take turns.
    The first failure, or a cancellation, stops the rest.
    """
    waiting = iter(jobs)
    tasks = [asyncio.ensure_future(_work(waiting, run)) for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _work(waiting: Iterator[Job], run: Callable[[Job], Awaitable[None]]) -> None:
    for job in waiting:
        await run(job)


def available_cpus() -> int:
    """How many CPUs this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
