"""Running many small jobs a few at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

Job = TypeVar("Job")


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
