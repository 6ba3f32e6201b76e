"""The same against the vendor's service: set PINECONE_API_KEY, and pay for a small index.

`PINECONE_TEST_INDEX` names a document index with one dense field of dimension DIMENSION; without it
one is made, and deleted again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import numpy as np
import pytest

from lagotto.filters import Eq
from lagotto.indexes.base import FilterKeys
from lagotto.indexes.pinecone import open_pinecone
from lagotto.indexes.registry import IndexSite
from lagotto.testing.indexes import (
    DIMENSION,
    MemoryChangeLog,
    caught_up,
    unit_vector,
    vector_oracle,
)

pinecone = pytest.importorskip("pinecone", reason="pip install 'lagotto[pinecone]'")
pytestmark = pytest.mark.skipif(
    "PINECONE_API_KEY" not in os.environ, reason="needs PINECONE_API_KEY, and an account"
)


@pytest.fixture(scope="module")
def live_index() -> Iterator[str]:
    if given := os.environ.get("PINECONE_TEST_INDEX"):
        yield given
        return
    name = f"lagotto-test-{secrets.token_hex(4)}"
    field = {"type": "dense_vector", "dimension": DIMENSION, "metric": "cosine"}
    with pinecone.Pinecone() as client:
        client.indexes.create(name=name, schema={"fields": {"embedding": field}})
        yield name
        client.indexes.delete(name)


async def test_the_service_itself(live_index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding, removing, filters, another history; what is left behind is deleted."""
    monkeypatch.setattr("lagotto.indexes.remote.SCORED_FROM_RECORD", 0)
    site = IndexSite(secrets.token_hex(16), timeout=120, address=f"pinecone:{live_index}")
    index = open_pinecone(site, model_id="m", dimension=DIMENSION)
    log, query = MemoryChangeLog(), unit_vector(1_000)
    for number in range(200):
        log.add("", unit_vector(number), fields={"parity": (number % 2,)})
    try:
        assert index.catch_up(log) is not None
        log.remove(7)
        log.add("new", query)
        followed = caught_up(index, log)
        assert followed.position == log.head
        right = await vector_oracle(log).search(query, k=10, allowed=None)
        found = await followed.search(query, k=10, allowed=None)
        assert found.keys.tolist() == right.keys.tolist()
        keys = [key for key in log.chunks if key <= 200 and key % 2 == 0]
        odd = FilterKeys(np.array(keys, np.int64), where=Eq("parity", 1))
        right = await vector_oracle(log).search(query, k=10, allowed=odd)
        found = await followed.search(query, k=10, allowed=odd)
        assert found.keys.tolist() == right.keys.tolist()
        assert index.check(log).level == "ok"
    finally:
        index.delete()
        index.close()
