"""What an index in an eventually consistent service has to get right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.filters import And, Eq, Filter, Gt
from lagotto.indexes.base import START, FilterKeys
from lagotto.indexes.pinecone import (
    KEPT,
    MOST_DOCUMENTS,
    STATES,
    TRIES,
    PineconeIndex,
    PineconeService,
)
from lagotto.testing.indexes import (
    DIMENSION,
    MemoryChangeLog,
    MemoryVectors,
    sample_log,
    unit_vector,
)
from tests.servers.pinecone import PineconeServer
from tests.servers.scripted import Reply

QUERY = unit_vector(100)


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


Opened = Callable[..., PineconeIndex]


@pytest.fixture
def opened(server: PineconeServer) -> Iterator[Opened]:
    made = []

    def open_index(
        *,
        name: str = "vectors-1",
        timeout: float = 5.0,
        waits: float = 5.0,
        clock: Clock | None = None,
    ) -> PineconeIndex:
        service = PineconeService(server.name, dimension=DIMENSION, timeout=timeout)
        made.append(service)
        return PineconeIndex(
            service,
            name=name,
            model_id="m",
            dimension=DIMENSION,
            timeout=waits,
            clock=clock or Clock(),
        )

    yield open_index
    for service in made:
        service.close()


def many(count: int) -> MemoryChangeLog:
    log = MemoryChangeLog()
    for number in range(count):
        parity = "even" if number % 2 == 0 else "odd"
        log.add("", unit_vector(number), fields={"parity": (parity,), "number": (number,)})
    return log


async def nearest(log: MemoryChangeLog, k: int, among: list[int] | None = None) -> list[int]:
    allowed = None if among is None else FilterKeys(np.array(among, np.int64))
    found = await MemoryVectors(log).search(QUERY, k=k, allowed=allowed)
    return [int(key) for key in found.keys]


async def found_by(index: PineconeIndex, log: MemoryChangeLog, k: int = 5) -> list[int]:
    index.refresh()
    snapshot = index.latest(log)
    assert snapshot is not None
    return [int(key) for key in (await snapshot.search(QUERY, k=k, allowed=None)).keys]


async def test_a_position_counts_once_searches_reflect_it(
    server: PineconeServer, opened: Opened
) -> None:
    log, index = sample_log(), opened(waits=0.1)
    assert index.catch_up(log) is not None
    former = log.head
    server.held = True
    log.add("new", QUERY)
    followed = index.catch_up(log)
    assert followed is not None
    assert followed.position == index.position == former
    assert index.applied_seq(log) == former.seq
    assert index.check(log).level == "note"
    assert 9 not in (await followed.search(QUERY, k=9, allowed=None)).keys
    server.index_all()
    assert (await found_by(index, log))[0] == 9
    assert index.applied_seq(log) == log.head.seq
    assert index.check(log).level == "ok"


async def test_nothing_is_claimed_of_a_service_that_has_indexed_nothing(
    server: PineconeServer, opened: Opened
) -> None:
    server.held = True
    log, index = sample_log(), opened(waits=0.1)
    followed = index.catch_up(log)
    assert followed is not None
    assert followed.position == START
    assert not len(await followed.search(QUERY, k=5, allowed=None))
    other = opened()
    other.refresh()
    assert other.latest(log) is None
    assert other.applied_seq(log) == 0


async def test_a_reader_beside_a_writer_that_never_rests(
    server: PineconeServer, opened: Opened
) -> None:
    """The last position is never reached, one of those before it is."""
    writer, reader, log = opened(waits=0), opened(), MemoryChangeLog()
    for number in range(6):
        server.held = number >= 4
        log.add("", unit_vector(number))
        writer.catch_up(log)
    reader.refresh()
    latest = reader.latest(log)
    assert latest is not None
    assert latest.position.seq == 4
    found = await latest.search(QUERY, k=9, allowed=None)
    assert sorted(found.keys.tolist()) == [1, 2, 3, 4]


@pytest.mark.parametrize("tries", [1, 4])
async def test_answers_of_a_copy_that_is_behind(
    server: PineconeServer, opened: Opened, tries: int
) -> None:
    """They are asked for again, and what they lack comes from the record."""
    index, log = opened(), MemoryChangeLog()
    for number in range(6):
        log.add("", unit_vector(number))
        index.catch_up(log)
    latest = index.latest(log)
    assert latest is not None
    server.behind = [4] * tries
    found = await latest.search(QUERY, k=3, allowed=None)
    assert found.keys.tolist() == await nearest(log, 3)
    assert not server.behind


async def test_a_copy_that_is_far_behind_is_an_error(
    server: PineconeServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lagotto.indexes.pinecone.MOST_MISSING", 3)
    index, log = opened(), sample_log()
    followed = index.catch_up(log)
    assert followed is not None
    server.behind = [9] * 4
    with pytest.raises(IndexUnavailableError, match="as of change 0, although it had reached 8"):
        await followed.search(QUERY, k=3, allowed=None)


@pytest.mark.parametrize("lost", [range(1, 5), range(1, 99)])
async def test_lost_neighbours_don_t_cost_results(
    server: PineconeServer, opened: Opened, lost: range
) -> None:
    log, index = sample_log(), opened()
    followed = index.catch_up(log)
    assert followed is not None
    server.lost = set(map(str, lost))
    found = await followed.search(QUERY, k=6, allowed=None)
    assert found.keys.tolist() == await nearest(log, 6)


@pytest.mark.parametrize(
    "where", [None, Eq("parity", "odd"), And(Eq("collection", "default"), Gt("number", 5))]
)
async def test_filters(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, where: Filter | None
) -> None:
    """Whatever of a filter the service is asked for, the result is exact, and has k hits."""
    monkeypatch.setattr("lagotto.indexes.pinecone.FEW", 2)
    log, index = many(60), opened()
    followed = index.catch_up(log)
    assert followed is not None
    keys = [key for key in range(8, 61) if key % 2 == 0]
    for k in (1, 5, 20, 26, 27, 99):
        found = await followed.search(
            QUERY, k=k, allowed=FilterKeys(np.array(keys, np.int64), where=where)
        )
        assert found.keys.tolist() == await nearest(log, k, keys)


async def test_searches_go_deeper_until_enough_is_found(
    server: PineconeServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lagotto.indexes.pinecone.FEW", 0)
    log, index = many(300), opened()
    followed = index.catch_up(log)
    assert followed is not None
    furthest = sorted((await nearest(log, 300))[-30:])
    before = server.verbs().count("search")
    found = await followed.search(QUERY, k=3, allowed=FilterKeys(np.array(furthest, np.int64)))
    assert found.keys.tolist() == await nearest(log, 3, furthest)
    assert [r.json["top_k"] for r in server.requests if r.path.endswith("/search")][
        before - server.verbs().count("search") :
    ] == [26, 104, 416]


async def test_few_allowed_chunks_need_no_request(server: PineconeServer, opened: Opened) -> None:
    log, index = many(60), opened()
    followed = index.catch_up(log)
    assert followed is not None
    asked = len(server.requests)
    found = await followed.search(QUERY, k=2, allowed=FilterKeys(np.array([3, 5, 7], np.int64)))
    assert found.keys.tolist() == await nearest(log, 2, [3, 5, 7])
    assert len(server.requests) == asked


async def test_metadata_that_changed_since(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition is asked of what the service has; the record knows what changed since."""
    monkeypatch.setattr("lagotto.indexes.pinecone.FEW", 0)
    log, index = many(40), opened()
    order = await nearest(log, 40)
    best, furthest = order[:4], order[-4:]
    for key in furthest:
        log.update(key, {"parity": ("both",)})
    assert index.catch_up(log) is not None
    for key in best:
        log.update(key, {"parity": ("both",)})
    latest = index.latest(log)
    assert latest is not None
    keys = np.array(sorted([*best, *furthest]), np.int64)
    allowed = FilterKeys(keys, where=Eq("parity", "both"))
    assert (await latest.search(QUERY, k=2, allowed=allowed)).keys.tolist() == best[:2]
    followed = index.catch_up(log)
    assert followed is not None
    assert followed.position == log.head
    assert (await followed.search(QUERY, k=2, allowed=allowed)).keys.tolist() == best[:2]


