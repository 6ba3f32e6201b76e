"""Whether work grows with its input or with the square of it."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

ATTEMPTS = 5
"""A busy machine may slow down one of them; work that is quadratic is slow in all."""


def grows_linearly(work: Callable[[int], object], size: int, *, times: int) -> bool:
    """Whether an input `times` as large takes less than four times `times` as much CPU time.

    `work` takes a size and returns what is to be done with an input of that size.
    """
    return any(
        _seconds(work, size * times) < 4 * times * max(_seconds(work, size), 0.001)
        for _ in range(ATTEMPTS)
    )


def _seconds(work: Callable[[int], object], size: int) -> float:
    started = process_time()
    work(size)
    return process_time() - started
