from __future__ import annotations

from lagotto.results import RetrievalStats
from lagotto.server.metrics import BUCKETS, Metrics
from tests.server.running import serving


def values(text: str) -> dict[str, float]:
    """Samples by name and labels, without that of the process."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.partition("worker=")[0]: float(value) for name, _, value in lines}


def test_searches() -> None:
    metrics = Metrics({"lagotto_queue": ("Depth.", lambda: 3)})
    stats = RetrievalStats(timing_ms={"rank": 3.0, "total": 20.0}, degraded=("fuzzy: gone",))
    for _ in range(2):
        metrics.count_search("ok", stats)
    metrics.count_search("DeadlineExceeded")
    found = values(metrics.text())
    assert found['lagotto_searches_total{outcome="ok",'] == 2
    assert found['lagotto_searches_total{outcome="DeadlineExceeded",'] == 1
    assert found['lagotto_leg_degraded_total{leg="fuzzy",'] == 2
    assert found['lagotto_search_duration_seconds_sum{stage="total",'] == 0.04
    assert found['lagotto_search_duration_seconds_bucket{stage="rank",le="0.0025",'] == 0
    assert found['lagotto_search_duration_seconds_bucket{stage="rank",le="0.005",'] == 2
    assert found['lagotto_search_duration_seconds_bucket{stage="rank",le="+Inf",'] == 2
    assert found["lagotto_queue{"] == 3
    assert list(BUCKETS) == sorted(BUCKETS)


def test_of_a_server() -> None:
    with serving() as server:
        server.post("/v1/retrieve", {"query": "very special words"})
        server.post("/v1/retrieve", {"query": "a", "collection": "private"})
        server.post("/v1/context", {"query": "dog"})
        server.post("/v1/retrieve", {"query": "(", "fts": {"mode": "strict"}})
        text = server.http.get("/metrics").text
        found = values(text)
        assert found['lagotto_searches_total{outcome="ok",'] == 3
        assert found['lagotto_searches_total{outcome="QueryError",'] == 1
        assert found['lagotto_http_requests_total{operation="retrieve",status="422",'] == 1
        assert found['lagotto_search_duration_seconds_count{stage="total",'] == 3
        assert "special" not in text
        assert "private" not in text
