"""Connections to the servers of a base."""

from __future__ import annotations

from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from psycopg import AsyncConnection
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from lagotto.stores.postgres.adapters import register
from lagotto.stores.postgres.address import Address
from lagotto.stores.postgres.vector_index.search import FEWEST_KEPT

_SETTINGS = (
    f"SET hnsw.ef_search = {FEWEST_KEPT}",
    "SET hnsw.iterative_scan = 'relaxed_order'",
    "SET hnsw.max_scan_tuples = 1000000",
    "SET jit = off",
)


@dataclass(frozen=True, slots=True)
class Servers:
    """Pools of connections: for writing, for searching, and for single questions.

    A running search may ask a question. With one pool for both, many searches at once could hold
    all connections and wait for each other. With several hosts, searches and questions go to a
    standby if there is one.
    """

    writing: AsyncEngine
    searching: AsyncEngine
    asking: AsyncEngine

    @classmethod
    def at(cls, address: Address) -> Servers:
        """Pools for the servers of an address; nothing is connected yet."""
        if not address.has_several_hosts:
            writing = _pool(address)
            return cls(writing, searching=_pool(address), asking=writing)
        reading = "prefer-standby"
        return cls(
            _pool(address, session="read-write"),
            searching=_pool(address, session=reading),
            asking=_pool(address, session=reading),
        )

    async def dispose(self) -> None:
        """Close all connections that are not in use."""
        for engine in (self.writing, self.searching, self.asking):
            await engine.dispose()


def create_single(address: Address) -> AsyncEngine:
    """An engine without a pool: every connection may write, and is closed after use."""
    options = {"target_session_attrs": "read-write"}
    return create_async_engine(address.url, poolclass=NullPool, connect_args=options)


def create_blocking(address: Address) -> Engine:
    """An engine for a thread that follows the change log of the primary server."""
    options = {"target_session_attrs": "read-write" if address.has_several_hosts else "any"}
    engine = create_engine(address.url, pool_size=1, connect_args=options)
    event.listen(engine, "connect", _prepare)
    return engine


def _pool(address: Address, *, session: str = "any") -> AsyncEngine:
    """A pool of connections on which the vector type is registered."""
    engine = create_async_engine(
        address.url,
        pool_size=address.pool.kept,
        max_overflow=address.pool.most - address.pool.kept,
        pool_timeout=address.pool.timeout,
        connect_args={"target_session_attrs": session},
    )

    event.listen(engine.sync_engine, "connect", _prepare)

    @event.listens_for(engine.sync_engine, "checkout")
    def check(connection: Any, _record: ConnectionPoolEntry, _proxy: object) -> None:
        # Pinging the server would cost every search a round trip.
        if _has_spoken(connection.driver_connection):
            raise InvalidatePoolError

    return engine


def _prepare(connection: Any, _record: ConnectionPoolEntry) -> None:
    """Register the vector type, and choose settings."""
    cursor = connection.cursor()
    cursor.execute("SELECT to_regtype('vector')::oid")
    (oid,) = cursor.fetchone()
    if oid is not None:
        register(getattr(connection, "driver_connection", connection), vector_oid=oid)
        for setting in _SETTINGS:
            cursor.execute(setting)
    cursor.close()
    connection.commit()


def _has_spoken(driver: AsyncConnection[Any]) -> bool:
    """Whether the server has sent something unasked, which mostly means that it shut down."""
    if driver.closed:
        return True
    with DefaultSelector() as selector:
        selector.register(driver.fileno(), EVENT_READ)
        return bool(selector.select(0))
