"""What an index in an eventually consistent service has to get right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from lagotto.errors import ConfigError, IndexUnavailableError
from lagotto.filters import Eq
from lagotto.indexes.base import START, FilterKeys
from lagotto.indexes.pinecone import MOST_DOCUMENTS, STATES, TRIES, PineconeDriver
from lagotto.indexes.remote import GRACE, Point, RemoteVectorIndex
from lagotto.testing.indexes import DIMENSION, MemoryChangeLog, caught_up, sample_log, unit_vector
from tests.indexes.remote_contract import QUERY, Clock, best, found_by, latest, nearest
from tests.servers.pinecone import PineconeServer
from tests.servers.scripted import Reply

Opened = Callable[..., RemoteVectorIndex]


@pytest.fixture
def opened(server: PineconeServer) -> Iterator[Opened]:
    made = []

    def open_index(
        *,
        name: str = "vectors-1",
        timeout: float = 5.0,
        waits: float = 5.0,
        clock: Clock | None = None,
    ) -> RemoteVectorIndex:
        driver = PineconeDriver(server.name, name=name, dimension=DIMENSION, timeout=timeout)
        made.append(driver)
        return RemoteVectorIndex(
            driver,
            model_id="m",
            dimension=DIMENSION,
            timeout=waits,
            clock=clock or Clock(),
        )

    yield open_index
    for driver in made:
        driver.close()


async def test_a_position_counts_once_searches_reflect_it(
    server: PineconeServer, opened: Opened
) -> None:
    log, index = sample_log(), opened(waits=0.1)
    assert index.catch_up(log) is not None
    former = log.head
    server.held = True
    log.add("new", QUERY)
    followed = caught_up(index, log)
    assert followed.position == index.position == former
    assert index.applied_seq(log) == former.seq
    assert index.check(log).level == "note"
    assert 9 not in await best(followed, 9)
    server.index_all()
    assert (await found_by(index, log))[0] == 9
    assert index.applied_seq(log) == log.head.seq
    assert index.check(log).level == "ok"


async def test_nothing_is_claimed_of_a_service_that_has_indexed_nothing(
    server: PineconeServer, opened: Opened
) -> None:
    server.held = True
    log, index = sample_log(), opened(waits=0.1)
    followed = caught_up(index, log)
    assert followed.position == START
    assert await best(followed, 5) == []
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
    followed = latest(reader, log)
    assert followed.position.seq == 4
    assert sorted(await best(followed, 9)) == [1, 2, 3, 4]


@pytest.mark.parametrize("tries", [1, 4])
async def test_answers_of_a_copy_that_is_behind(
    server: PineconeServer, opened: Opened, tries: int
) -> None:
    """They are asked for again, and what they lack comes from the record."""
    index, log = opened(), MemoryChangeLog()
    for number in range(6):
        log.add("", unit_vector(number))
        index.catch_up(log)
    followed = caught_up(index, log)
    server.behind = [4] * tries
    assert await best(followed, 3) == await nearest(log, 3)
    assert not server.behind


async def test_a_copy_that_is_far_behind_is_an_error(
    server: PineconeServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lagotto.indexes.remote.MOST_MISSING", 3)
    index, log = opened(), sample_log()
    followed = caught_up(index, log)
    server.behind = [9] * 4
    with pytest.raises(IndexUnavailableError, match="as of change 0, although it had reached 8"):
        await followed.search(QUERY, k=3, allowed=None)


@pytest.mark.parametrize("lost", [range(1, 5), range(1, 99)])
async def test_lost_neighbours_don_t_cost_results(
    server: PineconeServer, opened: Opened, lost: range
) -> None:
    log, index = sample_log(), opened()
    followed = caught_up(index, log)
    server.lost = set(map(str, lost))
    assert await best(followed, 6) == await nearest(log, 6)


async def test_a_search_in_a_collection_asks_one_namespace(
    server: PineconeServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lagotto.indexes.remote.SCORED_FROM_RECORD", 0)
    log, index = MemoryChangeLog(), opened()
    for number in range(30):
        log.add("", unit_vector(number), fields={"collection": ("abc"[number % 3],)})
    followed = caught_up(index, log)
    assert len(server.namespaces) == 1 + 3
    assert await best(followed, 4) == await nearest(log, 4)
    keys = np.arange(1, 31, 3)
    asked = server.verbs().count("search")
    found = await followed.search(QUERY, k=4, allowed=FilterKeys(keys, where=Eq("collection", "a")))
    assert found.keys.tolist() == await nearest(log, 4, keys.tolist())
    assert server.verbs().count("search") == asked + 1


def test_upserts_within_the_limits(server: PineconeServer, opened: Opened) -> None:
    log, index = MemoryChangeLog(), opened()
    for number in range(2 * MOST_DOCUMENTS + 1):
        log.add("", unit_vector(number))
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
    points = [Point(key, row) for key, row in enumerate(rows)]
    with PineconeServer(dimension=dimension) as server:
        monkeypatch.setenv("PINECONE_CONTROLLER_HOST", server.url)
        driver = PineconeDriver(server.name, name="x", dimension=dimension, timeout=5)
        ((namespace, last),) = driver.upsert("some", points).items()
        assert last == server.verbs().count("upsert") > 2
        assert set(server.namespaces[namespace].written) == set(map(str, range(300)))
        driver.close()


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
        PineconeDriver("chunks", name="x", dimension=5, timeout=1).delete_all()
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


async def test_an_index_that_is_ahead_serves_an_older_state(opened: Opened) -> None:
    log, index = sample_log(), opened()
    caught_up(index, log)
    older = log.fork()
    log.add("newer", unit_vector(70))
    caught_up(index, log)
    assert index.catch_up(older) is None
    served = index.latest(older)
    assert served is not None
    assert served.position == older.head
    assert await best(served, 99) == await nearest(older, 99)


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


async def test_namespaces_that_somebody_deleted_are_built_anew(
    server: PineconeServer, opened: Opened
) -> None:
    clock = Clock()
    log, index = sample_log(), opened(waits=0.1, clock=clock)
    followed = caught_up(index, log)
    (name,) = (name for name in server.namespaces if name != STATES)
    del server.namespaces[name]
    assert await best(followed, 3) == await nearest(log, 3), "the record has them"
    index.refresh()
    assert index.position == START
    index.catch_up(log)
    assert len(server.namespaces) == 1, "the service may just be slow"
    clock.now += GRACE
    index.compact(log)
    again = caught_up(index, log)
    assert again.position == log.head
    assert len(server.namespaces) == 2
    assert await found_by(index, log) == await nearest(log, 5)
