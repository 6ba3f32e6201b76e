"""Following the change log on a real server: crashes, other histories, removals, rebuilds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from lagotto.indexes import pushdown, remote
from lagotto.indexes.base import ChunkKeys, Finding
from lagotto.indexes.qdrant import driver
from lagotto.indexes.qdrant import text as text_module
from lagotto.indexes.qdrant.driver import SPARSE, visible
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteIndex, RemoteVectorIndex
from lagotto.indexes.text_query import Term, TextQuery, Word
from lagotto.testing.indexes import (
    QUERIES,
    TEXTS,
    MemoryChangeLog,
    caught_up,
    sample_log,
    unit_vector,
)
from tests.indexes.qdrant.inside import collection_of, collections_on, server_of, state_of
from tests.indexes.remote_contract import latest

LAKE = TextQuery(((Term("lake"),),))


def keys(*some: int) -> ChunkKeys:
    return np.array(some, np.int64)


async def test_removals_are_visible_to_older_snapshots(text: QdrantTextIndex) -> None:
    log = sample_log()
    log.add("a dog", language="en")
    log.remove(9)
    then = log.fork()
    text.catch_up(log.fork())
    old_text = caught_up(text, then)
    log.remove(4)
    log.add("a lake", unit_vector(50), language="en")
    new_text = caught_up(text, log)
    everything = keys(*range(1, 99))
    lake = Word(("lake",))
    assert (await old_text.matching(lake, everything)).tolist() == [4, 7]
    assert (await new_text.matching(lake, everything)).tolist() == [7, 12]
    found = await old_text.search(LAKE, k=9, allowed=None)
    assert set(found.keys.tolist()) == {4, 7}
    assert await old_text.frequencies([Word(("lake",))]) == [2]
    assert await new_text.frequencies([Word(("lake",))]) == [2]
    assert (await old_text.statistics()).chunks == len(TEXTS)


async def test_a_slow_follower_does_not_bring_removed_chunks_back(
    site: IndexSite, text: QdrantTextIndex
) -> None:
    log = sample_log()
    text.catch_up(log)
    slow = QdrantTextIndex(site)
    begun = state_of(slow)
    log.remove(4)
    snapshot = caught_up(text, log.fork())
    log.add("a marsh", language="en")
    slow._applied(begun, log, len(TEXTS), log.head.seq)
    assert await snapshot.frequencies([Word(("lake",))]) == [1]
    assert text.check(log).level == "note"  # one change behind, and intact
    slow.close()


def test_other_metadata_replaces_all_fields(vectors: RemoteVectorIndex) -> None:
    log = MemoryChangeLog()
    for number in range(3):
        log.add("", unit_vector(number), fields={"color": ("red",), "old": (1,)})
    caught_up(vectors, log)
    log.update(2, {"color": ("blue",)})
    caught_up(vectors, log)
    stored = server_of(vectors).call("retrieve", collection_of(vectors), [1, 2], with_payload=True)
    first, second = (dict(point.payload or {})["f"] for point in stored)
    assert set(first) - set(second) == {"n_old"}
    assert second["k_color"] == ["tblue"]


async def test_an_index_that_lost_points_is_noticed_and_rebuilt(
    text: QdrantTextIndex,
) -> None:
    log = sample_log()
    text.catch_up(log)
    lost = models.PointIdsList(points=[2])
    server_of(text).call("delete", collection_of(text), lost, wait=True)
    finding = text.check(log)
    assert finding.level == "problem"
    assert "7 chunks instead of 8" in finding.what
    text.compact(log)
    assert text.check(log).level == "ok"
    assert await latest(text, log).frequencies([Word(("dog",))]) == [2]


@pytest.mark.parametrize("compared", [1, 3, 10_000])
def test_a_check_compares_the_keys_with_the_record(
    text: QdrantTextIndex,
    vectors: RemoteVectorIndex,
    monkeypatch: pytest.MonkeyPatch,
    compared: int,
) -> None:
    """Also where a chunk that is lacking and one that is gone leave the number as it was."""
    monkeypatch.setattr(driver, "CHUNKS_COMPARED", compared)
    log = sample_log()
    text.catch_up(log)
    vectors.catch_up(log)
    log.add("a heron", unit_vector(70), language="en")
    log.remove(3)
    text.catch_up(log)
    vectors.catch_up(log)
    for index in (text, vectors):
        assert index.check(log).level == "ok"
        _damage(index)
        finding = index.check(log)
        assert finding.level == "problem"
        assert "lacks 1 chunks and has 1 that are not in the base" in finding.what


@pytest.mark.parametrize("compared", [4, 10_000])
def test_a_check_compares_points_with_the_record(
    text: QdrantTextIndex,
    vectors: RemoteVectorIndex,
    monkeypatch: pytest.MonkeyPatch,
    compared: int,
) -> None:
    """Weights, vectors and fields that somebody has overwritten, where no number changes."""
    log = sample_log()
    for number in range(30):
        name = f"heron {number}" if number % 2 else f"heron {number} stork {number} and stork"
        log.add(name, unit_vector(70 + number), language="en", fields={"year": (number,)})
    log.remove(5)
    monkeypatch.setattr(driver, "POINTS_PER_WRITE", 2)
    monkeypatch.setattr(driver, "CHUNKS_COMPARED", compared)
    for index in (text, vectors):
        index.catch_up(log)
        assert index.check(log).level == "ok"
        assert state_of(index).chunks > 30
    for index, other in (
        (text, {SPARSE: models.SparseVector(indices=[1], values=[0.5])}),
        (vectors, unit_vector(999).tolist()),
    ):
        found = [_overwritten(index, log, other), _without_fields(index, log)]
        for finding in found if compared > 30 else found[:1]:
            assert finding.level == "problem"
            assert "chunks that are not what the base has" in finding.what


def _damage(index: RemoteIndex[Any]) -> None:
    """Delete a point, and bring one back that is removed."""
    name, lost = collection_of(index), models.PointIdsList(points=[2])
    server_of(index).call("delete", name, lost, wait=True)
    server_of(index).call("delete_payload", name, ["removed"], points=[3], wait=True)


def _overwritten(index: RemoteIndex[Any], log: MemoryChangeLog, vector: Any) -> Finding:
    """What a check says once every point but one has another vector; then it is as it was."""
    state = state_of(index)
    every = {"limit": 99, "with_vectors": True}
    before, _ = server_of(index).call("scroll", collection_of(index), visible(state), **every)
    _put(index, [models.PointVectors(id=each.id, vector=vector) for each in before[1:]])
    found = index.check(log)
    _put(index, [models.PointVectors(id=each.id, vector=each.vector) for each in before])
    assert index.check(log).level == "ok"
    return found


def _put(index: RemoteIndex[Any], vectors: list[models.PointVectors]) -> None:
    server_of(index).call("update_vectors", collection_of(index), vectors, wait=True)


def _without_fields(index: RemoteIndex[Any], log: MemoryChangeLog) -> Finding:
    """What a check says once the fields of a point are lost."""
    key, name = log.head.seq - 5, collection_of(index)
    server_of(index).call("delete_payload", name, ["f"], points=[key], wait=True)
    return index.check(log)


@pytest.mark.parametrize("longer", [True, False])
async def test_weights_are_computed_anew_when_chunks_get_longer(
    text: QdrantTextIndex, longer: bool
) -> None:
    few, many = "a lake", "a lake and " + "marsh " * 50
    log = MemoryChangeLog()
    for _ in range(4):
        log.add(few if longer else many, language="en")
    text.catch_up(log)
    former = state_of(text)
    for _ in range(8):
        log.add(many if longer else few, language="en")
    assert text.catch_up(log) is not None
    text.compact(log)
    state = state_of(text)
    assert state.epoch != former.epoch
    assert state.mean == pytest.approx(state.mean_length)
    assert text.check(log).level == "ok"


@pytest.mark.parametrize("sampled", [3, 7, 8, 100])
async def test_the_mean_is_estimated_from_a_sample(
    text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch, sampled: int
) -> None:
    monkeypatch.setattr(text_module, "CHUNKS_SAMPLED", sampled)
    log = MemoryChangeLog()
    for _ in range(8):
        log.add("oak lake marsh")
    log.remove(1)
    assert text.catch_up(log) is not None
    state = state_of(text)
    assert state.mean == 3.0


async def test_an_empty_sample_is_no_reason_to_rebuild_forever(
    text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "_mean", lambda _: 1.0)
    log = MemoryChangeLog()
    log.add("oak lake marsh")
    text.catch_up(log)
    before = collections_on(text)
    text.catch_up(log)
    assert collections_on(text) == before
    assert text.check(log).level == "ok"


async def test_many_ranges(text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CHUNKS_PER_RANGE", 2)
    monkeypatch.setattr(driver, "POINTS_PER_WRITE", 1)
    log = sample_log()
    for key in (1, 5):
        log.remove(key)
    followed = caught_up(text, log)
    assert (await followed.statistics()).chunks == len(TEXTS) - 2
    found = await followed.search(QUERIES[1], k=9, allowed=None)
    assert set(found.keys.tolist()) == {4, 7}


def test_no_more_fields_are_indexed_than_wanted(
    vectors: RemoteVectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushdown, "MOST_FIELDS", 5)
    log = MemoryChangeLog()
    log.add("", unit_vector(1), fields={f"n{number}": (number,) for number in range(4)})
    log.add("", unit_vector(2), fields={f"n{number}": (number,) for number in range(8)})
    vectors.catch_up(log)
    assert len(state_of(vectors).fields) == 5
