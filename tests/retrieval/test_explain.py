from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lagotto.errors import DegradedError
from lagotto.prefs import RetrievalPrefs
from lagotto.results import RetrievalStats
from lagotto.retrieval.explain import Diagnostics


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, that the next readings of the clock give."""
    now: list[float] = []
    readings: Iterator[float] = iter(now)
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings))
    return now


def test_a_stage_inside_another_pauses_it(clock: list[float]) -> None:
    clock += [0, 1, 3, 6, 10, 15]
    watch = Diagnostics()
    with watch.stage("outer"), watch.stage("inner"):
        pass
    assert watch.milliseconds() == {
        "other": 1000 + 5000,
        "outer": 2000 + 4000,
        "inner": 3000,
        "total": 15000,
    }


def test_a_stage_that_runs_twice_adds_up(clock: list[float]) -> None:
    clock += [0, 0, 1, 1, 3, 3]
    watch = Diagnostics()
    for _ in range(2):
        with watch.stage("recall"):
            pass
    assert watch.milliseconds() == {"other": 0, "recall": 3000, "total": 3000}


def test_notes_are_kept_once_and_are_errors_where_strict() -> None:
    found = Diagnostics()
    for _ in range(2):
        found.note("text", "no index")
    assert found.notes == ("text: no index",)
    assert found.stats(RetrievalPrefs(), {"hits": 1}) == RetrievalStats(degraded=found.notes)
    with pytest.raises(DegradedError, match="text: no index"):
        Diagnostics(strict=True).note("text", "no index")


def test_debug_adds_times_counts_parameters_and_the_trace() -> None:
    stats = Diagnostics(trace_id="abc").stats(RetrievalPrefs(debug=True, top_k=3), {"hits": 1})
    assert (stats.counts, stats.trace_id, stats.params["top_k"]) == ({"hits": 1}, "abc", 3)
    assert set(stats.timing_ms) == {"other", "total"}