async def test_newer_documents_are_not_of_an_earlier_state(opened: Opened) -> None:
    log, index = sample_log(), opened()
    assert index.catch_up(log) is not None
    log.add("new", QUERY)
    assert opened().catch_up(log) is not None
    former = index.latest(log)
    assert former is not None
    assert former.position.seq == 8
    assert 9 not in (await former.search(QUERY, k=9, allowed=None)).keys
    assert (await found_by(index, log))[0] == 9


async def test_a_search_in_a_collection_asks_one_namespace(
    server: PineconeServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lagotto.indexes.pinecone.FEW", 0)
    log, index = MemoryChangeLog(), opened()
    for number in range(30):
        log.add("", unit_vector(number), fields={"collection": ("abc"[number % 3],)})
    followed = index.catch_up(log)
    assert followed is not None
    assert len(server.namespaces) == 1 + 3
    everywhere = await followed.search(QUERY, k=4, allowed=None)
    assert everywhere.keys.tolist() == await nearest(log, 4)
    keys = np.arange(1, 31, 3)
    asked = server.verbs().count("search")
    found = await followed.search(QUERY, k=4, allowed=FilterKeys(keys, where=Eq("collection", "a")))
    assert found.keys.tolist() == await nearest(log, 4, keys.tolist())
    assert server.verbs().count("search") == asked + 1


def test_upserts_within_the_limits(server: PineconeServer, opened: Opened) -> None:
    log, index = many(2 * MOST_DOCUMENTS + 1), opened()
    assert index.catch_up(log) is not None
    written = [
        len(request.json["documents"])
        for request in server.requests
        if request.path.endswith("/upsert") and STATES not in request.path
    ]
    assert written == [MOST_DOCUMENTS, MOST_DOCUMENTS, 1]


@pytest.mark.usefixtures("server")
def test_upserts_of_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    dimension = 1536
    rows = np.random.default_rng(0).standard_normal((300, dimension)).astype(np.float32)
    documents = [{"_id": str(key), "": row} for key, row in enumerate(rows.tolist())]
    with PineconeServer(dimension=dimension) as server:
        monkeypatch.setenv("PINECONE_CONTROLLER_HOST", server.url)
        service = PineconeService(server.name, dimension=dimension, timeout=5)
        assert service.upsert("some", documents) == server.verbs().count("upsert") > 3
        assert set(server.namespaces["some"].written) == set(map(str, range(300)))
        service.close()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_service_under_load_is_asked_again(
    server: PineconeServer, opened: Opened, status: int
) -> None:
    index = opened()
    server.throttle(2, status=status)
    index.refresh()
    server.throttle(TRIES + 1, status=status)
    assert index.catch_up(sample_log()) is not None


def test_lost_connections_are_made_again(server: PineconeServer, opened: Opened) -> None:
    index = opened(timeout=60.0)
    index.refresh()
    server.failures = [Reply(drop=True)] * (TRIES + 1)
    assert index.catch_up(sample_log()) is not None


def test_it_gives_up_after_the_timeout(server: PineconeServer, opened: Opened) -> None:
    index = opened(timeout=1.0)
    index.refresh()
    server.throttle(99)
    with pytest.raises(IndexUnavailableError, match=r"'chunks' can't be used.*try again later"):
        index.catch_up(sample_log())
    assert index.check(sample_log()).level == "problem"


def test_refusals_are_not_repeated(server: PineconeServer, opened: Opened) -> None:
    index = opened()
    index.refresh()
    asked = len(server.requests)
    server.failures = [Reply({"error": {"message": "who are you?"}}, status=403)]
    with pytest.raises(IndexUnavailableError, match="check PINECONE_API_KEY") as caught:
        index.refresh()
    assert len(server.requests) == asked + 1
    assert "secret-key" not in str(caught.value)


def test_an_index_that_does_not_fit(
    server: PineconeServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.dimension = 5
    with pytest.raises(ConfigError, match=r"\{'embedding': 5\}.*dimension 8; create it"):
        opened().refresh()
    server.name = "other"
    with pytest.raises(ConfigError, match="there is no Pinecone index 'chunks'; create it"):
        PineconeService("chunks", dimension=5, timeout=1).namespaces("x")
    monkeypatch.delenv("PINECONE_API_KEY")
    with pytest.raises(ConfigError, match="set PINECONE_API_KEY"):
        opened().refresh()


def test_a_service_without_numbers_is_refused(server: PineconeServer, opened: Opened) -> None:
    index = opened()
    index.refresh()
    server.failures = [Reply({"documents": {}, "namespace": "x", "usage": {"read_units": 1}})]
    server.failures.append(Reply({"upserted_count": 1}))
    with pytest.raises(IndexUnavailableError, match="does not number its writes"):
        index.catch_up(sample_log())


@pytest.mark.parametrize("failed", range(5))
async def test_a_crash_at_any_request(server: PineconeServer, opened: Opened, failed: int) -> None:
    """The next follower writes the same again, and the result is the same."""
    log, index = sample_log(), opened()
    index.refresh()
    real = PineconeServer.reply
    asked = len(server.requests)

    def failing(self: PineconeServer, request: object) -> Reply:
        if len(self.requests) == asked + failed:
            self.failures = [Reply({"error": {"message": "crash"}}, status=400)]
        return real(self, request)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PineconeServer, "reply", failing)
        try:
            index.catch_up(log)
        except IndexUnavailableError:
            pass
        else:
            assert failed == 4, "so many requests does it take"
    server.failures.clear()
    other = opened()
    assert other.catch_up(log) is not None
    assert await found_by(other, log) == await nearest(log, 5)
    epochs = {name.rsplit("-", 2)[1] for name in server.namespaces if name != STATES}
    assert len(epochs) == 1


async def test_two_followers(opened: Opened) -> None:
    log, one, other = sample_log(), opened(), opened()
    assert one.catch_up(log) is not None
    log.add("new", QUERY)
    assert other.catch_up(log) is not None
    assert await found_by(one, log) == await found_by(other, log) == await nearest(log, 5)
    older = log.fork()
    log.add("newer", unit_vector(70))
    assert one.catch_up(log) is not None
    assert other.catch_up(older) is None, "the index is ahead of this state"
    served = other.latest(older)
    assert served is not None
    assert served.position == older.head
    assert (await served.search(QUERY, k=99, allowed=None)).keys.tolist() == await nearest(
        older, 99
    )


async def test_an_answer_of_the_past_is_not_the_state(
    server: PineconeServer, opened: Opened
) -> None:
    log, index = sample_log(), opened()
    assert index.catch_up(log) is not None
    server.namespaces[STATES].writes.pop()
    log.add("new", QUERY)
    index.refresh()
    assert index.position.seq == 8
    assert index.catch_up(log) is not None
    assert (await found_by(index, log))[0] == 9


async def test_removed_chunks_are_deleted_once_no_search_needs_them(
    server: PineconeServer, opened: Opened
) -> None:
    clock = Clock()
    log, index = sample_log(), opened(clock=clock)
    before = index.catch_up(log.fork())
    gone = (await nearest(log, 1))[0]
    log.remove(gone)
    assert index.catch_up(log) is not None
    assert before is not None

    def documents() -> set[str]:
        (name,) = (name for name in server.namespaces if name != STATES)
        return set(server.namespaces[name].written)

    index.compact(log)
    clock.now += KEPT - 1
    index.compact(log)
    assert str(gone) in documents()
    assert (await before.search(QUERY, k=1, allowed=None)).keys.tolist() == [gone]
    assert gone not in await found_by(index, log, k=99)
    clock.now += 1
    index.compact(log)
    assert documents() == {str(key) for key in log.chunks}
    assert await found_by(index, log, k=99) == await nearest(log, 99)


async def test_another_history_gets_other_namespaces(
    server: PineconeServer, opened: Opened
) -> None:
    clock = Clock()
    ours, index = sample_log(), opened(clock=clock)
    theirs = ours.fork()
    ours.add("ours", unit_vector(60))
    theirs.add("theirs", unit_vector(61))
    before = index.catch_up(ours)
    assert index.catch_up(theirs) is not None
    assert before is not None
    assert len(server.namespaces) == 1 + 2
    assert (await before.search(QUERY, k=9, allowed=None)).keys.tolist() == await nearest(ours, 9)
    index.compact(theirs)
    clock.now += KEPT
    index.compact(theirs)
    assert len(server.namespaces) == 1 + 1
    assert await found_by(index, theirs) == await nearest(theirs, 5)


async def test_namespaces_that_somebody_deleted_are_built_anew(
    server: PineconeServer, opened: Opened
) -> None:
    clock = Clock()
    log, index = sample_log(), opened(waits=0.1, clock=clock)
    followed = index.catch_up(log)
    assert followed is not None
    (name,) = (name for name in server.namespaces if name != STATES)
    del server.namespaces[name]
    found = await followed.search(QUERY, k=3, allowed=None)
    assert found.keys.tolist() == await nearest(log, 3), "the record has them"
    index.refresh()
    assert index.position == START
    index.catch_up(log)
    assert len(server.namespaces) == 1, "the service may just be slow"
    clock.now += KEPT
    again = index.catch_up(log)
    assert again is not None
    assert again.position == log.head
    assert len(server.namespaces) == 2
    assert await found_by(index, log) == await nearest(log, 5)


def test_what_is_dropped_is_this_index_alone(server: PineconeServer, opened: Opened) -> None:
    log, index, other = sample_log(), opened(), opened(name="vectors-2")
    assert index.catch_up(log) is not None
    assert other.catch_up(log) is not None
    server.namespaces["theirs"] = server.namespaces[STATES]
    index.delete()
    assert index.position == START
    assert [name for name in server.namespaces if "vectors-1" in name] == []
    assert len([name for name in server.namespaces if "vectors-2" in name]) == 1
    assert "theirs" in server.namespaces
    assert set(server.namespaces[STATES].written) == {"vectors-2"}
    index.refresh()
    assert index.latest(log) is None
    assert index.check(log).what == "there is no vector index"
