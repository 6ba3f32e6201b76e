"""Connections to the servers of a base, and the errors of both as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import psycopg
from psycopg import AsyncConnection as Driver
from psycopg import errors
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as NoConnectionLeft
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from lagotto.errors import (
    ConfigError,
    NotABaseError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from lagotto.stores.postgres.address import Address
from lagotto.stores.postgres.types import register
from lagotto.stores.postgres.vector_index import FEWEST_KEPT

EXTENSIONS = {"vector": "0.8.0", "pg_trgm": "1.6"}
"""The extensions that a database needs, and their least versions."""


@contextmanager
def postgres_errors(location: str) -> Iterator[None]:
    """Translate errors of psycopg and SQLAlchemy into StoreErrors."""
    try:
        yield
    except NoConnectionLeft as exc:
        raise StoreBusyError(
            f"{location}: too many searches at once, all connections are in use; try again later, "
            "or raise max_connections=... in the address"
        ) from exc
    except UnicodeEncodeError as exc:
        raise ConfigError(f"{exc.object!r:.100} is not valid Unicode text; correct it") from exc
    except DBAPIError as exc:
        if not isinstance(exc.orig, psycopg.Error):
            raise
        raise _explained(location, exc.orig) from exc
    except psycopg.Error as exc:
        raise _explained(location, exc) from exc


def _explained(location: str, error: psycopg.Error) -> StoreError:
    said = " ".join(str(error).split())
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreReadOnlyError(
            f"{location}: {said}; ask the owner of the database to grant the privilege"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreReadOnlyError(
            f"{location} can only be read: {said}; write to the primary server"
        )
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusyError(
            f"{location}: another process is writing; try again when it has ended"
        )
    if isinstance(error, errors.QueryCanceled):
        return StoreBusyError(
            f"{location}: the server ended a query ({said}); give the search more time, or raise "
            "the server's statement_timeout"
        )
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return StoreBusyError(f"{location}: another transaction interfered ({said}); try again")
    if isinstance(error, errors.DiskFull):
        return StoreFullError(
            f"{location}: the server's disk is full ({said}); free some space and add the "
            "documents again (what was stored before is safe)"
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return NotABaseError(f"{location} is not a Lagotto base any more: {said}; open it again")
    if _is_unavailable(error):
        return StoreUnavailableError(
            f"{location} can't be reached: {said}; check the address and that the server is "
            "running, then try again (what was stored before is safe)"
        )
    return StoreError(f"{location}: {said}")


def _is_unavailable(error: psycopg.Error) -> bool:
    """A failed connection has no SQLSTATE; a broken one has class 08 or 57P."""
    state = error.sqlstate or ""
    if isinstance(error, psycopg.OperationalError) and not state:
        return True
    return state.startswith(("08", "57P", "53300"))


def missing_extension(location: str, name: str, error: psycopg.Error) -> StoreError:
    """The error for an extension that this user may not add, or that the server lacks."""
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreReadOnlyError(
            f"{location}: the extension {name} is missing, and this user may not add it; have an "
            f"administrator run in this database: CREATE EXTENSION {name};"
        )
    package = "pgvector" if name == "vector" else "postgresql-contrib"
    return StoreError(
        f"{location}: the server doesn't have the extension {name} ({str(error).strip()}); install "
        f"{package} on the server, then run: CREATE EXTENSION {name};"
    )


def old_extension(location: str, name: str, version: str) -> StoreError:
    """The error for an extension that is too old."""
    return StoreError(
        f"{location}: the extension {name} has version {version}, but {EXTENSIONS[name]} is "
        f"needed; install a newer version on the server, then run: ALTER EXTENSION {name} UPDATE;"
    )


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


def _has_spoken(driver: Driver[Any]) -> bool:
    """Whether the server has sent something unasked, which mostly means that it shut down."""
    if driver.closed:
        return True
    with DefaultSelector() as selector:
        selector.register(driver.fileno(), EVENT_READ)
        return bool(selector.select(0))
