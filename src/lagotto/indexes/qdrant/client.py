"""Asking a Qdrant server over gRPC: retries, time limits, and its errors as ours."""

from __future__ import annotations

import math
import os
import random
import re
import threading
import time
import warnings
from collections.abc import Callable
from typing import TypeVar

import grpc
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException

from lagotto._internal.concurrency import checkpoint
from lagotto.errors import IndexUnavailableError
from lagotto.indexes.qdrant.address import API_KEY, NodeAddress, QdrantAddress
from lagotto.indexes.remote import MissingEpochError

T = TypeVar("T")

OLDEST_SERVER = (1, 13)
"""Older servers ignore what they do not know, such as exact facets, instead of refusing it."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between two attempts."""

SEARCH_SECONDS = 2.0
"""For which a search asks again before it goes on without the index."""

REST_SECONDS = 5.0
"""After which searches ask a server more than once again that did not answer."""

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

_TRANSIENT = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
    }
)
"""A server that starts, is overloaded, or misses a part of its cluster."""

_REFUSED = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
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
        pause = FIRST_PAUSE
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
                if _is_transient(exc):
                    self._leave(node)
                    if others > 0:
                        others -= 1
                        continue
                wait = pause * random.uniform(0.5, 1.0)
                if not _is_transient(exc) or time.monotonic() + wait > last:
                    if seconds is not None and _is_transient(exc):
                        self._rests_until = time.monotonic() + REST_SECONDS
                    raise self._translated(exc) from None  # the cause may quote what we sent
            checkpoint()
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

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
        found = _VERSION.match(version)
        if found is None or (int(found[1]), int(found[2])) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise IndexUnavailableError(
                f"the Qdrant server {self.address.shown} has version {version}; "
                f"upgrade it to {oldest} or newer"
            )

    @property
    def _grpc_ports(self) -> str:
        return ", ".join(map(str, sorted({node.grpc_port for node in self.address.nodes})))

    def _translated(self, exc: Exception) -> IndexUnavailableError:
        code = exc.code() if isinstance(exc, grpc.RpcError) else None
        what = _without_key(_details(exc))
        where = self.address.shown
        if code == grpc.StatusCode.NOT_FOUND:
            return MissingEpochError(f"Qdrant server {where}: {what}; search again")
        if "already exists" in what:
            return ExistsError(f"Qdrant server {where}: {what}")
        if code in _REFUSED:
            return IndexUnavailableError(
                f"the Qdrant server {where} refuses access: {what}; set {API_KEY} to a valid key"
            )
        if not _is_transient(exc):
            return IndexUnavailableError(f"the Qdrant server {where} refused a request: {what}")
        return IndexUnavailableError(
            f"the Qdrant server {where} does not answer: {what}; check that it runs and that its "
            f"gRPC port {self._grpc_ports} can be reached"
        )


def _is_transient(exc: Exception) -> bool:
    if isinstance(exc, grpc.RpcError):
        return exc.code() in _TRANSIENT
    return True


def _details(exc: Exception) -> str:
    if isinstance(exc, grpc.RpcError):
        return f"{exc.details() or 'no details'} ({exc.code().name})"
    return type(exc).__name__


def _without_key(text: str) -> str:
    key = os.environ.get(API_KEY)
    return text.replace(key, "***") if key else text
