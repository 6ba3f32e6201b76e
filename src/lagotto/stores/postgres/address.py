"""The address of a base on a server: hosts, what libpq understands, and what our pools do."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from lagotto.errors import ConfigError

DEFAULT_PORT = "5432"
KEPT_OPEN = 8
MOST_CONNECTIONS = 40
FEWEST_CONNECTIONS = 2
"""Telling why a document is not found takes two at once."""

POOL_TIMEOUT = 30.0
CONNECT_TIMEOUT = "10"
"""Seconds for each host, as libpq has it."""

_POOL = ("pool_size", "max_connections", "pool_timeout")
_SECRET = ("password", "sslpassword")
_SEVERAL = re.compile(
    r"\A(?P<before>[a-z]++://(?:[^/@]*+@)?)(?P<hosts>[^/?@,]*+,[^/?@]*+)(?P<behind>/.*)", re.DOTALL
)
_CREDENTIALS = re.compile(r"//[^/]*@")


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Connections kept open, how many there may be, and seconds that one is waited for."""

    kept: int
    most: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Address:
    """Where a base is: for people, for the driver, and how to pool connections to it."""

    place: str
    url: URL
    pool: PoolSettings

    @property
    def has_several_hosts(self) -> bool:
        """Whether some of the servers may be standbys."""
        return "," in self.url.query.get("host", "")


def parse_location(location: str) -> Address:
    """The address that a location stands for; hosts may be several, as libpq has them."""
    url = _parsed(location)
    place = url.difference_update_query(_SECRET).render_as_string(hide_password=True)
    if not url.database:
        raise ConfigError(f"{place} names no database; write postgresql://host/database")
    options = _options(url, place)
    pool = _pool({name: options.pop(name) for name in _POOL if name in options})
    try:
        make_conninfo(**options)
    except psycopg.ProgrammingError as exc:
        raise ConfigError(
            f"{place}: {str(exc).strip()}; behind the ? there may be options of libpq, "
            f"and {', '.join(_POOL)}"
        ) from exc
    options = {"connect_timeout": CONNECT_TIMEOUT, **options}
    return Address(place, url.set(drivername="postgresql+psycopg", query=options), pool)


def _parsed(location: str) -> URL:
    hosts = _SEVERAL.fullmatch(location)
    try:
        url = make_url(hosts["before"] + hosts["behind"] if hosts else location)
    except (ArgumentError, ValueError) as exc:
        hidden = _CREDENTIALS.sub("//***@", location)
        raise ConfigError(
            f"{hidden} is not the address of a database; write "
            "postgresql://user:password@host:5432/database"
        ) from exc
    if hosts:
        pairs = [host.partition(":") for host in hosts["hosts"].split(",")]
        names, ports = [pair[0] for pair in pairs], [pair[2] or DEFAULT_PORT for pair in pairs]
        url = url.update_query_dict({"host": ",".join(names), "port": ",".join(ports)})
    return url.set(drivername="postgresql")


def _options(url: URL, place: str) -> dict[str, str]:
    options = {}
    for name, value in url.query.items():
        if not isinstance(value, str):
            raise ConfigError(f"{place} gives {name} more than once; several hosts have commas")
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
