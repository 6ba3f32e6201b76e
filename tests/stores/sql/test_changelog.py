"""What indexes behind a network read of the change log: texts, vectors and fields by key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from lagotto.documents import Document, Page, Vectors
from lagotto.filters import Eq, In
from lagotto.indexes.base import ChunkFields
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.statements import FINDABLE_KEYS, ReadConnection
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.stores import entry
from tests.stores.sqlite.bases import sqlite_store

PAPER = Document(
    id="paper",
    collection="wiki",
    title="Truffles",
    text="Where dogs find truffles.",
    language="en",
    metadata={"year": 2024, "score": 0.5, "tags": ["a", "b"], "open": True, "by": {"name": "Ada"}},
)


@asynccontextmanager
async def written(*documents: Document) -> AsyncIterator[SqliteStore]:
    async with sqlite_store() as store:
        await store.write([await entry(document) for document in documents])
        yield store


def all_fields(connection: ReadConnection) -> list[ChunkFields]:
    return SqlChangeLog(connection).fields_of(FINDABLE_KEYS.keys(connection))


async def test_fields_are_those_that_filters_know() -> None:
    async with written(PAPER) as store:
        (found,) = await store.ask(all_fields)
    assert found.collection == "wiki"
    values = {name: found.values[name] for name in ("year", "score", "tags", "open", "by.name")}
    assert values == {
        "year": (2024,),
        "score": (0.5,),
        "tags": ("a", "b"),
        "open": (True,),
        "by.name": ("Ada",),
    }
    assert [type(found.values[name][0]) for name in ("year", "score", "open")] == [int, float, bool]
    assert found.values["document_id"] == ("paper",)
    assert found.values["title"] == ("Truffles",)
    assert "summary" not in found.values
    assert "by" not in found.values


async def test_texts_and_vectors_of_keys() -> None:
    other = Document(id="other", text="Marshes and lakes.", language="en")
    async with written(PAPER, other) as store:

        def read(connection: ReadConnection) -> tuple[list[str], Vectors, Vectors]:
            changes, keys = SqlChangeLog(connection), FINDABLE_KEYS.keys(connection)
            asked = np.append(keys[::-1], 10_000)
            texts = sorted(chunk.text for chunk in changes.texts_of(asked))
            there, vectors = changes.vectors_of(asked, model_id="hash", dimension=32)
            all_keys, rows = changes.added_vectors(0, 1_000, model_id="hash", dimension=32)
            assert there.tolist() == keys.tolist()
            return texts, vectors, rows[np.argsort(all_keys)]

        texts, vectors, rows = await store.ask(read)
    assert texts == ["Marshes and lakes.", "Truffles\n\nWhere dogs find truffles."]
    assert np.array_equal(vectors, rows)


async def test_other_metadata_is_a_change_of_its_own() -> None:
    async with written(PAPER, Document(id="other", text="Marshes.")) as store:

        def state(connection: ReadConnection) -> tuple[int, list[int]]:
            changes = SqlChangeLog(connection)
            return changes.head.seq, changes.updated(0, changes.head.seq).tolist()

        before, nothing = await store.ask(state)
        await store.update([PAPER.model_copy(update={"metadata": {"year": 2025}})])
        after, updated = await store.ask(state)
        assert (nothing, after) == ([], before + 1)
        fields = {item.key: item for item in await store.ask(all_fields)}
        (key,) = updated
        assert fields[key].values["year"] == (2025,)
        assert "tags" not in fields[key].values
        later = await store.ask(lambda c: SqlChangeLog(c).updated(after, after + 5).tolist())
        assert later == []
        await store.delete(Eq("document_id", "paper"))
        assert (await store.ask(state))[1] == []


async def test_ranges_and_what_was_removed_in_them() -> None:
    made = [Document(id=f"d{n}", text="word", language="en" if n else None) for n in range(5)]
    async with written(*made) as store:

        def ranges(connection: ReadConnection) -> list[list[tuple[int, int]]]:
            changes = SqlChangeLog(connection)
            assert (changes.token_at(0), changes.token_at(99)) == (0, None)
            first, second, *_ = changes.added_texts(0, 5)
            assert (first.language, first.detected) == ("en", None), "that of most documents"
            assert (second.language, second.detected) == ("en", "en")
            asked = ((0, 2), (0, 5), (0, 4), (3, 5), (5, 5))
            return [list(changes.ranges(since=since, at_once=most)) for since, most in asked]

        found = await store.ask(ranges)
        assert found == [[(0, 2), (2, 4), (4, 5)], [(0, 5)], [(0, 4), (4, 5)], [(3, 5)], []]
        await store.delete(In("document_id", ["d1", "d3"]))

        def removed(connection: ReadConnection) -> list[list[int]]:
            changes = SqlChangeLog(connection)
            asked = ((0, 7), (5, 7), (5, 7), (7, 7), (0, 5))
            return [changes.removed(start, stop).tolist() for start, stop in asked]

        assert await store.ask(removed) == [[2, 4], [2, 4], [2, 4], [], []]


@pytest.mark.parametrize("pages", [1, 3])
async def test_pages_of_a_chunk(pages: int) -> None:
    spans = [Page(start=5 * n, end=5 * n + 5, number=n + 1) for n in range(pages)]
    document = Document(id="paged", text="word " * pages, pages=tuple(spans))
    async with written(document) as store:
        (found,) = await store.ask(all_fields)
    assert found.values["page"] == tuple(range(1, pages + 1))
