"""A read transaction on the server: one statement at a time, until the deadline of the search."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection as Driver
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from lagotto.errors import StoreError
from lagotto.request_context import time_left

SLACK = 1.0
"""Seconds after the deadline in which the client cancels the query itself."""

SHORTEST, LONGEST = 0.001, 2_000_000.0
"""Seconds; the server counts milliseconds in 32 bits, and takes none for no limit."""

SET_STATEMENT_TIMEOUT: LiteralString = """
set_config('statement_timeout', (1000 * extract(epoch FROM least(
    nullif(current_setting('statement_timeout')::interval, interval '0'),
    make_interval(secs => %(limit)s)
)))::int::text, true)"""
"""Applies until the end of the transaction; a shorter limit set on the server stays."""


def limit() -> float | None:
    """Seconds that a statement may take on the server from now on, None for no limit."""
    left = time_left()
    return None if left is None else min(max(left + SLACK, SHORTEST), LONGEST)


def set_statement_timeout(connection: Connection) -> None:
    """Limit the statements of a transaction if its search has a deadline."""
    seconds = limit()
    if seconds is not None:
        connection.exec_driver_sql(f"SELECT {SET_STATEMENT_TIMEOUT}", {"limit": seconds})


T = TypeVar("T")


class ReadTransaction:
    """A RecordReader on a connection; runs one statement at a time.

    Cancelling the task cancels its statement on the server too. After the end of the transaction
    every call fails, since the connection may be in use elsewhere.
    """

    def __init__(self, connection: AsyncConnection, driver: Driver[Any]) -> None:
        self._connection = connection
        self._driver = driver
        self._lock = asyncio.Lock()
        self._over = False

    @classmethod
    @asynccontextmanager
    async def on(cls, connection: AsyncConnection) -> AsyncIterator[ReadTransaction]:
        """Read on a connection that is in a transaction with the isolation level it needs."""
        raw = await connection.get_raw_connection()
        driver: Any = raw.driver_connection
        reader = cls(connection, driver)
        try:
            yield reader
        except psycopg.Error:
            if driver.closed:  # a rollback would fail too, and hide the cause
                await connection.invalidate()
            raise
        finally:
            reader._over = True
            async with reader._lock:  # another leg's statement may be running
                pass

    async def rows(
        self, statement: LiteralString, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows, transferred in binary."""
        async with self._locked(), self._driver.cursor(binary=True) as cursor:
            await cursor.execute(statement, parameters)
            return await cursor.fetchall()

    async def ask(self, question: Callable[[Connection], T], *, brief: bool = False) -> T:
        """Run a function over the connection; needs no thread, whatever `brief` says."""
        async with self._locked():
            return await self._connection.run_sync(question)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        async with self._lock:
            if self._over:
                raise StoreError("this view of the base is closed; open another one")
            yield
