from __future__ import annotations

import numpy as np
import pytest

from lagotto.testing.embedders import EmbedderContract
from lagotto.testing.hash_embedder import HashEmbedder


class TestHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashEmbedder:
        return HashEmbedder()


async def test_similar_texts_get_similar_vectors() -> None:
    query, near, far = await HashEmbedder(dimension=256).embed(
        ["truffle dogs of Romagna", "A truffle dog from Romagna", "Interest rates rose again"],
        role="document",
    )
    assert query @ near > 0.4 > 0.2 > query @ far


async def test_vectors_stay_what_they_are() -> None:
    (vector,) = await HashEmbedder(dimension=4).embed(["Truffle"], role="document")
    np.testing.assert_allclose(vector, [-0.300963, 0.0, -0.904698, 0.301566], atol=1e-5)
