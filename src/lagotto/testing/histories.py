"""The part of the contract of stores that is about their history: writes, removals and searches.

An index that has seen a chunk must learn that it is gone, so there are searches in between.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AbstractAsyncContextManager

import numpy as np
import pytest

from lagotto.documents import Document
from lagotto.filters import And, In
from lagotto.indexes.hits import Hits
from lagotto.stores.base import Store, View
from lagotto.stores.memory import MemoryStore
from lagotto.testing.store_samples import EMBEDDER, entry, text_query

WORDS = ("oak", "lake", "truffle", "dog", "hazel", "otter")
NAMES = tuple("abcdefgh")
STEPS = 12


def changed_document(chance: random.Random, name: str) -> Document:
    """One of a few documents, with another text."""
    text = ". ".join(" ".join(chance.choices(WORDS, k=6)) for _ in range(chance.randint(1, 9)))
    return Document(id=name, text=text, language="en")


class HistoryContract:
    """What a search finds depends on what is stored, not on how it came to be."""

    def make(self) -> AbstractAsyncContextManager[Store]:
        """An empty store, open."""
        raise NotImplementedError

    @pytest.mark.parametrize("seed", range(4))
    async def test_any_history_ends_as_in_the_oracle(self, seed: int) -> None:
        chance = random.Random(seed)
        oracle = MemoryStore()
        async with self.make() as store:
            for _ in range(STEPS):
                names = chance.sample(NAMES, chance.randint(1, 3))
                if chance.random() < 0.6:
                    made = [await entry(changed_document(chance, name)) for name in names]
                    await store.write(made)
                    await oracle.write(made)
                else:
                    gone = await store.delete(In("document_id", names))
                    assert gone == await oracle.delete(In("document_id", names))
                if chance.random() < 0.7:
                    await _compare(store, oracle, chance.choice(WORDS))
            await _compare(store, oracle, "oak lake")


async def _compare(store: Store, oracle: Store, text: str) -> None:
    (vector,) = await EMBEDDER.embed([text], role="query")
    async with store.view(And()) as ours, oracle.view(And()) as theirs:
        near = await ours.semantic(vector, k=99)
        right = await theirs.semantic(vector, k=99)
        assert await _texts(ours, near) == await _texts(theirs, right)
        np.testing.assert_allclose(near.scores, right.scores, atol=1e-5)
        query = text_query(text, ours.languages)
        found = await ours.text(query, k=99)
        assert await _texts(ours, found) == await _texts(theirs, await theirs.text(query, k=99))


async def _texts(view: View, hits: Hits) -> Counter[tuple[str, str]]:
    """The passages of hits, all of which are there."""
    passages = await view.passages(hits.keys)
    assert len(passages) == len(hits)
    return Counter((passage.document.id, passage.chunk.text) for passage in passages)
