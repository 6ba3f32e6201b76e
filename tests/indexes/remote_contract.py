"""What a vector index in any service has to get right, whatever its driver is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import pytest

from lagotto.filters import And, Contains, Eq, Filter, Gt, Gte, Or
from lagotto.indexes import remote
from lagotto.indexes.base import START, FilterKeys, Snapshot, VectorSnapshot
from lagotto.indexes.remote import GRACE, RemoteIndex, RemoteState, RemoteVectorIndex
from lagotto.testing.indexes import (
    MemoryChangeLog,
    caught_up,
    sample_log,
    unit_vector,
    vector_oracle,
)

Snapshots = TypeVar("Snapshots", bound=Snapshot)
QUERY = unit_vector(100)
ASKING = pytest.mark.usefixtures("_asking")


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def many(count: int) -> MemoryChangeLog:
    log = MemoryChangeLog()
    for number in range(count):
        parity = "even" if number % 2 == 0 else "odd"
        fields = {"parity": (parity,), "number": (number,), "collection": ("abc"[number % 3],)}
        log.add("", unit_vector(number), fields=fields)  # type: ignore[arg-type]
    return log


async def nearest(log: MemoryChangeLog, k: int, among: list[int] | None = None) -> list[int]:
    allowed = None if among is None else FilterKeys(np.array(among, np.int64))
    found = await vector_oracle(log).search(QUERY, k=k, allowed=allowed)
    return [int(key) for key in found.keys]


def latest(index: RemoteIndex[Snapshots], log: MemoryChangeLog) -> Snapshots:
    """What an index answers with, as far as it is."""
    index.refresh()
    snapshot = index.latest(log)
    assert snapshot is not None
    return snapshot


async def best(snapshot: VectorSnapshot, k: int) -> list[int]:
    """The keys of the `k` nearest, as the snapshot has them."""
    hits = await snapshot.search(QUERY, k=k, allowed=None)
    return [int(key) for key in hits.keys]


async def found_by(index: RemoteVectorIndex, log: MemoryChangeLog, k: int = 5) -> list[int]:
    return await best(latest(index, log), k)


class RemoteVectorContract:
    """Inherit it, and say how to open an index and what its service has."""

    def open(self, name: str, clock: Clock) -> RemoteVectorIndex:
        """The index of a name, for the model "m" and vectors of DIMENSION."""
        raise NotImplementedError

    def release(self, index: RemoteVectorIndex) -> None:
        """Close an index."""
        index.close()

    def epochs(self, index: RemoteVectorIndex) -> set[str]:
        """The epochs of which the service has points."""
        raise NotImplementedError

    def stored(self, index: RemoteVectorIndex) -> set[int]:
        """The keys of the points of the current epoch."""
        raise NotImplementedError

    @pytest.fixture
    def _asking(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However few chunks are allowed, the service is asked."""
        monkeypatch.setattr(remote, "SCORED_FROM_RECORD", 0)

    @pytest.fixture(autouse=True)
    def _opened(self) -> Iterator[None]:
        self.clock = Clock()
        self._indexes: list[RemoteVectorIndex] = []
        yield
        for index in self._indexes:
            self.release(index)

    def opened(self, name: str = "vectors-1") -> RemoteVectorIndex:
        index = self.open(name, self.clock)
        self._indexes.append(index)
        return index

    async def test_a_crash_between_points_and_state(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next updater writes the same again, and the result is the same."""
        log, index = sample_log(), self.opened()
        assert index.catch_up(log) is not None
        former = log.head
        log.add("new", QUERY)
        log.add("that goes", unit_vector(51))
        log.remove(2)

        def crash(_: str) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(index.driver, "write_state", crash)
            with pytest.raises(KeyboardInterrupt):
                index.catch_up(log)
        log.remove(10)  # its point is in the service already
        other = self.opened()
        assert latest(other, log).position == former
        followed = caught_up(other, log)
        assert followed.position == log.head
        assert await best(followed, 99) == await nearest(log, 99)
        assert other.check(log).level == "ok"
        assert len(self.epochs(other)) == 1

    async def test_two_updaters(self) -> None:
        log, one, other = sample_log(), self.opened(), self.opened()
        assert one.catch_up(log) is not None
        log.add("new", QUERY)
        assert other.catch_up(log) is not None
        assert await found_by(one, log) == await found_by(other, log) == await nearest(log, 5)
        older = log.fork()
        log.add("newer", unit_vector(70))
        assert one.catch_up(log) is not None
        assert other.catch_up(older) is None, "the index is ahead of this state"

    async def test_another_history_gets_another_epoch(self) -> None:
        ours, index = sample_log(), self.opened()
        theirs = ours.fork()
        ours.add("ours", unit_vector(60))
        theirs.add("theirs", unit_vector(61))
        before = caught_up(index, ours)
        assert index.catch_up(theirs) is not None
        assert len(self.epochs(index)) == 2
        assert await best(before, 9) == await nearest(ours, 9)
        index.compact(theirs)
        assert len(self.epochs(index)) == 2, "searches that began before may need it"
        self.clock.now += GRACE
        index.compact(theirs)
        assert len(self.epochs(index)) == 1
        assert await found_by(index, theirs) == await nearest(theirs, 5)

    async def test_removed_chunks_are_deleted_once_no_search_needs_them(self) -> None:
        log, index = sample_log(), self.opened()
        before = caught_up(index, log.fork())
        (gone,) = await nearest(log, 1)
        log.remove(gone)
        assert index.catch_up(log) is not None
        index.compact(log)
        self.clock.now += GRACE - 1
        index.compact(log)
        assert gone in self.stored(index)
        assert await best(before, 1) == [gone]
        assert gone not in await found_by(index, log, k=99)
        self.clock.now += 1
        index.compact(log)
        assert self.stored(index) == log.chunks.keys()
        assert await found_by(index, log, k=99) == await nearest(log, 99)
        assert index.check(log).level == "ok"

    async def test_newer_points_are_not_of_an_earlier_state(self) -> None:
        log, index = sample_log(), self.opened()
        assert index.catch_up(log) is not None
        log.add("new", QUERY)
        assert self.opened().catch_up(log) is not None
        former = index.latest(log)
        assert former is not None
        assert former.position.seq == 8
        assert 9 not in await best(former, 9)
        assert (await found_by(index, log))[0] == 9

    @pytest.mark.parametrize(
        "where",
        [
            None,
            Eq("parity", "odd"),
            Contains("parity", "d"),
            Gte("number", 7),
            And(Or(Eq("collection", "a"), Gt("number", 3)), Gt("number", 5)),
        ],
    )
    async def test_k_results_whatever_the_service_knows_of_the_filter(
        self, monkeypatch: pytest.MonkeyPatch, where: Filter | None
    ) -> None:
        monkeypatch.setattr(remote, "SCORED_FROM_RECORD", 2)
        log, index = many(60), self.opened()
        followed = caught_up(index, log)
        keys = [key for key in range(8, 61) if key % 2 == 0]
        allowed = FilterKeys(np.array(keys, np.int64), where=where)
        for k in (1, 5, 26, 27, 99):
            found = await followed.search(QUERY, k=k, allowed=allowed)
            assert found.keys.tolist() == await nearest(log, k, keys)

    @ASKING
    async def test_the_service_is_asked_with_the_condition(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that one request finds enough, and the record is not read for more."""
        log, index = many(200), self.opened()
        followed = caught_up(index, log)
        monkeypatch.setattr(followed._record, "best", None)
        keys = list(range(191, 201))
        allowed = FilterKeys(np.array(keys, np.int64), where=Gte("number", 190))
        found = await followed.search(QUERY, k=3, allowed=allowed)
        assert found.keys.tolist() == await nearest(log, 3, keys)

    @ASKING
    @pytest.mark.parametrize("wanted", [{"a"}, {"a", "b"}, {"none"}])
    async def test_one_of_several_collections(self, wanted: set[str]) -> None:
        """As in `Or`, where each part is about collections."""
        log, index = many(60), self.opened()
        followed = caught_up(index, log)
        keys = [key for key in log.chunks if "abc"[(key - 1) % 3] in wanted]
        where = Or(*(Eq("collection", some) for some in sorted(wanted)))
        allowed = FilterKeys(np.array(keys, np.int64), where=where)
        found = await followed.search(QUERY, k=7, allowed=allowed)
        assert found.keys.tolist() == await nearest(log, 7, keys)

    @ASKING
    async def test_metadata_that_changed_since(self) -> None:
        """The condition is asked of what the service has; the record knows what changed since."""
        log, index = many(40), self.opened()
        order = await nearest(log, 40)
        best, furthest = order[:4], order[-4:]
        for key in furthest:
            log.update(key, {"parity": ("both",)})
        assert index.catch_up(log) is not None
        for key in best:
            log.update(key, {"parity": ("both",)})
        keys = np.array(sorted([*best, *furthest]), np.int64)
        allowed = FilterKeys(keys, where=Eq("parity", "both"))
        for take in (index.latest, index.catch_up):
            snapshot = take(log)
            assert snapshot is not None
            assert (snapshot.position == log.head) == (take == index.catch_up)
            assert (await snapshot.search(QUERY, k=2, allowed=allowed)).keys.tolist() == best[:2]
        assert index.check(log).level == "ok"

    async def test_what_is_lost_is_built_again_beside_the_rest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, index = sample_log(), self.opened()
        snapshot = caught_up(index, log)
        former = self.epochs(index)
        monkeypatch.setattr(index.driver, "is_intact", lambda *_, **__: False)
        index.compact(log)
        monkeypatch.undo()
        assert len(self.epochs(index) - former) == 1
        assert await best(snapshot, 5) == await nearest(log, 5)
        assert index.catch_up(log) is not None
        assert await found_by(index, log) == await nearest(log, 5)
        self.clock.now += GRACE
        index.compact(log)
        assert self.epochs(index).isdisjoint(former)
        assert index.check(log).level == "ok"

    def test_a_crash_while_it_is_built_again_leaves_nothing_behind(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, index = sample_log(), self.opened()
        assert index.catch_up(log) is not None
        current = self.epochs(index)

        usual = index._write

        def crashing(state: RemoteState) -> RemoteState:
            if state.epoch not in current:
                raise KeyboardInterrupt
            return usual(state)

        with monkeypatch.context() as patched:
            patched.setattr(index.driver, "is_intact", lambda *_, **__: False)
            patched.setattr(index, "_write", crashing)
            with pytest.raises(KeyboardInterrupt):
                index.compact(log)
        assert len(self.epochs(index)) == 2
        other = self.opened()
        other.compact(log)
        assert len(self.epochs(index)) == 2, "somebody may be filling it"
        self.clock.now += GRACE
        other.compact(log)
        assert self.epochs(other) == current
        assert other.check(log).level == "ok"

    def test_discard_only_at_the_position(self) -> None:
        log, index = sample_log(), self.opened()
        assert index.catch_up(log) is not None
        index.reset_if_at(log.head._replace(seq=1))
        assert index.position == log.head
        index.reset_if_at(log.head)
        index.refresh()
        assert index.position == START
        assert index.latest(log) is None
        assert index.check(log).what == "there is no vector index"
        assert index.catch_up(log) is not None
        assert index.position == log.head

    def test_what_is_dropped_is_this_index_alone(self) -> None:
        log, index, other = sample_log(), self.opened(), self.opened("vectors-2")
        assert index.catch_up(log) is not None
        assert other.catch_up(log) is not None
        index.delete()
        assert index.position == START
        assert not self.epochs(index)
        assert len(self.epochs(other)) == 1
        index.refresh()
        assert index.latest(log) is None
        assert index.check(log).what == "there is no vector index"
        assert other.check(log).level == "ok"

    @ASKING
    async def test_searches_go_deeper_until_enough_is_found(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Twice as many and some, then four times as many; what few are allowed is read at once."""
        log, index = many(600), self.opened()
        followed = caught_up(index, log)
        asked = []
        usual = index.driver.query

        async def noted(*args: object, limit: int, **options: object) -> remote.Proposals:
            asked.append(limit)
            return await usual(*args, limit=limit, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(index.driver, "query", noted)
        furthest = sorted((await nearest(log, 600))[-200:])
        allowed = FilterKeys(np.array(furthest, np.int64))
        found = await followed.search(QUERY, k=3, allowed=allowed)
        assert found.keys.tolist() == await nearest(log, 3, furthest)
        assert asked == [38, 152]

    async def test_few_allowed_chunks_need_no_request(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, index = many(60), self.opened()
        followed = caught_up(index, log)
        monkeypatch.setattr(index.driver, "query", None)
        found = await followed.search(QUERY, k=2, allowed=FilterKeys(np.array([3, 5, 7])))
        assert found.keys.tolist() == await nearest(log, 2, [3, 5, 7])
