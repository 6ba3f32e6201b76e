"""How long each stage took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Milliseconds by stage; a stage that runs twice adds up."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time spent inside for a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = 1000 * (time.perf_counter() - started)
            self._stages[name] = self._stages.get(name, 0.0) + spent

    def milliseconds(self) -> dict[str, float]:
        """By stage, and in total so far."""
        total = 1000 * (time.perf_counter() - self._started)
        return {**self._stages, "total": total}
