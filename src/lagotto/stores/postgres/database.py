"""A base on a server: its address, connections, read transactions, locks, errors, binary values.

Writers of different documents work side by side: every writer holds a shared lock on the base, and
an exclusive lock for each of its documents. All of them are released at the end of the transaction.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import struct
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Literal, LiteralString, NamedTuple, TypeVar

import numpy as np
import psycopg
import sqlalchemy
from numpy.typing import NDArray
from psycopg import AsyncConnection as Driver
from psycopg import BaseConnection, errors
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import make_conninfo
from psycopg.pq import Format
from psycopg.sql import SQL, Identifier
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as NoConnectionLeft
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import await_only

from lagotto._internal.locations import mask_location
from lagotto.documents import digest
from lagotto.errors import (
    ConfigError,
    NotABaseError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from lagotto.indexes.base import ChunkKeys
from lagotto.request_context import time_left
from lagotto.stores.sql.read import Name
from lagotto.stores.sql.statements import joined_keys
from lagotto.stores.sql.tables import Instant, Number, StoredVector, Tables

T = TypeVar("T")
log = logging.getLogger(__name__)

EXTENSIONS = {"vector": "0.8.0", "pg_trgm": "1.6"}
"""The extensions that a database needs, and their least versions."""

FEWEST_CANDIDATES = 250
"""Candidates that pgvector keeps in a search of its graph: hnsw.ef_search; see vector_index."""

_SETTINGS = (
    f"SET hnsw.ef_search = {FEWEST_CANDIDATES}",
    "SET hnsw.iterative_scan = 'relaxed_order'",
    "SET hnsw.max_scan_tuples = 1000000",
    "SET jit = off",
)


class Servers(NamedTuple):
    """Pools of connections: for writing, for searching, and for single questions.

    A running search may ask a question. With one pool for both, many searches at once could hold
    all connections and wait for each other. With several hosts, searches and questions go to a
    standby if there is one.
    """

    writing: AsyncEngine
    searching: AsyncEngine
    asking: AsyncEngine
    ending: set[asyncio.Task[None]]
    """Transactions that have read all they were to read: nobody waits for their end."""
    location: str

    @classmethod
    def at(cls, address: Address) -> Servers:
        """Pools for the servers of an address; nothing is connected yet."""
        if not address.has_several_hosts:
            writing = _pool(address, "any")
            return cls(writing, _pool(address, "any"), writing, set(), address.location)
        searching, asking = (_pool(address, "prefer-standby") for _ in range(2))
        writing = _pool(address, "read-write")
        return cls(writing, searching, asking, set(), address.location)

    @asynccontextmanager
    async def reader(self, *, latest: bool = False) -> AsyncIterator[ReadTransaction]:
        """Read one state of the base, the `latest` or one of a standby."""
        async with AsyncExitStack() as stack:
            stack.enter_context(postgres_errors(self.location))
            engine = self.writing if latest else self.searching
            yield await stack.enter_async_context(ReadTransaction.on(engine))
            task = asyncio.create_task(stack.pop_all().aclose())
            self.ending.add(task)
            task.add_done_callback(self._ended)
            # COMMIT is sent here: a caller that blocks the loop next leaves no transaction open.
            await asyncio.sleep(0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.ending.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.info("the end of a transaction that has read all: %s", error)

    async def dispose(self) -> None:
        """Close all connections that are not in use."""
        while self.ending:
            await asyncio.wait(self.ending)
        for engine in (self.writing, self.searching, self.asking):
            await engine.dispose()


@asynccontextmanager
async def single_connection(
    address: Address, isolation_level: Literal["READ COMMITTED", "AUTOCOMMIT"] = "READ COMMITTED"
) -> AsyncIterator[AsyncConnection]:
    """A connection of its own that may write; it is closed after use, which releases its locks."""
    options = {"target_session_attrs": "read-write"}
    engine = create_async_engine(
        address.url, poolclass=NullPool, connect_args=options, isolation_level=isolation_level
    )
    with postgres_errors(address.location):
        async with engine.connect() as connection:
            yield connection


def create_blocking(address: Address) -> Engine:
    """An engine for a thread that follows the change log of the primary server.

    Each transaction reads one state of the base.
    """
    options = {"target_session_attrs": "read-write" if address.has_several_hosts else "any"}
    engine = create_engine(
        address.url,
        pool_size=1,
        connect_args=options,
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
    )
    event.listen(engine, "connect", _prepare)
    return engine


def _pool(address: Address, session: str) -> AsyncEngine:
    """A pool of connections on which the vector type is registered."""
    engine = create_async_engine(
        address.url,
        connect_args={"target_session_attrs": session},
        **address.pool,
    )
    event.listen(engine.sync_engine, "connect", _prepare)

    @event.listens_for(engine.sync_engine, "checkout")
    def check(connection: Any, _record: ConnectionPoolEntry, _proxy: object) -> None:
        """Replace a connection whose server has sent something unasked: mostly it shut down.

        Pinging the server would cost every search a round trip.
        """
        driver = connection.driver_connection
        with DefaultSelector() as selector:
            if not driver.closed:
                selector.register(driver.fileno(), EVENT_READ)
            if driver.closed or selector.select(0):
                raise InvalidatePoolError

    return engine


def _prepare(connection: Any, _record: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT to_regtype('vector')::oid")
    (oid,) = cursor.fetchone()
    if oid is not None:
        register(getattr(connection, "driver_connection", connection), vector_oid=oid)
        for setting in _SETTINGS:
            cursor.execute(setting)
    cursor.close()
    connection.commit()


DEFAULT_PORT = "5432"
KEPT_OPEN = 8
MOST_CONNECTIONS = 40
FEWEST_CONNECTIONS = 2  # `why_not` needs two connections at once
POOL_TIMEOUT = 30.0
CONNECT_TIMEOUT = "10"  # seconds per host, in libpq's form
_POOL = ("pool_size", "max_connections", "pool_timeout")
_SECRET = ("password", "sslpassword")
_SEVERAL = re.compile(
    r"\A(?P<before>[a-z]++://(?:[^/@]*+@)?)(?P<hosts>[^/?@,]*+,[^/?@]*+)(?P<behind>/.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a base is: the form for messages, the driver's URL, and SQLAlchemy's pool settings."""

    location: str
    url: URL = field(repr=False)
    pool: Mapping[str, Any]

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
    options = {}
    for name, value in url.query.items():
        if not isinstance(value, str):
            raise ConfigError(
                f"{location} gives {name} more than once; separate several hosts by commas"
            )
        options[name] = value
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


