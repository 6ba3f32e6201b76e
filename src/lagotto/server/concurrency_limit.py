"""Limits concurrent requests, and notices the end of the server while they wait."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import FrameType

from lagotto.server.problems import Problem

WIDE_SHARE = 8
"""One of so many requests that work at once may be wide: they keep the interpreter busy for
seconds, and each of them makes all others wait for it."""


@dataclass(eq=False, slots=True)
class _Entry:
    """A request in the gate; `admitted` is done once it may work, or with the problem."""

    client: str
    wide: bool
    admitted: asyncio.Future[None]


class Gate:
    """Lets `most` requests work at once, and `queue` more wait for them.

    The next one to work is the oldest of the client with the fewest at work. When the queue is
    full, the latest of the client with the most in it is rejected, so that a client with a hundred
    requests does not keep others out. Of `wide` requests only a few work at once.
    """

    def __init__(self, most: int, *, queue: int) -> None:
        self._most = most
        self._most_wide = max(1, most // WIDE_SHARE)
        self._queue = queue
        self._waiting: list[_Entry] = []
        self._working: list[_Entry] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def working(self) -> int:
        return len(self._working)

    @asynccontextmanager
    async def slot(self, client: str = "", *, wide: bool = False) -> AsyncIterator[None]:
        """Work inside; TooManyRequests if the queue is full."""
        entry = _Entry(client, wide, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._admit()
        if self.waiting > self._queue:
            self._reject()
        try:
            await entry.admitted
            yield
        finally:
            for entries in (self._waiting, self._working):
                if entry in entries:
                    entries.remove(entry)
            self._admit()

    def _admit(self) -> None:
        while self.working < self._most:
            room = sum(entry.wide for entry in self._working) < self._most_wide
            able = [entry for entry in self._waiting if room or not entry.wide]
            if not able:
                return
            by_client = Counter(entry.client for entry in self._working)
            entry = min(able, key=lambda entry: by_client[entry.client])  # of equals, the oldest
            self._waiting.remove(entry)
            self._working.append(entry)
            if not entry.admitted.done():
                entry.admitted.set_result(None)

    def _reject(self) -> None:
        """Reject the latest request of the client with the most that wait."""
        waiting = Counter(entry.client for entry in self._waiting)
        latest = max(reversed(self._waiting), key=lambda entry: waiting[entry.client])
        self._waiting.remove(latest)
        if not latest.admitted.done():
            detail = f"{self.working} requests are worked on and {self.waiting} wait"
            latest.admitted.set_exception(Problem("TooManyRequests", f"{detail}; try again later"))


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noticing_signals(stopping: asyncio.Event) -> Iterator[None]:
    """Set `stopping` at the signals that end the server, whose own handlers run as well.

    The server waits for open connections; streams have to end by themselves.
    """
    loop = asyncio.get_running_loop()
    in_main_thread = threading.current_thread() is threading.main_thread()  # no other may
    former = {number: signal.getsignal(number) for number in SIGNALS if in_main_thread}

    def notice(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stopping.set)
        handler = former[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in former:
        signal.signal(number, notice)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
