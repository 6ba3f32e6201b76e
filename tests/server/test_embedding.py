from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from lagotto.documents import Vectors
from lagotto.embedders.base import Embedder, Role
from lagotto.errors import EmbeddingError
from lagotto.server.embedding import QueryBatches, QueryEmbedder
from lagotto.testing.embedders import EmbedderContract
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import serving


class TestContract(EmbedderContract):
    @pytest.fixture(params=[False, True], ids=["alone", "in_batches"])
    def embedder(self, request: pytest.FixtureRequest) -> Embedder:
        inner = HashEmbedder()
        return QueryEmbedder(inner, batches=QueryBatches(inner) if request.param else None)


async def test_queries_used_last_are_kept() -> None:
    cache = QueryEmbedder(HashEmbedder(), entries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        vector = await cache.embed([text], role="query")
        np.testing.assert_array_equal(vector, await HashEmbedder().embed([text], role="query"))
    assert (cache.hits, cache.misses) == (2, 4)


def test_no_caller_can_tell_what_another_one_has_asked() -> None:
    """An answer from the cache takes less time."""
    with serving() as own:
        cache = own.state.base.query_cache
        assert cache is not None
        keys = [own.key(), own.key()]
        for key in (*keys, *keys):
            for _ in range(2):
                assert own.post("/v1/retrieve", {"query": "a plan"}, key=key).status_code == 200
        assert (cache.hits, cache.misses) == (6, 2)


async def test_whoever_gets_a_vector_may_change_it() -> None:
    cache = QueryEmbedder(HashEmbedder())
    for _ in range(3):
        vector = await cache.embed(["a"], role="query")
        assert vector.any()
        vector[:] = 0


async def test_documents_go_through() -> None:
    cache = QueryEmbedder(HashEmbedder())
    await cache.embed(["a"], role="document")
    await cache.embed(["a", "b"], role="query")
    assert (cache.hits, cache.misses) == (0, 0)


class Slow(HashEmbedder):
    """Notes its batches, and waits before it embeds one."""

    def __init__(self, error: Exception | None = None, *, seconds: float = 0.05) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.seconds = seconds
        self.seen: list[list[str]] = []
        self.error = error
        self.cancelled = False

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.seen.append(list(texts))
        self.entered.set()
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error:
            raise self.error
        return await super().embed(texts, role=role)


async def test_the_first_goes_at_once_and_the_others_together() -> None:
    inner = Slow()
    batches = QueryBatches(inner, parallel=1)
    found = await asyncio.gather(*(batches.embed(f"q{n}") for n in range(6)))
    assert inner.seen in ([["q0"], [f"q{n}" for n in range(1, 6)]], [[f"q{n}" for n in range(6)]])
    alone = HashEmbedder()
    for number, vector in enumerate(found):
        np.testing.assert_array_equal(vector, await alone.embed([f"q{number}"], role="query"))
    assert batches.batches == len(inner.seen)
    assert batches.waiting == 0


async def test_each_cpu_gets_its_share() -> None:
    """With two of them, two queries are not one batch, and eight are two of four."""
    inner = Slow()
    batches = QueryBatches(inner, parallel=2)
    await asyncio.gather(*(batches.embed(f"q{n}") for n in range(2)))
    assert inner.seen == [["q0"], ["q1"]]
    inner.seen.clear()
    await asyncio.gather(*(batches.embed(f"q{n}") for n in range(8)))
    assert sorted(map(len, inner.seen)) in ([4, 4], [2, 2, 4], [1, 1, 2, 4])


async def test_errors_reach_everybody() -> None:
    batches = QueryBatches(Slow(EmbeddingError("the model is gone")))
    calls = [batches.embed(f"q{n}") for n in range(3)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in found] == [EmbeddingError] * 3


async def test_one_that_leaves_takes_nobody_along() -> None:
    inner = Slow()
    batches = QueryBatches(inner)
    calls = [asyncio.create_task(batches.embed(f"q{n}")) for n in range(3)]
    await inner.entered.wait()
    calls[0].cancel()
    assert len(await calls[1]) == len(await calls[2]) == 1
    assert not inner.cancelled or len(inner.seen) == 2


async def test_if_all_leave_the_model_stops() -> None:
    inner = Slow(seconds=600)
    batches = QueryBatches(inner)
    call = asyncio.create_task(batches.embed("q"))
    await inner.entered.wait()
    call.cancel()
    (running,) = batches._running
    await running
    assert inner.cancelled
    inner.seconds = 0
    assert len(await batches.embed("again")) == 1
