from __future__ import annotations

import numpy as np
import pytest

from lagotto.embedders.base import Embedder
from lagotto.server.embedding import QueryCache
from lagotto.testing.embedders import EmbedderContract
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import serving


class TestContract(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return QueryCache(HashEmbedder())


async def test_queries_used_last_are_kept() -> None:
    cache = QueryCache(HashEmbedder(), entries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        vector = await cache.embed([text], role="query")
        np.testing.assert_array_equal(vector, await HashEmbedder().embed([text], role="query"))
    assert (cache.hits, cache.misses) == (2, 4)


def test_no_caller_can_tell_what_another_one_has_asked() -> None:
    """An answer from the cache takes less time."""
    with serving() as own:
        cache = own.state._base.query_cache
        assert cache is not None
        keys = [own.call(own.state.keys.create(name))[0] for name in ("one", "two")]
        for key in (*keys, *keys):
            for _ in range(2):
                assert own.post("/v1/retrieve", {"query": "a plan"}, key=key).status_code == 200
        assert (cache.hits, cache.misses) == (6, 2)


async def test_whoever_gets_a_vector_may_change_it() -> None:
    cache = QueryCache(HashEmbedder())
    for _ in range(3):
        vector = await cache.embed(["a"], role="query")
        assert vector.any()
        vector[:] = 0


async def test_documents_go_through() -> None:
    cache = QueryCache(HashEmbedder())
    await cache.embed(["a"], role="document")
    await cache.embed(["a", "b"], role="query")
    assert (cache.hits, cache.misses) == (0, 0)