def _pool_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    size = _number(settings, "pool_size", KEPT_OPEN, least=1)
    usual, least = max(MOST_CONNECTIONS, size), max(FEWEST_CONNECTIONS, size)
    most = _number(settings, "max_connections", usual, least=least)
    try:
        timeout = float(settings.get("pool_timeout", POOL_TIMEOUT))
    except ValueError:
        timeout = math.nan
    if not 0 < timeout < math.inf:
        raise ConfigError(
            f"pool_timeout is {settings['pool_timeout']!r}; give a number of seconds above 0"
        )
    return {"pool_size": size, "max_overflow": most - size, "pool_timeout": timeout}


def _number(settings: Mapping[str, str], name: str, otherwise: int, *, least: int) -> int:
    value = settings.get(name, str(otherwise))
    if not value.isascii() or not value.isdigit() or int(value) < least:
        raise ConfigError(f"{name} is {value!r}; give a whole number, {least} or more")
    return int(value)


SLACK = 1.0  # seconds after the deadline in which the client cancels the query itself
SHORTEST, LONGEST = 0.001, 2_000_000.0
"""Seconds; the server counts milliseconds in 32 bits, and takes none for no limit."""

_SET_TIMEOUT: LiteralString = """
SELECT set_config('statement_timeout', (1000 * extract(epoch FROM least(
    nullif(current_setting('statement_timeout')::interval, interval '0'),
    make_interval(secs => %(limit)s)
)))::int::text, true)"""
"""Applies until the end of the transaction; a shorter limit set on the server stays."""


_BEGIN: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(eq=False, slots=True)
class _Query:
    """A statement that waits for the connection, and its rows once it has run."""

    statement: LiteralString
    parameters: Mapping[str, Any] | None = None
    rows: Sequence[tuple[Any, ...]] | psycopg.Error | None = None


