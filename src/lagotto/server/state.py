"""What the operations of one server process share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request as HttpRequest

from lagotto.base.judgements import Judgements
from lagotto.embedders import Embedder
from lagotto.errors import LagottoError
from lagotto.prefs import SearchRequest
from lagotto.server.access import Access, ApiKeys
from lagotto.server.concurrency_limit import Gate
from lagotto.server.embedding import CALLER, ServedBase
from lagotto.server.metrics import Labels, Metric, Metrics
from lagotto.server.problems import Problem
from lagotto.server.scoped_base import ScopedBase, stats_of
from lagotto.server.settings import ServerSettings
from lagotto.server.tasks import TaskQueue


class ServerState:
    """The base, its keys, and who works on what; `stopping` is set when the server is to end."""

    def __init__(self, base: ServedBase, settings: ServerSettings) -> None:
        self.base = base
        """All of it: for its models and its state, never for its documents."""
        self.settings = settings
        self.gate = Gate(settings.concurrency, queue=settings.queue)
        self.streams = Gate(settings.streams, queue=0)
        self.stopping = asyncio.Event()
        self.large_bodies = asyncio.Lock()
        """One at a time is parsed: nothing else runs in the interpreter meanwhile."""
        values = base.store.keyed_values
        self.keys = ApiKeys(values)
        self.tasks = TaskQueue(values, settings)
        self.judgements = Judgements(values)
        self.metrics = Metrics()

    def readings(self) -> Iterator[Metric]:
        cache = self.base.query_cache
        batching = cache and cache.batches
        working, late = self.gate.working, self.metrics.late_chunks
        queues = {"requests": self.gate.waiting, "tasks": self.tasks.waiting}
        if batching is not None:
            queues["embedding"] = batching.waiting
        hits = {"queries": cache.hits if cache else 0, "late_chunks": late["cached"]}
        misses = {"queries": cache.misses if cache else 0, "late_chunks": late["made"]}
        batches: dict[Labels, float] = {(): batching.batches if batching else 0}
        yield "lagotto_requests_in_progress", "Requests that are worked on.", {(): float(working)}
        yield "lagotto_queue_depth", "What waits, by queue.", _by("queue", queues)
        yield "lagotto_cache_hits_total", "What was found in a cache.", _by("cache", hits)
        yield "lagotto_cache_misses_total", "What was not found in a cache.", _by("cache", misses)
        yield "lagotto_embedding_batches_total", "Batches of queries that were embedded.", batches

    def scoped_to(self, access: Access, http: HttpRequest) -> ScopedBase:
        """The base as the caller of a request sees it, whose searches are counted."""
        return ScopedBase(self.base, access, self.settings, partial(self._observe, http))

    async def embedder(self) -> Embedder:
        await self.base.prepare()
        return self.base.embedder

    async def _observe(
        self, http: HttpRequest, request: SearchRequest, work: Awaitable[Any]
    ) -> Any:
        if self.settings.log_queries:
            http.scope["logged_query"] = request.query
        try:
            answer = await work
        except (LagottoError, asyncio.CancelledError) as exc:
            name = type(exc).__name__
            self.metrics.count_search(name if isinstance(exc, LagottoError) else "cancelled")
            raise
        self.metrics.count_search("ok", stats_of(answer))
        return answer

    async def authenticate(self, http: HttpRequest) -> Access:
        """Who is calling; a problem if the key is not valid, or missing where there are keys."""
        header = http.headers.get("authorization")
        if header is None:
            if await self.keys.exist():
                detail = "this server needs a key; send the header Authorization: Bearer lgt_..."
                raise Problem("Unauthorized", detail)
            host = ""
            with suppress(ValueError):
                host = urlsplit(f"//{http.headers.get('host', '')}").hostname or ""
            if not is_loopback(host):
                # a web page may have its own name point here, to read what browsers can reach
                detail = "without keys, this server is called by its address alone"
                raise Problem("Forbidden", detail)
            return Access()
        scheme, _, secret = header.partition(" ")
        access = await self.keys.access(secret.strip()) if scheme.lower() == "bearer" else None
        if access is None:
            raise Problem("Unauthorized", "the key is unknown, expired or revoked")
        http.scope["key_id"] = access.key_id
        CALLER.set(access.key_id)
        return access


def _by(label: str, values: Mapping[str, float]) -> dict[Labels, float]:
    return {((label, name),): value for name, value in values.items()}


def client_of(http: HttpRequest, access: Access) -> str:
    """Who shares the server with others: a key, or an address where there are no keys."""
    return access.key_id or (http.client.host if http.client else "")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
