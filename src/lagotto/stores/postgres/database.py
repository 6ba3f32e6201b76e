"""The database: its address, and connections to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, NullPool, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from lagotto.errors import ConfigError
from lagotto.stores.postgres.parameters import register

POOL_SIZE = 8
MOST_CONNECTIONS = 40
CONNECT_TIMEOUT = 10
DEFAULT_PORT = "5432"

CANDIDATES_KEPT = 250
"""hnsw.ef_search: how many candidates pgvector's graph search keeps. Measured at 100,000 chunks."""

_SETTINGS = (
    f"SET hnsw.ef_search = {CANDIDATES_KEPT}",
    "SET hnsw.iterative_scan = 'relaxed_order'",
    "SET hnsw.max_scan_tuples = 1000000",
    "SET jit = off",
)


_SEVERAL = re.compile(
    r"(?P<before>[a-z]+://(?:[^/@]*@)?)(?P<hosts>[^/?@]*,[^/?@]*)(?P<behind>/.*)", re.DOTALL
)


def parse_location(location: str) -> URL:
    """The address of a database, for our driver; hosts may be several, as libpq has them."""
    hosts = _SEVERAL.fullmatch(location)
    try:
        url = make_url(hosts["before"] + hosts["behind"] if hosts else location)
    except (ArgumentError, ValueError) as exc:
        hidden = re.sub(r"//[^/@]*@", "//***@", location)
        raise ConfigError(
            f"{hidden} is not the address of a database; write "
            "postgresql://user:password@host:5432/database"
        ) from exc
    if hosts:
        pairs = [host.partition(":") for host in hosts["hosts"].split(",")]
        names, ports = [pair[0] for pair in pairs], [pair[2] or DEFAULT_PORT for pair in pairs]
        url = url.update_query_dict({"host": ",".join(names), "port": ",".join(ports)})
    if not url.database:
        raise ConfigError(f"{shown(url)} names no database; write postgresql://host/database")
    return url.set(drivername="postgresql+psycopg")


def shown(url: URL) -> str:
    """The address without its password."""
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


@dataclass(frozen=True, slots=True)
class Servers:
    """Connections to the server that may be written to, and to one that is good for searches.

    Of several hosts, searches go to a standby if there is one.
    """

    writing: AsyncEngine
    searching: AsyncEngine

    @classmethod
    def at(cls, url: URL) -> Servers:
        """Pools for the servers of an address; nothing is connected yet."""
        if "," not in url.query.get("host", ""):
            both = _pool(url)
            return cls(both, both)
        return cls(_pool(url, session="read-write"), _pool(url, session="prefer-standby"))

    async def dispose(self) -> None:
        """Close all connections that are not in use."""
        await self.writing.dispose()
        await self.searching.dispose()


def create_single(url: URL) -> AsyncEngine:
    """A connection to write each time, which is closed for good afterwards."""
    options = {"connect_timeout": CONNECT_TIMEOUT, "target_session_attrs": "read-write"}
    return create_async_engine(url, poolclass=NullPool, connect_args=options)


def _pool(url: URL, *, session: str = "any") -> AsyncEngine:
    """A pool of connections that know vectors."""
    engine = create_async_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=MOST_CONNECTIONS - POOL_SIZE,
        pool_pre_ping=True,
        connect_args={"connect_timeout": CONNECT_TIMEOUT, "target_session_attrs": session},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT to_regtype('vector')::oid")
        (oid,) = cursor.fetchone()
        if oid is not None:
            register(connection.driver_connection, vector_oid=oid)
            for setting in _SETTINGS:
                cursor.execute(setting)
        cursor.close()
        connection.commit()

    return engine