class ReadTransaction:
    """A RecordReader on a connection.

    Statements that tasks wait for at the same time are sent together, in one round trip, the first
    ones with the beginning of the transaction.
    Cancelling the task cancels its statement on the server too. After the end of the transaction
    every call fails, since the connection may be in use elsewhere.
    """

    def __init__(self, connection: AsyncConnection, driver: Driver[Any]) -> None:
        self._connection = connection
        self._driver = driver
        self._lock = asyncio.Lock()
        self._over = False
        self._waiting = [_Query(_BEGIN)]

    @classmethod
    @asynccontextmanager
    async def on(cls, engine: AsyncEngine) -> AsyncIterator[ReadTransaction]:
        """Read one state of a base, each statement for as long as the deadline of a search allows.

        It ends with a commit: after a rollback the driver discards its prepared statements.
        """
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")  # psycopg's BEGIN waits
        async with engine.begin() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            reader = cls(connection, driver)
            if (seconds := limit()) is not None:
                reader.soon(_SET_TIMEOUT, {"limit": seconds})
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
        query = _Query(statement, parameters)
        self._waiting.append(query)
        try:
            await asyncio.sleep(0)  # others add theirs
            async with self._locked():
                if query.rows is None:
                    await self._run_waiting()
        finally:
            if query in self._waiting:
                self._waiting.remove(query)
        if query.rows is None or isinstance(query.rows, psycopg.Error):
            raise query.rows or StoreError("the statement was cancelled; search again")
        return query.rows

    def soon(self, statement: LiteralString, parameters: Mapping[str, Any]) -> None:
        """Run a statement before the next one, in the same round trip."""
        self._waiting.append(_Query(statement, parameters))

    async def _run_waiting(self) -> None:
        queries, self._waiting = self._waiting, []
        cursors = [self._driver.cursor(binary=True) for _ in queries]
        error = None
        try:
            async with self._driver.pipeline() if len(queries) > 1 else nullcontext():
                for cursor, query in zip(cursors, queries, strict=True):
                    await cursor.execute(query.statement, query.parameters)
        except psycopg.Error as exc:
            error = exc  # of the first that failed; later ones were not run
        for cursor, query in zip(cursors, queries, strict=True):
            query.rows = await cursor.fetchall() if cursor.description else error
            await cursor.close()

    async def keys(self, statement: LiteralString, parameters: Mapping[str, Any]) -> ChunkKeys:
        """The keys that a statement has joined by `string_agg(int8send(key), '')`."""
        ((joined,),) = await self.rows(statement, parameters)
        return joined_keys(joined)

    async def ask(self, question: Callable[[Connection], T], *, brief: bool = False) -> T:
        """Run a function over the connection; needs no thread, whatever `brief` says."""
        async with self._locked():
            if self._waiting:
                await self._run_waiting()
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


SAFE = "what was stored before is safe"


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
    message = " ".join(str(error).split())
    state = error.sqlstate or ""
    match error:
        case errors.InsufficientPrivilege():
            advice = "ask the owner of the database to grant the privilege"
            return StoreReadOnlyError(f"{location}: {message}; {advice}")
        case errors.ReadOnlySqlTransaction():
            what = f"{location} can only be read: {message}; write to the primary server"
            return StoreReadOnlyError(what)
        case errors.LockNotAvailable():
            advice = "try again when it has ended"
            return StoreBusyError(f"{location}: another process is writing; {advice}")
        case errors.QueryCanceled():
            advice = "give the search more time, or raise the server's statement_timeout"
            return StoreBusyError(f"{location}: the server ended a query ({message}); {advice}")
        case errors.SerializationFailure() | errors.DeadlockDetected():
            what = f"{location}: another transaction interfered ({message}); try again"
            return StoreBusyError(what)
        case errors.DiskFull():
            advice = f"free some space and add the documents again ({SAFE})"
            return StoreFullError(f"{location}: the server's disk is full ({message}); {advice}")
        case errors.UndefinedTable() | errors.UndefinedColumn():
            what = f"{location} is not a Lagotto base any more: {message}; open it again"
            return NotABaseError(what)
    # a failed connection has no SQLSTATE; a broken one has class 08 or 57P
    failed = isinstance(error, psycopg.OperationalError) and not state
    if failed or state.startswith(("08", "57P", "53300")):
        advice = f"check the address and that the server is running, then try again ({SAFE})"
        return StoreUnavailableError(f"{location} can't be reached: {message}; {advice}")
    return StoreError(f"{location}: {message}")


BUSY_TIMEOUT = 30.0

MOST_LOCKED = 128
"""A writer of more documents locks the whole base: the server has room for about 6,400 locks."""

# The classes of advisory locks: `LAG` and a letter.
WRITER = 0x4C41474F  # shared by writers of documents; alone, the whole base
MERGER = 0x4C41474D  # merges segments
REBUILDER = 0x4C414752  # rebuilds the base
BUILDER = 0x4C414748  # builds a graph of vectors
FOLLOWERS = {"text": 0x4C414754, "vectors": 0x4C414756}  # bring a remote index up to date
PREPARER = 0x4C414750  # changes what all bases of a database share

SCHEMA = "coalesce(current_schema(), 'public')::regnamespace::oid"
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({WRITER}, {SCHEMA}::int)")
_OWN = text(f"SELECT pg_advisory_xact_lock({WRITER}, {SCHEMA}::int)")
# Acquired in the order of their numbers, so that no two writers deadlock.
_LOCK = text(f"""
SELECT count(pg_advisory_xact_lock(lock)) FROM (
    SELECT DISTINCT hashtextextended(name, {SCHEMA}::bigint) AS lock
    FROM unnest(cast(:names AS text[])) AS name ORDER BY lock
) AS ordered
""")


