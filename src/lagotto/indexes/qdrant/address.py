"""The address of an index on a Qdrant server: `qdrant://host:6333/prefix?shards=3&replicas=2`.

Of a cluster it may name several nodes: `qdrant://q1:6333,q2:6333,q3:6333/prefix?replicas=2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from lagotto._internal.registry import did_you_mean
from lagotto.errors import ConfigError

API_KEY = "QDRANT_API_KEY"
"""The environment variable with the key of the server, which is never part of an address."""

Quantization = Literal["none", "int8"]
Sharding = Literal["auto", "collection"]

Choice = TypeVar("Choice")

EXAMPLE = "write it like qdrant://host:6333/prefix?shards=3&replicas=2"
_BAD_HOST = f"a qdrant address has an invalid host or port; {EXAMPLE}"
_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,40}")
_BOOLEANS = {"true": True, "false": False}
_QUANTIZATIONS: Mapping[str, Quantization] = {"none": "none", "int8": "int8"}
_SHARDINGS: Mapping[str, Sharding] = {"auto": "auto", "collection": "collection"}
_OPTIONS = (
    "shards",
    "replicas",
    "write_consistency",
    "quantize",
    "sharding",
    "https",
    "grpc_port",
)


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Where a server listens, for REST and for gRPC."""

    host: str = "localhost"
    port: int = 6333
    grpc_port: int = 6334

    @property
    def shown(self) -> str:
        """As an address has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class QdrantAddress:
    """A server, or nodes of a cluster, and how collections are made there.

    Any node answers for the whole cluster; the next one is asked when one does not answer.
    `write_consistency` replicas must have a write before it counts. With `sharding="collection"`
    each Lagotto collection has shards of its own, which only a cluster can have; otherwise points
    of one Lagotto collection are kept together by an index of tenants.
    """

    nodes: tuple[NodeAddress, ...] = (NodeAddress(),)
    https: bool = False
    prefix: str = ""
    shards: int = 1
    replicas: int = 1
    write_consistency: int = 1
    quantize: Quantization = "none"
    sharding: Sharding = "auto"

    @property
    def shown(self) -> str:
        """For messages: where the server is."""
        return f"qdrant://{','.join(node.shown for node in self.nodes)}"

    def name(self, own: str) -> str:
        """The name of something of ours on the server."""
        return "-".join(filter(None, ("lagotto", self.prefix, own)))


def parse_address(address: str) -> QdrantAddress:
    """Read an address; ConfigError if something in it is unknown or impossible."""
    split = _split(address)
    options = _options(split.query)
    replicas = _number("replicas", options, 1)
    prefix = split.path.strip("/")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"the prefix {prefix!r} of a qdrant address has characters other than letters, digits, "
            f"- and _, or more than 40; {EXAMPLE}"
        )
    return QdrantAddress(
        nodes=_nodes(split.netloc, options.get("grpc_port")),
        https=_choice("https", options, _BOOLEANS, "false"),
        prefix=prefix,
        shards=_number("shards", options, 1),
        replicas=replicas,
        write_consistency=_number("write_consistency", options, (replicas + 1) // 2),
        quantize=_choice("quantize", options, _QUANTIZATIONS, "none"),
        sharding=_choice("sharding", options, _SHARDINGS, "auto"),
    )


def _split(address: str) -> SplitResult:
    if address in ("", "qdrant"):
        address = "qdrant://localhost"
    try:
        split = urlsplit(address)
    except ValueError as exc:
        raise ConfigError(_BAD_HOST) from exc
    if split.scheme != "qdrant" or split.fragment or not split.netloc:
        raise ConfigError(f"not the address of a Qdrant server; {EXAMPLE}")
    if "@" in split.netloc:
        # not shown: it is the key
        raise ConfigError(
            f"a qdrant address must not contain a key, since it is stored; set {API_KEY} instead"
        )
    return split


def _nodes(hosts: str, grpc_ports: str | None) -> tuple[NodeAddress, ...]:
    """The nodes of a comma-separated list; a port of gRPC for each of them, or one for all."""
    places = [_place(each) for each in hosts.split(",")]
    given = [_port(each) for each in grpc_ports.split(",")] if grpc_ports is not None else []
    if not given:
        given = [port + 1 for _, port in places]
    elif len(given) == 1:
        given *= len(places)
    elif len(given) != len(places):
        raise ConfigError(
            f"a qdrant address has {len(places)} nodes and {len(given)} values of grpc_port; "
            "give one for all, or one for each"
        )
    return tuple(
        NodeAddress(host, port, grpc_port)
        for (host, port), grpc_port in zip(places, given, strict=True)
    )


def _place(text: str) -> tuple[str, int]:
    """A host and its port."""
    try:
        split = urlsplit(f"//{text}")
        port = split.port
    except ValueError as exc:
        raise ConfigError(_BAD_HOST) from exc
    if not split.hostname or port == 0:
        raise ConfigError(_BAD_HOST)
    return split.hostname, port or 6333


def _options(query: str) -> dict[str, str]:
    """The options by name; their values are not shown in errors, one may be a key."""
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    for name in options:
        if name not in _OPTIONS:
            raise ConfigError(
                f"unknown option {name!r} in a qdrant address; available: "
                f"{', '.join(_OPTIONS)}{did_you_mean(name, _OPTIONS)}"
            )
    if len(pairs) != len(options):
        raise ConfigError("a qdrant address has an option twice")
    return options


def _number(name: str, options: Mapping[str, str], default: int) -> int:
    return _positive(name, options.get(name, str(default)))


def _port(text: str) -> int:
    return _positive("grpc_port", text)


def _positive(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{name}={text} in a qdrant address: it must be a number from 1 on")
    return int(text)


def _choice(
    name: str, options: Mapping[str, str], known: Mapping[str, Choice], default: str
) -> Choice:
    text = options.get(name, default)
    if text not in known:
        raise ConfigError(
            f"{name}={text} in a qdrant address: it must be one of {', '.join(known)}"
        )
    return known[text]
