"""Numbers for operators, as Prometheus reads them."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from lagotto.results import RetrievalStats

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms, in seconds."""

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How many observations were at most as large as each bound, by labels."""

    def __init__(self) -> None:
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = defaultdict(float)

    def observe(self, value: float, *labels: tuple[str, str]) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, value)] += 1
        self._sums[labels] += value

    def samples(self) -> Iterator[tuple[Labels, float, str]]:
        """Labels, value, and the suffix of the name."""
        for labels, counts in sorted(self._counts.items()):
            totals = list(accumulate(counts))
            for bound, total in zip((*map(str, BUCKETS), "+Inf"), totals, strict=True):
                yield (*labels, ("le", bound)), total, "_bucket"
            yield labels, self._sums[labels], "_sum"
            yield labels, totals[-1], "_count"


Metric = tuple[str, str, Mapping[Labels, float] | Histogram]
"""Its name, what it means, and its values; a counter, which only grows, is called `_total`."""


def _lines(name: str, meaning: str, values: Mapping[Labels, float] | Histogram) -> Iterator[str]:
    if isinstance(values, Histogram):
        kind, samples = "histogram", values.samples()
    else:
        kind = "counter" if name.endswith("_total") else "gauge"
        samples = ((labels, value, "") for labels, value in sorted(values.items()))
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    worker = ("worker", str(os.getpid()))  # tells the processes of one server apart
    for labels, value, suffix in samples:
        label_text = ",".join(f'{key}="{text}"' for key, text in (*labels, worker))
        # all digits: counters become large
        number = str(int(value)) if value == int(value) else repr(value)
        yield f"{name}{suffix}{{{label_text}}} {number}"


class Metrics:
    """What one process counts of its requests and searches."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        self.searches: Counter[Labels] = Counter()
        self.degraded: Counter[Labels] = Counter()
        self.request_seconds, self.search_seconds = Histogram(), Histogram()
        self.late_chunks: Counter[str] = Counter()
        """Chunks of late chunking that were `cached`, and `made`."""

    def count_request(self, operation: str, status: int, seconds: float) -> None:
        self.requests[("operation", operation), ("status", str(status))] += 1
        self.request_seconds.observe(seconds, ("operation", operation))

    def count_search(self, outcome: str, stats: RetrievalStats | None = None) -> None:
        """Count a search: how it ended, its stages, and the parts it went on without."""
        self.searches[(("outcome", outcome),)] += 1
        if stats is None:
            return
        for stage, milliseconds in stats.timing_ms.items():
            self.search_seconds.observe(milliseconds / 1000, ("stage", stage))
        for note in stats.degraded:
            self.degraded[(("leg", note.partition(":")[0]),)] += 1
        for origin in ("cached", "made"):
            self.late_chunks[origin] += stats.counts.get(f"chunks_{origin}", 0)

    def text(self, others: Iterable[Metric] = ()) -> str:
        took = "Time from request to answer."
        slow = "Time of a search, by stage; total is all of it."
        without = "Searches that went on without a leg or another part."
        metrics: list[Metric] = [
            ("lagotto_http_requests_total", "Requests, by outcome.", self.requests),
            ("lagotto_http_request_duration_seconds", took, self.request_seconds),
            ("lagotto_searches_total", "Searches, by outcome.", self.searches),
            ("lagotto_search_duration_seconds", slow, self.search_seconds),
            ("lagotto_leg_degraded_total", without, self.degraded),
            *others,
        ]
        return "\n".join(line for metric in metrics for line in _lines(*metric)) + "\n"
