"""Contract tests for embedders: inherit from EmbedderContract and provide an `embedder` fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from lagotto.documents import Vectors
from lagotto.embedders.base import Embedder, Role
from lagotto.testing.tokenizers import AWKWARD_TEXTS, TokenizerContract

TEXTS = (
    "Stargate Atlantis was cancelled in 2008.",
    "Cats sleep for most of the day.",
    "A longer passage, so that texts of several lengths meet in one batch: the truffle dog of "
    "Romagna was bred for retrieving waterfowl from the marshes of Ravenna and Comacchio.",
    "Short.",
)


@pytest.mark.asyncio
class EmbedderContract:
    """Tests of the Embedder protocol.

    They need pytest-asyncio. The fixture should close the embedder it creates. `tolerance` is how
    far the values of a text's vector may differ between calls with different texts.
    """

    tolerance = 1e-5

    async def test_is_an_embedder(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        assert embedder.info == embedder.info

    @pytest.mark.parametrize("role", ["query", "document"])
    async def test_shape_type_and_length(self, embedder: Embedder, role: Role) -> None:
        self.check(await embedder.embed(TEXTS, role=role), embedder, TEXTS)

    async def test_no_texts(self, embedder: Embedder) -> None:
        self.check(await embedder.embed([], role="document"), embedder, [])

    async def test_awkward_texts(self, embedder: Embedder) -> None:
        self.check(await embedder.embed(AWKWARD_TEXTS, role="document"), embedder, AWKWARD_TEXTS)

    async def test_a_megabyte_of_text(self, embedder: Embedder) -> None:
        texts = ["truffle dog " * 90_000]
        self.check(await embedder.embed(texts, role="document"), embedder, texts)

    async def test_the_same_text_gives_the_same_vector(self, embedder: Embedder) -> None:
        first = await embedder.embed(TEXTS, role="document")
        again = await embedder.embed(list(TEXTS), role="document")
        np.testing.assert_array_equal(first, again)

    async def test_neighbours_and_order_make_no_difference(self, embedder: Embedder) -> None:
        together = await embedder.embed(TEXTS, role="document")
        backwards = await embedder.embed(TEXTS[::-1], role="document")
        alone = [await embedder.embed([text], role="document") for text in TEXTS]
        np.testing.assert_allclose(backwards[::-1], together, atol=self.tolerance)
        np.testing.assert_allclose(np.vstack(alone), together, atol=self.tolerance)

    async def test_other_texts_give_other_vectors(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS, role="document")
        cosines = vectors @ vectors.T
        assert (cosines[~np.eye(len(TEXTS), dtype=bool)] < 0.999).all()

    async def test_several_calls_at_once(self, embedder: Embedder) -> None:
        expected = await embedder.embed(TEXTS, role="document")
        calls = (embedder.embed(TEXTS, role="document") for _ in range(4))
        for vectors in await asyncio.gather(*calls):
            np.testing.assert_allclose(vectors, expected, atol=self.tolerance)

    async def test_a_cancelled_call_stops_and_harms_nothing(self, embedder: Embedder) -> None:
        expected = await embedder.embed(TEXTS, role="document")
        call = asyncio.ensure_future(embedder.embed(TEXTS * 50, role="document"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() or len(call.result()) == len(TEXTS) * 50
        np.testing.assert_allclose(
            await embedder.embed(TEXTS, role="document"), expected, atol=self.tolerance
        )

    async def test_closing_twice_and_going_on(self, embedder: Embedder) -> None:
        expected = await embedder.embed(TEXTS, role="document")
        await embedder.close()
        await embedder.close()
        np.testing.assert_array_equal(await embedder.embed(TEXTS, role="document"), expected)

    async def test_its_tokenizer_keeps_its_own_contract(self, embedder: Embedder) -> None:
        TokenizerContract().check(embedder.tokenizer, [*TEXTS, *AWKWARD_TEXTS])

    def check(self, vectors: Vectors, embedder: Embedder, texts: Sequence[str]) -> None:
        """Check shape, type and norm of vectors."""
        assert vectors.shape == (len(texts), embedder.info.dimension)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
