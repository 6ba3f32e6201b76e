"""Noticing that the server is to end, while requests are still answered."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noticing_signals(stopping: asyncio.Event) -> Iterator[None]:
    """Set `stopping` at the signals that end the server, whose own handlers run as well.

    The server waits for open connections; streams have to end by themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    former = {number: signal.getsignal(number) for number in SIGNALS}

    def notice(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stopping.set)
        handler = former[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in SIGNALS:
        signal.signal(number, notice)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
