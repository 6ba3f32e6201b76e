"""How much work goes on at once; whoever comes when too many wait is sent away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lagotto.server.problems import Problem


class Gate:
    """Lets `most` requests work at once, and `queue` more wait for them."""

    def __init__(self, most: int, *, queue: int) -> None:
        self._most = most
        self._queue = queue
        self._places = asyncio.Semaphore(most)
        self.waiting = 0
        self.working = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Work inside; TooManyRequests if the queue is full."""
        if self._places.locked() and self.waiting >= self._queue:
            raise Problem(
                "TooManyRequests",
                f"{self._most} requests are worked on and {self.waiting} wait; try again later",
            )
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.working += 1
        try:
            yield
        finally:
            self.working -= 1
            self._places.release()
