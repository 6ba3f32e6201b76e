"""The address of a base on a server: hosts, libpq options, and pool settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lagotto._internal.locations import mask_location
from lagotto.errors import ConfigError

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
    pool = _pool({name: options.pop(name) for name in _POOL if name in options})
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


def _pool(given: Mapping[str, str]) -> PoolSettings:
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