def acquire_locks(
    connection: Connection, names: Collection[Name] | None, *, timeout: float
) -> None:
    """Lock these documents for writing; None locks the whole base."""
    connection.execute(text(f"SET LOCAL lock_timeout = {int(timeout * 1000)}"))
    if names is None or len(names) > MOST_LOCKED:
        connection.execute(_OWN)
        return
    connection.execute(_SHARE)
    if names:
        connection.execute(_LOCK, {"names": [digest(*name) for name in names]})


def try_lock(lock_class: int) -> str:
    """A statement that tries to lock something of the base until the end of the transaction."""
    return f"SELECT pg_try_advisory_xact_lock({lock_class}, {SCHEMA}::int)"


INT8, INT8_ARRAY = 20, 1016
_ITEM = np.dtype([("size", ">i4"), ("number", ">i8")])
DIALECT = "postgresql"


@dataclass(frozen=True, slots=True)
class VectorParameter:
    """A vector to send to the server."""

    numbers: NDArray[np.float32]

    def encoded(self) -> bytes:
        """In pgvector's binary format."""
        return struct.pack(">hh", len(self.numbers), 0) + self.numbers.astype(">f4").tobytes()


@dataclass(frozen=True, slots=True)
class KeysParameter:
    """Keys to send to the server, a bigint[] there."""

    keys: ChunkKeys

    def encoded(self) -> bytes:
        if not len(self.keys):
            return struct.pack(">iii", 0, 0, INT8)
        items = np.empty(len(self.keys), _ITEM)
        items["size"], items["number"] = 8, self.keys
        return struct.pack(">iiiii", 1, 0, INT8, len(items), 1) + items.tobytes()


def register(connection: BaseConnection[object], *, vector_oid: int) -> None:
    """Register the parameters above with a connection, and a loader for vectors."""
    for kind, oid in ((VectorParameter, vector_oid), (KeysParameter, INT8_ARRAY)):
        dumper = type(f"{kind.__name__}Dumper", (_EncodedDumper,), {"oid": oid})
        connection.adapters.register_dumper(kind, dumper)
    connection.adapters.register_loader(vector_oid, _TextVectorLoader)
    connection.adapters.register_loader(vector_oid, _BinaryVectorLoader)


class _EncodedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: VectorParameter | KeysParameter) -> Buffer:
        return obj.encoded()


class _TextVectorLoader(Loader):
    format = Format.TEXT

    def load(self, data: Buffer) -> bytes:
        return np.array(bytes(data)[1:-1].split(b","), "<f4").tobytes()


class _BinaryVectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return np.frombuffer(data, ">f4", offset=4).astype("<f4").tobytes()


@compiles(StoredVector, DIALECT)
@compiles(Instant, DIALECT)
def _own_type(kind: StoredVector | Instant, _compiler: DDLCompiler, **_how: Any) -> str:
    return "vector" if isinstance(kind, StoredVector) else "TIMESTAMPTZ"


# "bytea" is sent as it is, so it stands for types that are encoded here.
_COPIED: Mapping[type[TypeEngine[Any]], tuple[str, Callable[[Any], object]]] = {
    sqlalchemy.BigInteger: ("int8", int),
    sqlalchemy.Boolean: ("bool", bool),
    sqlalchemy.String: ("text", str),
    sqlalchemy.JSON: ("text", json.dumps),
    sqlalchemy.LargeBinary: ("bytea", bytes),
    Number: ("numeric", Decimal),
    Instant: ("timestamptz", datetime.fromisoformat),
    StoredVector: ("bytea", lambda row: VectorParameter(np.frombuffer(row, "<f4")).encoded()),
}
"""How values of a column are copied: the server's type, and what psycopg is given."""


def copy_rows(connection: Connection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Copy rows, each with a value for every column, into a table that all SQL stores share."""
    columns = {
        column.name: next(how for kind, how in _COPIED.items() if isinstance(column.type, kind))
        for column in Tables.metadata.tables[table].columns
    }
    values = (
        [None if row[name] is None else make(row[name]) for name, (_, make) in columns.items()]
        for row in rows
    )
    if rows:
        types = {name: sent_as for name, (sent_as, _) in columns.items()}
        copy_values(connection, table, types, values)


def copy_values(
    connection: Connection, table: str, types: Mapping[str, str], rows: Iterable[Sequence[object]]
) -> None:
    """Copy rows of values into a table, whose columns are given with the types of the values."""
    names = SQL(", ").join(map(Identifier, types))
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(table), names)
    driver: Any = connection.connection.driver_connection

    async def write() -> None:
        async with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([*types.values()])
            for row in rows:
                await copy.write_row(row)

    await_only(write())
