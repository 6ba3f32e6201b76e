"""Three nodes, three shards, two replicas: the same results, also while a node is killed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lagotto.errors import IndexUnavailableError
from lagotto.filters import Eq
from lagotto.indexes import remote
from lagotto.indexes.base import FilterKeys
from lagotto.indexes.qdrant.driver import open_qdrant_vectors
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteVectorIndex
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.testing.indexes import (
    DIMENSION,
    MemoryChangeLog,
    text_oracle,
    unit_vector,
    vector_oracle,
)
from tests.indexes.qdrant.inside import text_index, vector_index
from tests.indexes.remote_contract import latest
from tests.servers.qdrant import (
    GIVEN,
    QdrantNode,
    all_active,
    cluster_address,
    missing,
    qdrant_cluster,
)

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.skipif(GIVEN in os.environ, reason="a given server is not to be killed"),
]

WORDS = ["oak", "lake", "marsh", "dog", "hazel", "root", "water"]
REPLICAS = 6  # of a collection: two of each of its three shards
QUERY = TextQuery(((Term("oak"),), (Term("lake"),), (Term("hazel"),)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[QdrantNode]]:
    with qdrant_cluster(3) as nodes:
        yield nodes


def site_on(node: QdrantNode, **options: object) -> IndexSite:
    address = node.address("cluster", **options)
    return IndexSite(secrets.token_hex(16), timeout=40, address=address)


def varied_log(size: int) -> MemoryChangeLog:
    chosen = np.random.default_rng(size)
    log = MemoryChangeLog()
    for number in range(size):
        words = " ".join(chosen.choice(WORDS, size=int(chosen.integers(1, 12))))
        collection = f"team {number % 3}"
        log.add(words, unit_vector(number), fields={"collection": (collection,)})
    return log


async def check_answers(
    words: QdrantTextIndex,
    vectors: RemoteVectorIndex,
    log: MemoryChangeLog,
    *,
    errors: bool = False,
) -> None:
    """Both indexes answer as the oracle does, maybe after `errors`, but never otherwise."""
    last = time.monotonic() + 30
    while True:
        try:
            return await _check_once(words, vectors, log)
        except IndexUnavailableError:
            if not errors or time.monotonic() > last:
                raise


async def _check_once(
    words: QdrantTextIndex, vectors: RemoteVectorIndex, log: MemoryChangeLog
) -> None:
    for index, oracle, query in (
        (words, text_oracle(log), QUERY),
        (vectors, vector_oracle(log), unit_vector(5)),
    ):
        snapshot: Any = latest(index, log)
        assert snapshot.position == log.head
        found = await snapshot.search(query, k=10, allowed=None)
        right = await oracle.search(query, k=10, allowed=None)  # type: ignore[arg-type]
        assert found.keys.tolist() == right.keys.tolist()
        assert found.scores == pytest.approx(right.scores, rel=1e-5)


@pytest.mark.parametrize("sharding", ["auto", "collection"])
async def test_shards_do_not_change_results(cluster: list[QdrantNode], sharding: str) -> None:
    site = site_on(cluster[0], shards=3, replicas=2, sharding=sharding)
    with text_index(site) as words, vector_index(site) as vectors:
        log = varied_log(300)
        for key in (7, 70, 170):
            log.remove(key)
        log.update(10, {"collection": ("team 0",), "color": ("red",)})
        words.catch_up(log)
        vectors.catch_up(log)
        await check_answers(words, vectors, log)
        team = np.array(sorted(key for key in log.chunks if key % 3 == 2), np.int64)
        allowed = FilterKeys(team, where=Eq("collection", "team 1"))
        found = await latest(words, log).search(QUERY, k=20, allowed=allowed)
        right = await text_oracle(log).search(QUERY, k=20, allowed=allowed)
        assert found.keys.tolist() == right.keys.tolist()
        assert {words.check(log).level, vectors.check(log).level} == {"ok"}


async def test_another_node_is_asked_if_one_does_not_answer(cluster: list[QdrantNode]) -> None:
    """With all nodes in the address neither searches nor writes notice that one is killed."""
    address = cluster_address(cluster, "nodes", shards=3, replicas=2)
    site = IndexSite(secrets.token_hex(16), timeout=60, address=address)
    with text_index(site) as words, vector_index(site) as vectors:
        log = varied_log(100)
        words.catch_up(log)
        vectors.catch_up(log)
        cluster[0].kill()
        await check_answers(words, vectors, log)
        log.add("oak and lake", unit_vector(5))
        words.catch_up(log)
        vectors.catch_up(log)
        await check_answers(words, vectors, log)
        # started before the others have declared its replicas dead, the node would answer from them
        wait_until(lambda: not any(node.sees_all_active(REPLICAS) for node in cluster[1:]))
        cluster[0].start()
        wait_until_recovered(cluster)
        # Once the first node has what it missed, all others may go, until it is its turn again.
        for node in cluster[1:]:
            node.kill()
            await check_answers(words, vectors, log, errors=True)
            node.start()
            wait_until_recovered(cluster)
        assert {words.check(log).level, vectors.check(log).level} == {"ok"}


async def test_a_node_is_killed_and_comes_back(
    cluster: list[QdrantNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an index follows, and while it is searched: no wrong answer, and nothing is lost."""
    monkeypatch.setattr(remote, "CHUNKS_PER_RANGE", 50)
    site = site_on(cluster[0], shards=3, replicas=2)
    words = QdrantTextIndex(site)
    vectors = open_qdrant_vectors(site, model_id="m", dimension=DIMENSION)
    log = varied_log(300)
    vectors.catch_up(log)
    steps = []
    usual = words.driver.write_state

    def killing(state: str) -> None:
        steps.append(state)
        if len(steps) == 4:
            cluster[2].kill()
        usual(state)

    monkeypatch.setattr(words.driver, "write_state", killing)
    assert words.catch_up(log) is not None
    await check_answers(words, vectors, log, errors=True)
    log.add("oak and lake", unit_vector(5))
    log.remove(9)
    words.catch_up(log)
    vectors.catch_up(log)
    cluster[2].start()
    for _ in range(10):  # while the node recovers
        await check_answers(words, vectors, log, errors=True)
    # what the node missed is there again: with another one killed, its replicas must answer
    wait_until_recovered(cluster)
    cluster[1].kill()
    await check_answers(words, vectors, log, errors=True)
    # with two of three gone, an error says so
    cluster[2].kill()
    short = QdrantTextIndex(IndexSite(site.base_id, timeout=2, address=site.address))
    with pytest.raises(IndexUnavailableError):
        await check_answers(short, vectors, log)
    for index in (words, vectors, short):
        index.close()


def wait_until_recovered(cluster: list[QdrantNode]) -> None:
    """Wait until all replicas are active, by the word of every node."""
    wait_until(lambda: all_active(cluster, REPLICAS))


def wait_until(condition: Callable[[], bool]) -> None:
    last = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < last, "the cluster has not come so far"
        time.sleep(0.2)
