"""Asking the server within one transaction, one question after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar

from psycopg import AsyncConnection as Driver
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")


class Reader:
    """A read transaction on a connection; questions that come at once take turns.

    A question whose task is cancelled is cancelled on the server too.
    """

    def __init__(self, connection: AsyncConnection, driver: Driver[Any]) -> None:
        self._connection = connection
        self._driver = driver
        self._turn = asyncio.Lock()

    @classmethod
    async def of(cls, connection: AsyncConnection) -> Reader:
        """A reader on a connection whose transaction has the isolation it needs."""
        raw = await connection.get_raw_connection()
        driver: Any = raw.driver_connection
        return cls(connection, driver)

    async def rows(
        self, statement: LiteralString, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """The rows that a statement gives, sent in binary."""
        async with self._turn, self._driver.cursor(binary=True) as cursor:
            await cursor.execute(statement, parameters)
            return await cursor.fetchall()

    async def ask(self, question: Callable[[Connection], T]) -> T:
        """The answer of a function that every SQL store uses."""
        async with self._turn:
            return await self._connection.run_sync(question)
