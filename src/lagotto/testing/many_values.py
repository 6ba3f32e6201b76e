"""The part of the contract of stores that is about very many values: in a filter, and to delete."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from lagotto.documents import Document, Page
from lagotto.filters import And, Filter, In, NotIn
from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.testing.store_samples import EMBEDDER, entries

MANY = 100_000
SECONDS = 10.0
"""What one question may take, on a busy machine too."""

TEXT = "A page on oaks. A page on lakes."
DOCUMENTS = (
    Document(id="oak", text="Oaks.", metadata={"topic": "trees", "year": 2021}),
    Document(id="lake", text="Lakes.", metadata={"topic": ["water", 7], "year": 0.5}),
    Document(id="true", text="Truth.", metadata={"topic": True, "year": 2**53 + 1}),
    Document(id="one", text="One.", metadata={"topic": 1, "year": [None]}),
    Document(
        id="pages",
        text=TEXT,
        metadata={"topic": None},
        pages=(Page(number=1, start=0, end=16), Page(number=2, start=16, end=len(TEXT))),
    ),
)

NAMES = [f"no-such-{number}" for number in range(MANY)]
NUMBERS = [*range(3_000, 3_000 + MANY), 0.5, *range(1_000, 2_030)]


def filters() -> Iterator[Filter]:
    """Conditions on fields of every kind."""
    yield In("document_id", [*NAMES, "oak"])
    yield NotIn("document_id", [*NAMES, "oak", None])
    yield In("topic", [*NAMES, "trees", "water"])
    yield In("topic", [*NUMBERS, True, 7])
    yield NotIn("topic", [*NAMES, 1, None])
    yield In("year", [*NUMBERS, 2**53])
    yield NotIn("year", [*NUMBERS, None])
    yield In("page", [0.5, 1.5, *range(2, MANY)])
    yield In("page", [0.5, 1.5, -3])
    yield NotIn("page", [0.5, *range(2, MANY)])


class ManyValuesContract:
    """What a store does with as many values as documents in a large base."""

    def make(self) -> AbstractAsyncContextManager[Store]:
        """An empty store, open."""
        raise NotImplementedError

    @pytest.fixture
    async def trees(self) -> AsyncIterator[Store]:
        """A store with documents that differ in what filters ask for."""
        async with self.make() as store:
            await store.write(await entries(DOCUMENTS))
            yield store

    async def test_filters_take_any_number_of_values(self, trees: Store) -> None:
        oracle = MemoryStore()
        await oracle.write(await entries(DOCUMENTS))
        for number, where in enumerate(filters()):
            expected = await _seen(oracle, where)
            started = time.monotonic()
            assert await _seen(trees, where) == expected, number
            assert time.monotonic() - started < SECONDS

    async def test_a_filter_is_asked_twice(self, trees: Store) -> None:
        where = And(In("document_id", [*NAMES, "oak"]), In("year", NUMBERS))
        first = await _seen(trees, where)
        started = time.monotonic()
        assert await _seen(trees, And(*where.filters)) == first
        assert time.monotonic() - started < SECONDS

    async def test_any_number_of_ids_is_deleted(self, trees: Store) -> None:
        started = time.monotonic()
        assert await trees.delete(In("document_id", [*NAMES, "oak", "one"])) == ["oak", "one"]
        assert time.monotonic() - started < SECONDS
        assert (await trees.info()).documents == len(DOCUMENTS) - 2


async def _seen(store: Store, where: Filter) -> tuple[list[str], list[str]]:
    """Ids of the documents that match, and texts of the chunks that a search finds."""
    documents = [document.id async for document in store.documents(where)]
    (vector,) = await EMBEDDER.embed(["oak"], role="query")
    async with store.view(where) as view:
        hits = await view.semantic(vector, k=50)
        return documents, sorted(item.chunk.text for item in await view.passages(hits.keys))
