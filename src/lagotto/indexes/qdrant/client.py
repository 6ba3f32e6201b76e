"""A Qdrant server or cluster: its address, and asking it over gRPC with retries and time limits.

An address is like `qdrant://host:6333/prefix?shards=3&replicas=2`. Of a cluster it may name several
nodes: `qdrant://q1:6333,q2:6333,q3:6333/prefix?replicas=2`.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import grpc
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException

from lagotto._internal.concurrency import checkpoint
from lagotto._internal.registry import did_you_mean
from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.indexes.remote import MissingEpochError
from lagotto.models.http import RetryPolicy

T = TypeVar("T")

API_KEY = "QDRANT_API_KEY"
"""The environment variable with the key of the server, which is never part of an address."""

EXAMPLE = "write it like qdrant://host:6333/prefix?shards=3&replicas=2"
_BAD_HOST = f"a qdrant address has an invalid host or port; {EXAMPLE}"
_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,40}")
_CHOICES = {
    "https": ("false", "true"),
    "quantize": ("none", "int8"),
    "sharding": ("auto", "collection"),
}
_OPTIONS = ("shards", "replicas", "write_consistency", *_CHOICES, "grpc_port")


class NodeAddress(NamedTuple):
    """Where a server listens, for REST and for gRPC."""

    host: str = "localhost"
    port: int = 6333
    grpc_port: int = 6334

    @property
    def shown(self) -> str:
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
    quantize: str = "none"
    sharding: str = "auto"

    @property
    def shown(self) -> str:
        """For messages: where the server is."""
        return f"qdrant://{','.join(node.shown for node in self.nodes)}"

    def name(self, own: str) -> str:
        """The name of something of ours on the server."""
        return "-".join(filter(None, ("lagotto", self.prefix, own)))


def parse_address(address: str) -> QdrantAddress:
    """Read an address; ConfigError if something in it is unknown or impossible."""
    try:
        split = urlsplit("qdrant://localhost" if address in ("", "qdrant") else address)
    except ValueError as exc:
        raise ConfigError(_BAD_HOST) from exc
    if split.scheme != "qdrant" or split.fragment or not split.netloc:
        raise ConfigError(f"not the address of a Qdrant server; {EXAMPLE}")
    if "@" in split.netloc:
        # not shown: it is the key
        raise ConfigError(
            f"a qdrant address must not contain a key, since it is stored; set {API_KEY} instead"
        )
    options = _options(split.query)
    prefix = split.path.strip("/")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"the prefix {prefix!r} of a qdrant address has characters other than letters, digits, "
            f"- and _, or more than 40; {EXAMPLE}"
        )
    replicas = _number("replicas", options.get("replicas", "1"))
    written = options.get("write_consistency", str((replicas + 1) // 2))
    return QdrantAddress(
        nodes=_nodes(split.netloc, options.get("grpc_port")),
        https=options["https"] == "true",
        prefix=prefix,
        shards=_number("shards", options.get("shards", "1")),
        replicas=replicas,
        write_consistency=_number("write_consistency", written),
        quantize=options["quantize"],
        sharding=options["sharding"],
    )


def _options(query: str) -> dict[str, str]:
    """The options by name; their values are not shown in errors of names, one may be a key."""
    pairs = parse_qsl(query, keep_blank_values=True)
    options = {name: known[0] for name, known in _CHOICES.items()} | dict(pairs)
    for name in options:
        if name not in _OPTIONS:
            raise ConfigError(
                f"unknown option {name!r} in a qdrant address; available: "
                f"{', '.join(_OPTIONS)}{did_you_mean(name, _OPTIONS)}"
            )
    if len(pairs) != len(dict(pairs)):
        raise ConfigError("a qdrant address has an option twice")
    for name, known in _CHOICES.items():
        if options[name] not in known:
            raise ConfigError(
                f"{name}={options[name]} in a qdrant address: it must be one of {', '.join(known)}"
            )
    return options


def _nodes(hosts: str, grpc_ports: str | None) -> tuple[NodeAddress, ...]:
    """The nodes of a comma-separated list; a port of gRPC for each of them, or one for all."""
    nodes = []
    for host in hosts.split(","):
        try:
            split = urlsplit(f"//{host}")
            port = 6333 if split.port is None else split.port
        except ValueError as exc:
            raise ConfigError(_BAD_HOST) from exc
        if not split.hostname or port == 0:
            raise ConfigError(_BAD_HOST)
        nodes.append((split.hostname, port))
    ports = [port + 1 for _, port in nodes]
    if grpc_ports is not None:
        ports = [_number("grpc_port", each) for each in grpc_ports.split(",")]
        ports *= len(nodes) if len(ports) == 1 else 1
    if len(ports) != len(nodes):
        raise ConfigError(
            f"a qdrant address has {len(nodes)} nodes and {len(ports)} values of grpc_port; "
            "give one for all, or one for each"
        )
    return tuple(NodeAddress(*node, port) for node, port in zip(nodes, ports, strict=True))


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{name}={text} in a qdrant address: it must be a number from 1 on")
    return int(text)


OLDEST_SERVER = (1, 13)
"""Older servers ignore what they do not know, such as exact facets, instead of refusing it."""

PAUSES = RetryPolicy(pause=0.05, longest_pause=2.0)
SEARCH_SECONDS = 2.0  # for which a search asks again before it goes on without the index
REST_SECONDS = 5.0  # after which searches ask a server more than once again that did not answer
CHANNEL = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
    "grpc.keepalive_time_ms": 5000,
    "grpc.keepalive_timeout_ms": 5000,
    "grpc.http2.ping_timeout_ms": 5000,
}
"""gRPC would try to reach a server that was restarted only every two minutes, and wait for one that
vanished or hangs until the time is up, instead of asking whether it is still there."""

_TRANSIENT = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL"}
"""Status codes of a server that starts, is overloaded, or misses a part of its cluster."""

_VERSION = re.compile(r"(?<!\d)(\d++)\.(\d++)")


class ExistsError(IndexUnavailableError):
    """What was to be made is there already."""


class QdrantServer:
    """A server, or a cluster, connected to on the first question.

    The nodes of a cluster are asked one after another until one of them answers, and that one from
    then on.
    """

    def __init__(self, address: QdrantAddress, *, timeout: float) -> None:
        self.address = address
        self.timeout = timeout
        self._node = 0
        self._clients: dict[int, QdrantClient] = {}
        self._rests_until = 0.0
        self._connecting = threading.Lock()

    def ask(self, question: Callable[[QdrantClient], T], *, seconds: float | None = None) -> T:
        """The answer to a question, asked again while the server can't answer, within the time.

        That is the timeout of the site, or `seconds` if they are fewer, and none for a moment after
        the server did not answer within such seconds: then searches don't wait for it.
        """
        limit = self.timeout if seconds is None else min(seconds, self.timeout)
        others = len(self.address.nodes) - 1
        if seconds is not None and time.monotonic() < self._rests_until:
            limit, others = 0.0, 0
        last = time.monotonic() + limit
        failures = 0
        while True:
            node, client = self._node, None
            try:
                client = self._connected(node)
                return question(client)
            except (ValueError, RuntimeError) as exc:  # another thread has closed the connection
                if client is None or client is self._clients.get(node):
                    raise
                raise IndexUnavailableError(
                    f"the connection to the Qdrant server {self.address.shown} was closed"
                ) from exc
            except (grpc.RpcError, ApiException) as exc:
                transient = not isinstance(exc, grpc.RpcError) or exc.code().name in _TRANSIENT
                if transient:
                    self._leave(node)
                    if others > 0:
                        others -= 1
                        continue
                failures += 1
                wait = PAUSES.wait(failures)
                if not transient or time.monotonic() + wait > last:
                    if seconds is not None and transient:
                        self._rests_until = time.monotonic() + REST_SECONDS
                    # the cause may quote what we sent
                    raise self._translated(exc, transient=transient) from None
            checkpoint()
            time.sleep(wait)

    def call(self, method: str, *arguments: object, **options: object) -> Any:
        """Call a method of the client; see `ask`."""
        return self.ask(methodcaller(method, *arguments, **options))

    def ask_briefly(self, question: Callable[[QdrantClient], T], left: float | None = None) -> T:
        """The answer for a search, which has `left` seconds."""
        return self.ask(question, seconds=min(SEARCH_SECONDS, math.inf if left is None else left))

    def close(self) -> None:
        """Close the connection; the next question opens another one."""
        with self._connecting:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _leave(self, node: int) -> None:
        """Ask the next node from now on, unless another thread has gone on to it."""
        with self._connecting:
            if self._node == node:
                self._node = (node + 1) % len(self.address.nodes)

    def _connected(self, node: int) -> QdrantClient:
        with self._connecting:
            if node not in self._clients:
                client = self._connect(self.address.nodes[node])
                try:
                    self._check_version(str(client.info().version))
                except BaseException:
                    client.close()
                    raise
                self._clients[node] = client
            return self._clients[node]

    def _connect(self, node: NodeAddress) -> QdrantClient:
        with warnings.catch_warnings():
            # of a key over http, which is the user's choice, and of versions, which we check
            warnings.simplefilter("ignore", UserWarning)
            return QdrantClient(
                host=node.host,
                port=node.port,
                grpc_port=node.grpc_port,
                https=self.address.https,
                prefer_grpc=True,
                api_key=os.environ.get(API_KEY) or None,
                timeout=max(1, math.ceil(self.timeout)),
                check_compatibility=False,
                grpc_options=CHANNEL,
                # for REST, which is not used, but loading certificates takes a tenth of a second
                verify=self.address.https,
            )

    def _check_version(self, version: str) -> None:
        match = _VERSION.match(version)
        if match is None or (int(match[1]), int(match[2])) < OLDEST_SERVER:
            raise IndexUnavailableError(
                f"the Qdrant server {self.address.shown} has version {version}; "
                f"upgrade it to {'.'.join(map(str, OLDEST_SERVER))} or newer"
            )

    def _translated(self, exc: Exception, *, transient: bool) -> IndexUnavailableError:
        code, what, where = "", type(exc).__name__, self.address.shown
        if isinstance(exc, grpc.RpcError):
            code = exc.code().name
            what = f"{exc.details() or 'no details'} ({code})"
            if key := os.environ.get(API_KEY):
                what = what.replace(key, "***")
        if code == "NOT_FOUND":
            return MissingEpochError(f"Qdrant server {where}: {what}; search again")
        if "already exists" in what:
            return ExistsError(f"Qdrant server {where}: {what}")
        if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            return IndexUnavailableError(
                f"the Qdrant server {where} refuses access: {what}; set {API_KEY} to a valid key"
            )
        if not transient:
            return IndexUnavailableError(f"the Qdrant server {where} refused a request: {what}")
        ports = ", ".join(map(str, sorted({node.grpc_port for node in self.address.nodes})))
        return IndexUnavailableError(
            f"the Qdrant server {where} does not answer: {what}; check that it runs and that its "
            f"gRPC port {ports} can be reached"
        )
