"""The record's vectors give the scores that the oracle gives."""

from __future__ import annotations

import numpy as np
import pytest

from lagotto.indexes.base import FilterKeys
from lagotto.indexes.overlay import RecordVectors
from lagotto.testing.indexes import (
    DIMENSION,
    MemoryChangeLog,
    MemoryVectors,
    sample_log,
    unit_vector,
)

QUERY = unit_vector(100)


@pytest.fixture(params=[1, 3, 5_000], autouse=True)
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lagotto.indexes.overlay.VECTORS_PER_READ", request.param)


def record_of(log: MemoryChangeLog) -> RecordVectors:
    return RecordVectors(log, model_id="m", dimension=DIMENSION)


async def test_the_best_of_some() -> None:
    log = sample_log()
    log.remove(3)
    keys = np.array([7, 3, 2, 99, 5, 2])
    right = await MemoryVectors(log).search(QUERY, k=9, allowed=FilterKeys(np.array([2, 5, 7])))
    for k in (1, 2, 3, 9):
        found = await record_of(log).best(QUERY, keys, k=k)
        assert found.keys.tolist() == right.keys.tolist()[:k]
        assert found.scores.tolist() == right.scores.tolist()[:k]


async def test_scores_of_any_keys() -> None:
    log = sample_log()
    log.remove(3)
    keys = np.array([7, 3, 2, 99, 2])
    right = await MemoryVectors(log).scores(QUERY, keys)
    assert (await record_of(log).scores(QUERY, keys)).tolist() == right.tolist()
    assert right[1] == right[3] == 0.0
    assert (await record_of(log).scores(QUERY, keys[:0])).tolist() == []
    assert (await record_of(MemoryChangeLog()).scores(QUERY, keys)).tolist() == [0.0] * 5


async def test_the_best_of_all_up_to_a_key() -> None:
    log = sample_log()
    log.remove(2)
    every = np.array([1, 3, 4, 5])
    right = await MemoryVectors(log).search(QUERY, k=9, allowed=FilterKeys(every))
    found = await record_of(log).best_of_all(QUERY, k=9, last=5)
    assert found.keys.tolist() == right.keys.tolist()
    assert found.scores.tolist() == right.scores.tolist()
