"""A base on a server: its address, connections and read transactions, and their errors as ours."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from selectors import EVENT_READ, DefaultSelector
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection as Driver
from psycopg import errors
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as NoConnectionLeft
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from lagotto._internal.locations import mask_location
from lagotto.errors import (
    ConfigError,
    NotABaseError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from lagotto.request_context import time_left
from lagotto.stores.postgres.types import register

T = TypeVar("T")

EXTENSIONS = {"vector": "0.8.0", "pg_trgm": "1.6"}
"""The extensions that a database needs, and their least versions."""

FEWEST_KEPT = 250
"""Candidates that pgvector keeps in a search of its graph: hnsw.ef_search; see vector_index."""

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


DEFAULT_PORT = "5432"
KEPT_OPEN = 8
MOST_CONNECTIONS = 40
FEWEST_CONNECTIONS = 2
"""`why_not` needs two connections at once."""

POOL_TIMEOUT = 30.0
CONNECT_TIMEOUT = "10"
"""Seconds per host, in libpq's form."""

_POOL = ("pool_size", "max_connections", "pool_timeout")
_SECRET = ("password", "sslpassword")
_SEVERAL = re.compile(
    r"\A(?P<before>[a-z]++://(?:[^/@]*+@)?)(?P<hosts>[^/?@,]*+,[^/?@]*+)(?P<behind>/.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Connections kept open, the most there may be, and seconds to wait for one."""

    kept: int
    most: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Address:
    """Where a base is: the form for messages, the driver's URL, and the pool settings."""

    location: str
    url: URL = field(repr=False)
    pool: PoolSettings

    @property
    def has_several_hosts(self) -> bool:
        """Whether some of the servers may be standbys."""
        return "," in self.url.query.get("host", "")


def parse_location(location: str) -> Address:
    """Parse a location; several hosts are separated by commas, as in libpq."""
    url = _parsed(location)
    shown = url.difference_update_query(_SECRET).render_as_string(hide_password=True)
    location = mask_location(shown)
    if not url.database:
        raise ConfigError(f"{location} names no database; write postgresql://host/database")
    options = _options(url, location)
    pool = _pool_settings({name: options.pop(name) for name in _POOL if name in options})
    try:
        make_conninfo(**options)
    except psycopg.ProgrammingError as exc:
        raise ConfigError(
            f"{location}: {str(exc).strip()}; the part after ? takes options of libpq, "
            f"and {', '.join(_POOL)}"
        ) from exc
    options = {"connect_timeout": CONNECT_TIMEOUT, **options}
    return Address(location, url.set(drivername="postgresql+psycopg", query=options), pool)


def _parsed(location: str) -> URL:
    hosts = _SEVERAL.fullmatch(location)
    try:
        url = make_url(hosts["before"] + hosts["behind"] if hosts else location)
    except (ArgumentError, ValueError):
        raise ConfigError(
            f"{mask_location(location)} is not the address of a database; write "
            "postgresql://user:password@host:5432/database"
        ) from None  # its message may quote a part of the password
    if "@" in (url.host or ""):
        raise ConfigError(
            f"{mask_location(location)} has an @ in the password or the user name; write it as %40"
        )
    if hosts:
        pairs = [host.partition(":") for host in hosts["hosts"].split(",")]
        names, ports = [pair[0] for pair in pairs], [pair[2] or DEFAULT_PORT for pair in pairs]
        if wrong := [port for port in ports if not (port.isascii() and port.isdigit())]:
            raise ConfigError(
                f"{mask_location(location)}: the port {wrong[0]!r} is not a number; write "
                "postgresql://user:password@host1:5432,host2:5433/database"
            )
        url = url.update_query_dict({"host": ",".join(names), "port": ",".join(ports)})
    return url.set(drivername="postgresql")


def _options(url: URL, location: str) -> dict[str, str]:
    options = {}
    for name, value in url.query.items():
        if not isinstance(value, str):
            raise ConfigError(
                f"{location} gives {name} more than once; separate several hosts by commas"
            )
        options[name] = value
    return options


def _pool_settings(given: Mapping[str, str]) -> PoolSettings:
    kept = _number(given, "pool_size", otherwise=KEPT_OPEN, least=1)
    most = _number(
        given,
        "max_connections",
        otherwise=max(MOST_CONNECTIONS, kept),
        least=max(FEWEST_CONNECTIONS, kept),
    )
    try:
        timeout = float(given.get("pool_timeout", POOL_TIMEOUT))
    except ValueError:
        timeout = math.nan
    if not 0 < timeout < math.inf:
        raise ConfigError(
            f"pool_timeout is {given['pool_timeout']!r}; give a number of seconds above 0"
        )
    return PoolSettings(kept, most, timeout)


def _number(given: Mapping[str, str], name: str, *, otherwise: int, least: int) -> int:
    said = given.get(name, str(otherwise))
    if not said.isascii() or not said.isdigit() or int(said) < least:
        raise ConfigError(f"{name} is {said!r}; give a whole number, {least} or more")
    return int(said)


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


def limit() -> float | None:
    """Seconds that a statement may take on the server from now on, None for no limit."""
    left = time_left()
    return None if left is None else min(max(left + SLACK, SHORTEST), LONGEST)


def set_statement_timeout(connection: Connection) -> None:
    """Limit the statements of a transaction if its search has a deadline."""
    seconds = limit()
    if seconds is not None:
        connection.exec_driver_sql(f"SELECT {SET_STATEMENT_TIMEOUT}", {"limit": seconds})


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
