"""Asking the file within one read transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from lagotto.concurrency import interruptible
from lagotto.stores.sqlite.database import damage_errors

T = TypeVar("T")


class SqliteReader:
    """A RecordReader on a connection; what is not brief runs in a thread, one at a time."""

    def __init__(self, connection: Connection, *, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()

    async def ask(self, question: Callable[[Connection], T], *, brief: bool = False) -> T:
        def answer() -> T:
            with self._lock, damage_errors(self._path):
                return question(self._connection)

        return answer() if brief else await interruptible(answer, interrupt=self._interrupt)

    def _interrupt(self) -> None:
        """End the statement that is running; it fails, but nobody waits for it any more."""
        driver = self._connection.connection.driver_connection
        if driver is not None:
            driver.interrupt()
