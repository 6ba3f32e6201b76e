"""Contract tests for embedders and tokenizers: inherit, and provide the fixture that they name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Vectors
from lagotto.embedders.base import Embedder, Role

TEXTS = (
    "Stargate Atlantis was cancelled in 2008.",
    "Cats sleep for most of the day.",
    "A longer passage, so that texts of several lengths meet in one batch: the truffle dog of "
    "Romagna was bred for retrieving waterfowl from the marshes of Ravenna and Comacchio.",
    "Short.",
)

AWKWARD_TEXTS = (
    "",
    " ",
    "\n\t\r",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfffy",
    "\ufffd",
    "e\u0301a\u0308",
    "ﬁ ½ ẛ̣ ㍿",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "漢字かな交じり文",
    "مرحبا بالعالم",
    "[CLS] [SEP] [PAD] <s> </s> <|endoftext|>",
    "a" * 10_000,
    "word " * 10_000,
)
"""Texts that tokenizers and embedders are known to fail on."""


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

    @pytest.mark.parametrize("texts", [(), AWKWARD_TEXTS, ("truffle dog " * 90_000,)], ids=len)
    async def test_any_texts(self, embedder: Embedder, texts: tuple[str, ...]) -> None:
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


class TokenizerContract:
    """The contract of `lagotto._internal.tokens.Tokenizer`."""

    def test_is_a_tokenizer(self, tokenizer: Tokenizer) -> None:
        assert isinstance(tokenizer, Tokenizer)
        assert tokenizer.id
        assert tokenizer.id == tokenizer.id.strip()

    def test_counts_words(self, tokenizer: Tokenizer) -> None:
        few, many, none = tokenizer.count(["one two", "one two three four five six", ""])
        assert 2 <= few < many
        assert none == 0

    def test_no_texts(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.count([]) == []
        assert tokenizer.starts([]) == []

    @settings(
        deadline=None,
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
        ],
    )
    @given(texts=st.lists(st.text(st.characters(codec=None)), max_size=4))
    @example(texts=list(AWKWARD_TEXTS))
    def test_any_texts(self, tokenizer: Tokenizer, texts: list[str]) -> None:
        self.check(tokenizer, texts)

    def check(self, tokenizer: Tokenizer, texts: list[str]) -> None:
        """Check these texts, in one call and one by one."""
        counts, starts = tokenizer.count(texts), tokenizer.starts(texts)
        assert counts == [len(item) for item in starts]
        assert counts == [tokenizer.count([text])[0] for text in texts]
        for text, offsets in zip(texts, starts, strict=True):
            assert offsets.dtype == "int64"
            assert offsets.tolist() == sorted(offsets.tolist())
            assert all(0 <= offset < len(text) for offset in offsets)
            assert offsets.tolist() == tokenizer.starts([text])[0].tolist()
