from __future__ import annotations

import re

from lagotto.results import RetrievalStats
from lagotto.server.metrics import BUCKETS, Metrics
from tests.server.running import serving


def values(text: str) -> dict[str, float]:
    """Samples by name and labels, without that of the process."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.partition("worker=")[0]: float(value) for name, _, value in lines}


def test_searches() -> None:
    metrics = Metrics()
    stats = RetrievalStats(timing_ms={"rank": 3.0, "total": 20.0}, degraded=("fuzzy: gone",))
    for _ in range(2):
        metrics.count_search("ok", stats)
    metrics.count_search("DeadlineExceeded")
    metrics.searches[()] += 12_345_678
    found = values(metrics.text([("lagotto_queue", "Depth.", {(("queue", "a"),): 3})]))
    assert found["lagotto_searches_total{"] == 12_345_678  # large counters keep their digits
    assert found['lagotto_searches_total{outcome="ok",'] == 2
    assert found['lagotto_searches_total{outcome="DeadlineExceeded",'] == 1
    assert found['lagotto_leg_degraded_total{leg="fuzzy",'] == 2
    assert found['lagotto_search_duration_seconds_sum{stage="total",'] == 0.04
    assert found['lagotto_search_duration_seconds_bucket{stage="rank",le="0.0025",'] == 0
    assert found['lagotto_search_duration_seconds_bucket{stage="rank",le="0.005",'] == 2
    assert found['lagotto_search_duration_seconds_bucket{stage="rank",le="+Inf",'] == 2
    assert found['lagotto_queue{queue="a",'] == 3
    assert list(BUCKETS) == sorted(BUCKETS)


LABELS = {"operation", "status", "outcome", "stage", "leg", "le", "queue", "cache", "worker"}


def test_of_a_server() -> None:
    """Every metric, its type, its unit and its labels: never a query or a collection."""
    with serving() as server:
        server.post("/v1/retrieve", {"query": "very special words"})
        server.post("/v1/retrieve", {"query": "a", "collection": "private"})
        server.post("/v1/context", {"query": "very special words"})
        server.post("/v1/search/stream", {"query": "dog"})
        server.post("/v1/retrieve", {"query": "(", "fts": {"mode": "strict"}})
        late = {"query": "dog", "chunking": {"strategy": "late"}}
        server.post("/v1/retrieve", late)
        server.post("/v1/retrieve", late)
        text = server.http.get("/metrics").text
    found = values(text)
    assert found['lagotto_searches_total{outcome="ok",'] == 6
    assert found['lagotto_searches_total{outcome="QueryError",'] == 1
    assert found['lagotto_http_requests_total{operation="retrieve",status="422",'] == 1
    assert found['lagotto_search_duration_seconds_count{stage="total",'] == 6
    assert found['lagotto_cache_hits_total{cache="queries",'] == 3
    assert found['lagotto_cache_misses_total{cache="queries",'] == 3
    assert found['lagotto_cache_hits_total{cache="late_chunks",'] > 0
    assert found['lagotto_cache_misses_total{cache="late_chunks",'] > 0
    assert found["lagotto_embedding_batches_total{"] == 3
    for queue in ("requests", "tasks", "embedding"):
        assert found[f'lagotto_queue_depth{{queue="{queue}",'] == 0
    assert found["lagotto_requests_in_progress{"] == 0
    assert "special" not in text
    assert "private" not in text
    assert set(re.findall(r'[{,](\w+)="', text)) <= LABELS
    kinds = dict(re.findall(r"# TYPE (\S+) (\S+)", text))
    for name, kind in kinds.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert name.endswith("_seconds") == (kind == "histogram"), name
