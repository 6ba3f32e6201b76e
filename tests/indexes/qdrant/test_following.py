"""Following the change log on a real server: crashes, other histories, removals, rebuilds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from lagotto.filters import Eq
from lagotto.indexes.base import ChunkKeys, FilterKeys, Finding
from lagotto.indexes.qdrant import collections, following, points
from lagotto.indexes.qdrant import text as text_module
from lagotto.indexes.qdrant.collections import Collections
from lagotto.indexes.qdrant.following import QdrantFollower
from lagotto.indexes.qdrant.points import visible
from lagotto.indexes.qdrant.text import SPARSE, QdrantTextIndex
from lagotto.indexes.qdrant.vectors import QdrantVectorIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import Term, TextQuery, Word, single_words
from lagotto.testing.indexes import (
    DIMENSION,
    QUERIES,
    TEXTS,
    MemoryChangeLog,
    sample_log,
    unit_vector,
)

LAKE = TextQuery(((Term("lake"),),))


@pytest.fixture
def text(site: IndexSite) -> Iterator[QdrantTextIndex]:
    index = QdrantTextIndex(site)
    yield index
    index.close()


@pytest.fixture
def vectors(site: IndexSite) -> Iterator[QdrantVectorIndex]:
    index = QdrantVectorIndex(site, model_id="m", dimension=DIMENSION)
    yield index
    index.close()


def keys(*some: int) -> ChunkKeys:
    return np.array(some, np.int64)


def collections_on(index: QdrantTextIndex | QdrantVectorIndex) -> list[str]:
    found = index.server.ask(lambda client: client.get_collections()).collections
    return [each.name for each in found if each.name.startswith(index.collections.alias)]


async def test_a_crash_between_points_and_state(
    site: IndexSite, text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = sample_log(TEXTS[:3])
    assert text.catch_up(log) is not None
    log.add("one more lake", language="en")
    log.add("a lake that goes", language="en")
    log.remove(2)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Collections, "advance", crash)
        with pytest.raises(KeyboardInterrupt):
            text.catch_up(log)
    log.remove(5)  # its point is on the server already
    another = QdrantTextIndex(site)
    another.refresh()
    lagging = another.latest(log)
    assert lagging is not None
    assert lagging.position.seq == 3
    assert await lagging.frequencies(single_words(["lake", "dog"])) == [0, 2]
    followed = another.catch_up(log)
    assert followed is not None
    assert followed.position == log.head
    assert (await followed.search(LAKE, k=9, allowed=None)).keys.tolist() == [4]
    assert await followed.frequencies(single_words(["lake", "dog"])) == [1, 1]
    assert (await followed.statistics()).chunks == 3
    assert another.check(log).level == "ok"
    another.close()


async def test_two_processes_follow_at_once(
    site: IndexSite, text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = sample_log(TEXTS[:3])
    text.catch_up(log)
    other = QdrantTextIndex(site)
    behind = log.fork()
    behind.add("a lake", language="en")
    ahead = behind.fork()
    ahead.remove(4)
    ahead.add("another lake", language="en")
    usual = Collections.advance

    def overtaken(self: Collections, *states: Any) -> Any:
        monkeypatch.setattr(Collections, "advance", usual)
        assert other.catch_up(ahead) is not None
        return usual(self, *states)

    monkeypatch.setattr(Collections, "advance", overtaken)
    assert text.catch_up(behind) is None  # the other one has come further
    assert text.position == ahead.head
    followed = text.catch_up(ahead)
    assert followed is not None
    assert (await followed.search(LAKE, k=9, allowed=None)).keys.tolist() == [6]
    other.close()


async def test_another_history_gets_another_collection(text: QdrantTextIndex) -> None:
    ours = sample_log(TEXTS[:3])
    theirs = ours.fork()
    ours.add("our lake", language="en")
    theirs.add("their marsh", language="en")
    before = text.catch_up(ours)
    assert before is not None
    former = collections_on(text)
    after = text.catch_up(theirs)
    assert after is not None
    assert len(collections_on(text)) == len(former) + 1
    text.refresh()
    assert text.position == theirs.head
    # a search that began before is undisturbed
    assert (await before.search(LAKE, k=9, allowed=None)).keys.tolist() == [4]
    assert not len(await after.search(LAKE, k=9, allowed=None))


async def test_removals_are_visible_to_older_snapshots(
    text: QdrantTextIndex, vectors: QdrantVectorIndex
) -> None:
    log = sample_log()
    log.add("a dog", language="en")
    log.remove(9)
    then = log.fork()
    text.catch_up(log.fork())
    old_text, old_vectors = text.catch_up(then), vectors.catch_up(then)
    log.remove(4)
    log.add("a lake", unit_vector(50), language="en")
    new_text, new_vectors = text.catch_up(log), vectors.catch_up(log)
    assert old_text
    assert old_vectors
    assert new_text
    assert new_vectors
    everything = keys(*range(1, 99))
    lake = Word(("lake",))
    assert (await old_text.matching(lake, everything)).tolist() == [4, 7]
    assert (await new_text.matching(lake, everything)).tolist() == [7, 12]
    found = await old_text.search(LAKE, k=9, allowed=None)
    assert set(found.keys.tolist()) == {4, 7}
    assert await old_text.frequencies([Word(("lake",))]) == [2]
    assert await new_text.frequencies([Word(("lake",))]) == [2]
    assert (await old_text.statistics()).chunks == len(TEXTS)
    nearest = await old_vectors.search(unit_vector(3), k=1, allowed=None)
    assert nearest.keys.tolist() == [4]
    nearest = await new_vectors.search(unit_vector(3), k=99, allowed=None)
    assert set(nearest.keys.tolist()) == {1, 2, 3, 5, 6, 7, 8, 12}


async def test_a_slow_follower_does_not_bring_removed_chunks_back(
    site: IndexSite, text: QdrantTextIndex
) -> None:
    log = sample_log()
    text.catch_up(log)
    slow = QdrantTextIndex(site)
    begun = slow.collections.current()
    assert begun is not None
    log.remove(4)
    snapshot = text.catch_up(log.fork())
    assert snapshot is not None
    log.add("a marsh", language="en")
    slow._applied(begun, log, len(TEXTS), log.head.seq)
    assert await snapshot.frequencies([Word(("lake",))]) == [1]
    assert text.check(log).level == "note"  # one change behind, and intact
    slow.close()


async def test_removed_points_are_deleted_after_a_while(
    vectors: QdrantVectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = sample_log()
    vectors.catch_up(log)
    log.remove(4)
    vectors.catch_up(log)

    def stored() -> int:
        name = vectors.collections.alias
        return vectors.server.ask(lambda client: client.count(name)).count - 1  # the state

    vectors.compact(log)
    assert stored() == len(TEXTS)
    monkeypatch.setattr(following, "GRACE", 0.0)
    vectors.compact(log)
    assert stored() == len(TEXTS) - 1
    assert vectors.check(log).level == "ok"


async def test_other_metadata_is_found_by_filters(
    vectors: QdrantVectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "FEW_KEYS", 3)
    log = MemoryChangeLog()
    for number in range(9):
        color = "red" if number < 6 else "blue"
        log.add("", unit_vector(number), fields={"color": (color,), "old": (1,)})
    assert vectors.catch_up(log) is not None
    for key in (2, 5):
        log.update(key, {"color": ("blue",)})
    blue = FilterKeys(keys(2, 5, 7, 8, 9), where=Eq("color", "blue"))
    for take in (vectors.latest, vectors.catch_up):
        snapshot = take(log)
        assert snapshot is not None
        assert (snapshot.position == log.head) == (take == vectors.catch_up)
        nearest = await snapshot.search(unit_vector(1), k=1, allowed=blue)
        assert nearest.keys.tolist() == [2]
        found = await snapshot.search(unit_vector(1), k=9, allowed=blue)
        assert set(found.keys.tolist()) == {2, 5, 7, 8, 9}
    stored = vectors.server.ask(
        lambda client: client.retrieve(vectors.collections.alias, [1, 2], with_payload=True)
    )
    first, second = (dict(point.payload or {})["f"] for point in stored)
    assert set(first) - set(second) == {"n_old"}
    assert second["k_color"] == ["tblue"]


async def test_an_index_that_lost_points_is_noticed_and_rebuilt(
    text: QdrantTextIndex,
) -> None:
    log = sample_log()
    text.catch_up(log)
    text.server.ask(
        lambda client: client.delete(
            text.collections.alias, models.PointIdsList(points=[2]), wait=True
        )
    )
    finding = text.check(log)
    assert finding.level == "problem"
    assert "7 chunks instead of 8" in finding.what
    text.compact(log)
    assert text.check(log).level == "ok"
    latest = text.latest(log)
    assert latest is not None
    assert await latest.frequencies([Word(("dog",))]) == [2]


@pytest.mark.parametrize("compared", [1, 3, 10_000])
def test_a_check_compares_the_keys_with_the_record(
    text: QdrantTextIndex,
    vectors: QdrantVectorIndex,
    monkeypatch: pytest.MonkeyPatch,
    compared: int,
) -> None:
    """Also where a chunk that is lacking and one that is gone leave the number as it was."""
    monkeypatch.setattr(following, "COMPARED", compared)
    log = sample_log()
    text.catch_up(log)
    vectors.catch_up(log)
    log.add("a heron", unit_vector(70), language="en")
    log.remove(3)
    text.catch_up(log)
    vectors.catch_up(log)
    for index in (text, vectors):
        assert index.check(log).level == "ok"
        index.server.ask(
            lambda client, name=index.collections.alias: client.delete(  # type: ignore[misc]
                name, models.PointIdsList(points=[2]), wait=True
            )
        )
        index.server.ask(
            lambda client, name=index.collections.alias: client.delete_payload(  # type: ignore[misc]
                name, ["removed"], points=[3], wait=True
            )
        )
        finding = index.check(log)
        assert finding.level == "problem"
        assert "lacks 1 chunks and has 1 that are not in the base" in finding.what


@pytest.mark.parametrize("compared", [4, 10_000])
def test_a_check_compares_points_with_the_record(
    text: QdrantTextIndex,
    vectors: QdrantVectorIndex,
    monkeypatch: pytest.MonkeyPatch,
    compared: int,
) -> None:
    """Weights, vectors and fields that somebody has overwritten, where no number changes."""
    log = sample_log()
    for number in range(30):
        name = f"heron {number}" if number % 2 else f"heron {number} stork {number} and stork"
        log.add(name, unit_vector(70 + number), language="en", fields={"year": (number,)})
    log.remove(5)
    monkeypatch.setattr(following, "BATCH", 2)
    monkeypatch.setattr(following, "COMPARED", compared)
    for index in (text, vectors):
        index.catch_up(log)
        assert index.check(log).level == "ok"
        assert index.collections.current().chunks > 30  # type: ignore[union-attr]
    for index, other in (
        (text, {SPARSE: models.SparseVector(indices=[1], values=[0.5])}),
        (vectors, unit_vector(999).tolist()),
    ):
        found = [_overwritten(index, log, other), _without_fields(index, log)]
        for finding in found if compared > 30 else found[:1]:
            assert finding.level == "problem"
            assert "chunks of the" in finding.what
            assert "are not what the base has" in finding.what


def _overwritten(index: QdrantFollower, log: MemoryChangeLog, vector: Any) -> Finding:
    """What a check says once every point but one has another vector; then it is as it was."""
    state = index.collections.current()
    assert state is not None
    before, _ = index.server.ask(
        lambda client: client.scroll(state.collection, visible(state), limit=99, with_vectors=True)
    )
    _put(index, [models.PointVectors(id=each.id, vector=vector) for each in before[1:]])
    found = index.check(log)
    _put(index, [models.PointVectors(id=each.id, vector=each.vector) for each in before])
    assert index.check(log).level == "ok"
    return found


def _put(index: QdrantFollower, vectors: list[models.PointVectors]) -> None:
    alias = index.collections.alias
    index.server.ask(lambda client: client.update_vectors(alias, vectors, wait=True))


def _without_fields(index: QdrantFollower, log: MemoryChangeLog) -> Finding:
    """What a check says once the fields of a point are lost."""
    key, alias = log.head.seq - 5, index.collections.alias
    index.server.ask(lambda client: client.delete_payload(alias, ["f"], points=[key], wait=True))
    return index.check(log)


async def test_abandoned_collections_are_deleted_if_they_are_ours(
    site: IndexSite, text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = sample_log()
    text.catch_up(log)
    current = collections_on(text)
    ours = text.collections.create()
    stranger = QdrantTextIndex(replace(site, base_id="0" * 32))
    stranger.collections.alias = text.collections.alias
    theirs = stranger.collections.create()
    text.compact(log)
    assert ours.collection in collections_on(text)  # someone may be filling it
    monkeypatch.setattr(collections, "ABANDONED", 0.0)
    text.compact(log)
    assert set(collections_on(text)) == {*current, theirs.collection}
    text.delete()
    assert collections_on(text) == [theirs.collection]
    stranger.delete()
    stranger.close()


@pytest.mark.parametrize("longer", [True, False])
async def test_weights_are_computed_anew_when_chunks_get_longer(
    text: QdrantTextIndex, longer: bool
) -> None:
    few, many = "a lake", "a lake and " + "marsh " * 50
    log = MemoryChangeLog()
    for _ in range(4):
        log.add(few if longer else many, language="en")
    text.catch_up(log)
    former = text.collections.current()
    for _ in range(8):
        log.add(many if longer else few, language="en")
    assert text.catch_up(log) is not None
    state = text.collections.current()
    assert state is not None
    assert former is not None
    assert state.collection != former.collection
    assert state.mean == pytest.approx(state.mean_length)
    assert text.check(log).level == "ok"


@pytest.mark.parametrize("sampled", [3, 7, 8, 100])
async def test_the_mean_is_estimated_from_a_sample(
    text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch, sampled: int
) -> None:
    monkeypatch.setattr(text_module, "SAMPLED", sampled)
    log = MemoryChangeLog()
    for _ in range(8):
        log.add("oak lake marsh")
    log.remove(1)
    assert text.catch_up(log) is not None
    state = text.collections.current()
    assert state is not None
    assert state.mean == 3.0


async def test_an_empty_sample_is_no_reason_to_rebuild_forever(
    text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "_estimated_mean", lambda _: 1.0)
    log = MemoryChangeLog()
    log.add("oak lake marsh")
    text.catch_up(log)
    before = collections_on(text)
    text.catch_up(log)
    assert collections_on(text) == before
    assert text.check(log).level == "ok"


async def test_many_ranges(text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "AT_ONCE", 2)
    monkeypatch.setattr(following, "BATCH", 1)
    log = sample_log()
    for key in (1, 5):
        log.remove(key)
    followed = text.catch_up(log)
    assert followed is not None
    assert (await followed.statistics()).chunks == len(TEXTS) - 2
    found = await followed.search(QUERIES[1], k=9, allowed=None)
    assert set(found.keys.tolist()) == {4, 7}


def test_discard_only_at_the_position(text: QdrantTextIndex) -> None:
    log = sample_log()
    text.catch_up(log)
    text.reset_if_at(log.head._replace(seq=1))
    text.refresh()
    assert text.position == log.head
    text.reset_if_at(log.head)
    text.refresh()
    assert text.position.seq == 0
    assert text.check(log).what == "there is no text index"
