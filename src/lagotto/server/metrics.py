"""What operators see: Prometheus metrics, a JSON line per request, the caller's trace."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
import traceback
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagotto.results import RetrievalStats
from lagotto.server.browsers import HEADERS
from lagotto.server.problems import MEDIA_TYPE, Problem

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms, in seconds."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MetricCounter:
    """A number that only grows, by labels."""

    name: str
    help: str
    kind: str = "counter"
    _values: dict[Labels, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, amount: float = 1.0, **labels: str) -> None:
        """Add to the number."""
        self._values[tuple(sorted(labels.items()))] += amount

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """What is shown: name, labels, value."""
        for labels, value in sorted(self._values.items()):
            yield self.name, labels, value


@dataclass(frozen=True, slots=True)
class MetricHistogram:
    """How many observations were at most as large as each bound, by labels."""

    name: str
    help: str
    kind: str = "histogram"
    _counts: dict[Labels, list[int]] = field(default_factory=dict)
    _sums: dict[Labels, float] = field(default_factory=lambda: defaultdict(float))

    def observe(self, value: float, **labels: str) -> None:
        """Count an observation."""
        name = tuple(sorted(labels.items()))
        counts = self._counts.setdefault(name, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, value)] += 1
        self._sums[name] += value

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """What is shown: name, labels, value."""
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket", (*labels, ("le", bound)), total
            yield f"{self.name}_sum", labels, self._sums[labels]
            yield f"{self.name}_count", labels, total


@dataclass(frozen=True, slots=True)
class MetricReading:
    """Numbers that are counted elsewhere, read when they are shown.

    A gauge goes up and down, a counter only grows.
    """

    name: str
    help: str
    read: Callable[[], Iterable[tuple[Mapping[str, str], float]]]
    kind: Literal["gauge", "counter"] = "gauge"

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """What is shown: name, labels, value."""
        for labels, value in self.read():
            yield self.name, tuple(sorted(labels.items())), value


class Metrics:
    """The metrics of one process; `readings` are those that others count."""

    def __init__(self, readings: Sequence[MetricReading] = ()) -> None:
        self.requests = MetricCounter("lagotto_http_requests_total", "Requests, by outcome.")
        self.request_seconds = MetricHistogram(
            "lagotto_http_request_duration_seconds", "Time from request to answer."
        )
        self.searches = MetricCounter("lagotto_searches_total", "Searches, by outcome.")
        self.search_seconds = MetricHistogram(
            "lagotto_search_duration_seconds", "Time of a search, by stage; total is all of it."
        )
        self.degraded = MetricCounter(
            "lagotto_leg_degraded_total", "Searches that went on without a leg or another part."
        )
        self.late_chunks: Counter[str] = Counter()
        """Chunks of late chunking that were `cached`, and `made`."""
        self._all: tuple[MetricCounter | MetricHistogram | MetricReading, ...] = (
            self.requests, self.request_seconds, self.searches, self.search_seconds,
            self.degraded, *readings,
        )  # fmt: skip

    def count_search(self, outcome: str, stats: RetrievalStats | None = None) -> None:
        """Count a search: how it ended, its stages, and the parts it went on without."""
        self.searches.add(outcome=outcome)
        if stats is None:
            return
        for stage, milliseconds in stats.timing_ms.items():
            self.search_seconds.observe(milliseconds / 1000, stage=stage)
        for note in stats.degraded:
            self.degraded.add(leg=note.partition(":")[0])
        for origin in ("cached", "made"):
            self.late_chunks[origin] += stats.counts.get(f"chunks_{origin}", 0)

    def text(self) -> str:
        """All metrics; `worker` tells the processes of one server apart."""
        worker = ("worker", str(os.getpid()))
        lines = []
        for metric in self._all:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            for name, labels, value in metric.samples():
                shown = ",".join(f'{key}="{text}"' for key, text in (*labels, worker))
                lines.append(f"{name}{{{shown}}} {_number(value)}")
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """All digits: counters become large."""
    return str(int(value)) if value == int(value) else repr(value)


LOGGER = logging.getLogger("lagotto.server")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLog:
    """Gives each request an id, logs its outcome, and turns failures into a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["request_id"] = request_id = _request_id(scope)
        scope["started"] = time.monotonic()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            elif not message.get("more_body", False):
                _log(scope, status)  # before the caller can ask for the metrics
            await send(message)

        try:
            with callers_trace(scope["headers"]):
                await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:  # by the server: clients that leave are seen to before
            if not status:
                ending = Problem("Unavailable", "the server is ending; send the request again")
                await _send_problem(send_with_id, ending, request_id)
        except Exception as exc:  # noqa: BLE001 the edge of the server
            scope["failure"] = exc
            if not status:
                detail = "the server failed; its log has more under the request id"
                await _send_problem(send_with_id, Problem("InternalError", detail), request_id)
        _log(scope, status)


def _request_id(scope: Scope) -> str:
    """The id that the caller or a proxy gave, if it has the form of one."""
    request_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return request_id if _REQUEST_ID.fullmatch(request_id) else uuid4().hex


async def _send_problem(send: Send, problem: Problem, request_id: str) -> None:
    body = problem.details(request_id).model_dump_json().encode()
    headers = Headers({"Content-Type": MEDIA_TYPE, **HEADERS, **problem.headers}).raw
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _log(scope: Scope, status: int) -> None:
    """Log and count a request, once."""
    if scope.setdefault("logged", False):
        return
    scope["logged"] = True
    operation = scope.get("operation")
    seconds = time.monotonic() - scope["started"]
    outcome = status or 499  # the client was gone before the answer
    if state := scope["state"].get("server"):
        state.count_request(operation or "none", outcome, seconds)
    failure = scope.get("failure")
    if not LOGGER.isEnabledFor(logging.INFO) and failure is None:
        return
    line = {
        "request_id": scope["request_id"],
        "method": scope["method"],
        "operation": operation,
        "status": outcome,
        "ms": round(1000 * seconds, 1),
        "key": scope.get("key_id"),
        "problem": scope.get("problem"),
        "query": scope.get("logged_query"),
    }
    entry = {name: value for name, value in line.items() if value is not None}
    if failure is not None:
        entry["error"] = "".join(traceback.format_exception(failure))
    LOGGER.log(logging.ERROR if failure else logging.INFO, json.dumps(entry))


@contextmanager
def callers_trace(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """Make the trace of a request's headers the current one, unless there is one already.

    Like spans, only if the program has loaded OpenTelemetry.
    """
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context, propagate, trace

    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
