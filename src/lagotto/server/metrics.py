"""Metrics in the text format of Prometheus: counters, gauges and histograms, in base units.

Labels are verbs, stages and outcomes: never a query, a document, a collection or a key.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lagotto.results import RetrievalStats

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms, in seconds."""

Labels = tuple[tuple[str, str], ...]


class MetricCounter:
    """A number that only grows, by labels."""

    kind = "counter"

    def __init__(self, name: str, help: str) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self._values: dict[Labels, float] = defaultdict(float)

    def add(self, amount: float = 1.0, **labels: str) -> None:
        """Add to the number."""
        self._values[tuple(sorted(labels.items()))] += amount

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """What is shown: name, labels, value."""
        for labels, value in sorted(self._values.items()):
            yield self.name, labels, value


class MetricHistogram:
    """How many observations were at most as large as each bound, by labels."""

    kind = "histogram"

    def __init__(self, name: str, help: str) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = defaultdict(float)

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
    """Numbers that are counted elsewhere, read when they are asked for.

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
                shown = ",".join(f'{key}="{said}"' for key, said in (*labels, worker))
                lines.append(f"{name}{{{shown}}} {_number(value)}")
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """All digits: counters become large."""
    return str(int(value)) if value == int(value) else repr(value)
