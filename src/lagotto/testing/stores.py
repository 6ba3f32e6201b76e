"""The contract of stores, as tests: inherit, say how to make yours, and run pytest.

Whatever can be compared is compared with `MemoryStore`, which looks at everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto.documents import Chunk, Document, Page
from lagotto.errors import LagottoError, ModelMismatchError
from lagotto.filters import (
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    Gte,
    In,
    Not,
    matches,
    parse_filter,
)
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.stores.base import Entry, Passage, Store, View, fingerprint
from lagotto.stores.memory import MemoryStore, outline
from lagotto.stores.source_files import SourceFile
from lagotto.testing.filters import FILTERS
from lagotto.testing.filters import documents as filterable_documents
from lagotto.testing.histories import HistoryContract
from lagotto.testing.many_values import ManyValuesContract
from lagotto.testing.store_samples import (
    CHUNKER,
    DOCUMENTS,
    EMBEDDER,
    entries,
    entry,
    text_query,
)
from lagotto.testing.text_queries import TextQueryContract

__all__ = [
    "CHUNKER",
    "DOCUMENTS",
    "EMBEDDER",
    "StoreContract",
    "entries",
    "entry",
    "semantic_ids",
    "text_ids",
    "text_query",
]

ANY_TEXT = (
    "", " ", '"', "a AND (b OR", "NOT -x* ^2 ~", "col:val", "\0", "👩‍👩‍👧", "'; DROP TABLE chunk;",
    "x " * 50_000, "שלום", "*", "\ud800",
)  # fmt: skip


async def found(view: View, hits: Hits) -> list[Passage]:
    """The passages of hits."""
    return await view.passages(hits.keys)


async def text_ids(store: Store, text: str, where: Filter | None = None) -> list[str]:
    """Ids of the documents that a text search finds, best first."""
    async with store.view(where or And()) as view:
        return await _ids(view, await view.text(text_query(text, view.languages), k=10))


async def semantic_ids(store: Store, text: str, where: Filter | None = None) -> list[str]:
    """Ids of the documents whose chunks are nearest, best first."""
    (vector,) = await EMBEDDER.embed([text], role="query")
    async with store.view(where or And()) as view:
        return await _ids(view, await view.semantic(vector, k=10))


class StoreContract(TextQueryContract, ManyValuesContract, HistoryContract):
    """What `lagotto.stores.base.Store` promises. A subclass makes empty, open stores."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """A store with DOCUMENTS in it."""
        async with self.make() as store:
            await store.write(await entries())
            yield store

    async def test_many_documents_are_listed_in_order(self, store: Store) -> None:
        names = [(f"c{number % 3}", f"d{number:03}") for number in range(520)]
        many = [Document(collection=name[0], id=name[1], text="A text.") for name in names]
        await store.write([await entry(document) for document in many])
        where = In("collection", ["c0", "c1", "c2"])
        listed = [(item.collection, item.id) async for item in store.documents(where)]
        assert listed == sorted(names)

    async def test_fields_that_no_document_has_are_noted(self, store: Store) -> None:
        document = Document(id="fields", text="A text.", metadata={"year": 2024, "a": {"b": 1}})
        await store.write([await entry(document)])
        known = {"year": {"$gte": 2020}, "a.b": 1, "a": {"$exists": True}, "title": "x"}
        async with store.view(parse_filter(known)) as view:
            assert view.filter_notes == ()
        async with store.view(parse_filter({"$not": {"yaer": 2024}, "shelf": 7})) as view:
            first, second = view.filter_notes
            assert first == "no document has the field 'shelf'"
            assert second == "no document has the field 'yaer'; did you mean year?"
        async with store.view(And()) as view:
            assert view.filter_notes == ()

    async def test_fields_with_other_kinds_of_values_are_noted(self, store: Store) -> None:
        metadata = {"founded": "2024", "labels": ["a", 1], "seen": True, "sheets": 7}
        await store.write([await entry(Document(id="kinds", text="A text.", metadata=metadata))])
        noted: dict[str, tuple[Mapping[str, object], str]] = {
            "founded": ({"$gte": 2020}, "text, but the filter compares it with numbers"),
            "seen": ({"$in": [1, "yes"]}, "booleans, but the filter compares it with text and"),
            "sheets": ({"$eq": "7"}, "numbers, but the filter compares it with text"),
            "labels": ({"$contains": True}, "text and numbers, but the filter compares it with"),
        }
        for name, (condition, problem) in noted.items():
            async with store.view(parse_filter({name: condition})) as view:
                (note,) = view.filter_notes
            assert note.startswith(f"the field {name!r} holds {problem}")
        without: list[dict[str, object]] = [
            {"$or": [{"founded": 2024}, {"founded": "2024"}]},  # it matches
            {"founded": "2023", "sheets": {"$exists": True}},
            {"founded": {"$in": [2023, "2023"]}},  # one of the kinds is right
            {"labels": 2},
            {"title": "x"},
        ]
        for where in without:
            async with store.view(parse_filter(where)) as view:
                assert view.filter_notes == (), where

    async def test_the_state_of_source_files(self, store: Store) -> None:
        files = store.source_files
        one = SourceFile("/notes/a.md", 2**40, 1_700_000_000_123_456_789, "how", "which")
        two = SourceFile("/notes/ä b.md", 0, None, "how", "which")
        assert await files.load("default") == {}
        await files.save("default", {"/notes/a.md": one, "/notes/b.md": two})
        await files.save("other", {"/notes/a.md": two})
        assert await files.load("default") == {"/notes/a.md": one, "/notes/b.md": two}
        changed = one._replace(size=7)
        await files.save("default", {"/notes/a.md": changed}, gone=["/notes/b.md", "/unknown"])
        assert await files.load("default") == {"/notes/a.md": changed}
        assert await files.load("other") == {"/notes/a.md": two}
        for collection in {document.collection for document in DOCUMENTS}:
            assert sorted(await files.documents(collection)) == sorted(
                (document.id, document.source, document.content_hash, fingerprint(document))
                for document in DOCUMENTS
                if document.collection == collection
            )

    async def test_metadata_given_for_paths(self, store: Store) -> None:
        files = store.source_files
        assert await files.given("default") == {}
        await files.give("default", {"/notes": {"topic": "dogs", "years": [2023, None]}})
        await files.give("default", {"/notes/ä b.md": {"topic": None}})
        await files.give("other", {"/notes": {"topic": "cats"}})
        expected = {"/notes": {"topic": "dogs", "years": [2023, None]}}
        assert await files.given("default") == expected | {"/notes/ä b.md": {"topic": None}}
        await files.give("default", {"/notes": {"topic": "oaks"}})
        assert (await files.given("default"))["/notes"] == {"topic": "oaks"}
        assert await files.given("other") == {"/notes": {"topic": "cats"}}

    async def test_keyed_values(self, store: Store) -> None:
        values = store.keyed_values
        assert await values.get("task", "a") is None
        assert not await values.put("task", "a", {"state": "lost"}, expected=3)
        assert await values.put("task", "a", {"state": "new"}, data=b"\0\xff", expected=0)
        assert not await values.put("task", "a", {"state": "other"}, expected=0)
        assert await values.get("task", "a") == ("a", 1, {"state": "new"})
        assert await values.put("task", "a", {"state": "done"}, expected=1)
        assert not await values.put("task", "a", {"state": "late"}, expected=1)
        assert await values.get("task", "a") == ("a", 2, {"state": "done"})
        assert await values.data("task", "a") == b"\0\xff"
        for value in ({}, {"ü": [1, None]}):
            assert await values.put("task", "b", value)
        assert await values.put("key", "a", {})
        assert await values.items("task") == [
            ("a", 2, {"state": "done"}),
            ("b", 2, {"ü": [1, None]}),
        ]
        assert [item.name for item in await values.items("task", after="a", limit=5)] == ["b"]
        assert [item.name for item in await values.items("task", limit=1)] == ["a"]
        assert await values.data("task", "b") is None
        assert [await values.remove("task", "a") for _ in range(2)] == [True, False]
        assert await values.get("task", "a") is None
        assert await values.get("key", "a") is not None

    async def test_of_writers_at_once_one_succeeds(self, store: Store) -> None:
        values = store.keyed_values
        made = [values.put("task", "c", {"by": number}, expected=0) for number in range(5)]
        assert sum(await asyncio.gather(*made)) == 1
        changed = [values.put("task", "c", {"by": number}, expected=1) for number in range(5)]
        assert sum(await asyncio.gather(*changed)) == 1

    async def test_an_empty_store_finds_nothing(self) -> None:
        async with self.make() as store:
            assert await text_ids(store, "dog") == []
            assert await semantic_ids(store, "dog") == []
            assert (await store.info()).documents == 0
            assert await store.get("default", "dog") is None

    async def test_documents_come_back_whole(self, store: Store) -> None:
        for document in DOCUMENTS:
            assert await store.get(document.collection, document.id) == document

    async def test_documents_are_listed_in_order_without_their_texts(self, store: Store) -> None:
        listed = [document async for document in store.documents(And())]
        expected = sorted(DOCUMENTS, key=lambda item: (item.collection, item.id))
        assert listed == [outline(document) for document in expected]

    async def test_chunks_come_back(self, store: Store) -> None:
        for document in DOCUMENTS:
            assert await store.chunks(document.collection, document.id) == CHUNKER.chunk(document)

    async def test_info_counts(self, store: Store) -> None:
        info = await store.info()
        assert info.documents == len(DOCUMENTS)
        assert info.collections == {"default": 6, "other": 1}
        assert info.chunks == sum(len(CHUNKER.chunk(document)) for document in DOCUMENTS)
        assert (info.languages, info.of_unknown_language) == (("en", "ru"), 3)
        assert (info.model_id, info.chunker_id) == (EMBEDDER.info.model_id, CHUNKER.id)
        assert info.dimension == EMBEDDER.info.dimension

    async def test_indexes_are_brought_up_to_date(self, store: Store) -> None:
        await store.update_indexes()
        for index in (await store.info()).indexes:
            assert index.indexed_up_to == index.changes

    async def test_unknown_language_is_the_main_one_of_the_collection(self) -> None:
        documents = [
            Document(id="short", text="Two marshes."),
            *(Document(id=f"en{number}", text="A lake.", language="en") for number in range(2)),
            Document(id="kurz", collection="de", text="Bäumen."),
            Document(id="de", collection="de", text="Der See.", language="de"),
        ]
        async with self.make() as store:
            await store.write(await entries(documents))
            async with store.view(And()) as view:
                assert list(view.languages) == ["en", "de", None]
                for term, expected in (("marsh", ["short"]), ("baum", ["kurz"]), ("marshes", [])):
                    hits = await view.text(TextQuery(((Term(term),),)), k=9)
                    assert await _ids(view, hits) == expected
            stored = await store.get("default", "short")
            assert stored is not None
            assert stored.language is None

    async def test_a_sound_base_has_no_problems(self, store: Store) -> None:
        for _ in range(2):  # with indexes that no search has made yet, and after one has
            levels = [finding.level for finding in await store.check()]
            assert "ok" in levels
            assert "problem" not in levels
            assert await text_ids(store, "dog")

    async def test_an_empty_base_has_no_problems(self) -> None:
        async with self.make() as store:
            assert "problem" not in [finding.level for finding in await store.check()]

    async def test_words_are_found_in_many_scripts(self, store: Store) -> None:
        assert set(await text_ids(store, "trained to find truffles")) == {"dog", "truffle"}
        assert await text_ids(store, "озёра") == ["ru"]
        assert await text_ids(store, "首都") == ["cjk"]
        assert await text_ids(store, "เมืองหลวง") == ["thai"]
        assert await text_ids(store, "SQLITE_BUSY") == ["code"]
        assert await text_ids(store, "econnrefused!") == ["code"]

    @pytest.mark.parametrize("text", ANY_TEXT, ids=lambda text: ascii(text[:12]))
    async def test_any_text_is_a_query(self, store: Store, text: str) -> None:
        await text_ids(store, text)
        async with store.view(And()) as view:
            await view.corrections([word.text for word in _first_terms(text, view)])

    async def test_a_document_is_replaced_whole(self, store: Store) -> None:
        changed = DOCUMENTS[0].model_copy(update={"text": "Only figs here.", "content_hash": "2"})
        await store.write([await entry(changed)])
        assert await store.get("default", "truffle") == changed
        assert "truffle" not in await text_ids(store, "oak hazel")
        assert await text_ids(store, "figs") == ["truffle"]
        assert (await store.info()).documents == len(DOCUMENTS)

    async def test_metadata_can_change_alone(self, store: Store) -> None:
        changed = DOCUMENTS[0].model_copy(update={"metadata": {"year": 1999}})
        await store.update([changed])
        assert await store.get("default", "truffle") == changed
        assert await text_ids(store, "truffles", Eq("year", 1999)) == ["truffle"]
        assert await text_ids(store, "truffles", Eq("year", 2021)) == []
        version = (await store.versions("default", ["truffle"]))["truffle"]
        assert version.fingerprint == fingerprint(changed)

    @pytest.mark.parametrize(
        "fields", [{"title": "Figs", "content_hash": "2"}, {"language": "de"}, {"id": "nobody"}]
    )
    async def test_an_update_leaves_other_content_alone(
        self, store: Store, fields: dict[str, str]
    ) -> None:
        """Somebody else has written or removed the document meanwhile; that counts."""
        await store.update([DOCUMENTS[0].model_copy(update=fields)])
        assert await store.get("default", "truffle") == DOCUMENTS[0]
        assert await store.get("default", "nobody") is None
        assert await text_ids(store, "figs") == []

    async def test_versions_tell_what_is_stored(self, store: Store) -> None:
        stored = await store.versions("default", ["dog", "nobody"])
        assert list(stored) == ["dog"]
        assert stored["dog"].content_hash == DOCUMENTS[1].content_hash
        assert stored["dog"].made_by == (CHUNKER.id, EMBEDDER.info.model_id)

    async def test_a_document_without_chunks_has_a_version(self, store: Store) -> None:
        empty = Document(id="empty", text="", title="Nothing")
        await store.write([await entry(empty)])
        version = (await store.versions("default", ["empty"]))["empty"]
        assert version == (empty.content_hash, None, fingerprint(empty), None)

    @pytest.mark.parametrize(
        ("where", "gone"),
        [
            (Eq("document_id", "dog"), ["dog", "dog"]),
            (Eq("collection", "other"), ["dog"]),
            (And(Eq("collection", "default"), Gte("year", 2023)), ["code", "dog"]),
            (Eq("title", "nothing like it"), []),
        ],
    )
    async def test_what_is_deleted_is_gone(
        self, store: Store, where: Filter, gone: list[str]
    ) -> None:
        assert sorted(await store.delete(where)) == gone
        left = [document for document in DOCUMENTS if not matches(where, document)]
        assert (await store.info()).documents == len(left)
        remaining = {(item.collection, item.id) for item in left}
        for text in ("dog truffles", "writing connection"):
            async with store.view(And()) as view:
                (vector,) = await EMBEDDER.embed([text], role="query")
                for hits in (
                    await view.text(text_query(text, view.languages), k=50),
                    await view.semantic(vector, k=50),
                ):
                    passages = await found(view, hits)
                    assert len(passages) == len(hits)
                    names = {(item.document.collection, item.document.id) for item in passages}
                    assert names <= remaining

    async def test_vectors_of_another_model_are_refused(self, store: Store) -> None:
        good = await entry(Document(id="new", text="New."))
        alien = Entry(good.document, good.chunks, good.vectors, "another-model")
        with pytest.raises(ModelMismatchError, match="another-model"):
            await store.write([good, alien])
        assert await store.get("default", "new") is None

    async def test_legs_agree_with_the_oracle(self, store: Store) -> None:
        oracle = MemoryStore()
        await oracle.write(await entries())
        filters: list[Filter] = [
            And(),
            Gte("year", 2021),
            Contains("tags", "food"),
            Not(Exists("year")),
            In("collection", ["other"]),
            Eq("draft", True) | Eq("language", "ru"),
        ]
        for where in filters:
            for text in ("truffle dog", "озеро", "writing a connection", "首都 dog"):
                await self._compare(store, oracle, where, text)

    async def _compare(self, store: Store, oracle: Store, where: Filter, text: str) -> None:
        (vector,) = await EMBEDDER.embed([text], role="query")
        async with store.view(where) as ours, oracle.view(where) as theirs:
            assert list(ours.languages) == list(theirs.languages)
            query = text_query(text, ours.languages)
            for k in (1, 3, 50):
                pairs = (
                    (await ours.semantic(vector, k=k), await theirs.semantic(vector, k=k)),
                    (await ours.text(query, k=k), await theirs.text(query, k=k)),
                )
                for mine, right in pairs:
                    assert len(mine) == len(right)
                    np.testing.assert_allclose(
                        mine.scores, right.scores, rtol=self.score_tolerance, atol=1e-5
                    )
            everything = await ours.semantic(vector, k=50)
            await self._check_fill(ours, everything, vector, query)
            assert await _scored(ours, everything) == await _scored(
                theirs, await theirs.semantic(vector, k=50)
            )

    async def _check_fill(
        self, view: View, everything: Hits, vector: np.ndarray[tuple[int], np.dtype[np.float32]],
        query: TextQuery,
    ) -> None:  # fmt: skip
        """Scores that are filled in are those that a search gives."""
        filled = await view.semantic_scores(vector, everything.keys)
        np.testing.assert_allclose(filled, everything.scores, atol=1e-6)
        texts = await view.text(query, k=50)
        scores = await view.text_scores(query, everything.keys)
        expected = dict(zip(texts.keys.tolist(), texts.scores.tolist(), strict=True))
        for key, score in zip(everything.keys.tolist(), scores.tolist(), strict=True):
            assert score == pytest.approx(expected.get(key, 0.0), rel=1e-5)

    @settings(
        max_examples=30,
        deadline=None,
        suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
    )
    @given(st.lists(filterable_documents(), min_size=1, max_size=4), st.lists(FILTERS, max_size=4))
    def test_filters_mean_the_same_everywhere(
        self, documents: list[Document], filters: list[Filter]
    ) -> None:
        asyncio.run(self._check_filters(documents, filters))

    async def _check_filters(self, documents: list[Document], filters: list[Filter]) -> None:
        """Each filter lets through what the evaluator says, in both legs and in lists."""
        named = [
            document.model_copy(update={"id": str(number)})
            for number, document in enumerate(documents)
        ]
        (vector,) = await EMBEDDER.embed(["some text"], role="query")
        query = TextQuery(((Term("text"),),))
        async with self.make() as store:
            await store.write(await entries(named))
            for where in filters:
                listed = [document.id async for document in store.documents(where)]
                assert listed == [item.id for item in named if matches(where, item)]
                allowed = {
                    item.id for item in named if matches(where, item, CHUNKER.chunk(item)[0])
                }
                async with store.view(where) as view:
                    assert set(await _ids(view, await view.semantic(vector, k=10))) == allowed
                    assert set(await _ids(view, await view.text(query, k=10))) == allowed

    async def test_misspelt_words_are_mended(self, store: Store) -> None:
        async with store.view(And()) as view:
            known, misspelt = await view.corrections(["dog", "romagnollo"])
            assert known == ()
            assert "romagnolo" in [term.text for term in misspelt]

    async def test_similar_words_are_those_of_the_oracle(self, store: Store) -> None:
        oracle = MemoryStore()
        await oracle.write(await entries())
        words = ["romagnollo", "dog", "trufle", "zzz", ""]
        async with store.view(And()) as view, oracle.view(And()) as right:
            for threshold in (0.3, 0.6):
                found = await view.similar(words, threshold=threshold)
                expected = await right.similar(words, threshold=threshold)
                assert list(map(set, found)) == list(map(set, expected))

    async def test_vectors_come_back(self, store: Store) -> None:
        written = {
            chunk.id: vector
            for each in await entries()
            for chunk, vector in zip(each.chunks, each.vectors, strict=True)
        }
        async with store.view(And()) as view:
            (query,) = await EMBEDDER.embed(["any"], role="query")
            keys = (await view.semantic(query, k=50)).keys
            passages = await view.passages(keys)
            expected = np.array([written[passage.chunk.id] for passage in passages])
            np.testing.assert_array_equal(await view.vectors(keys), expected)
            assert len(await view.vectors(keys[:0])) == 0

    async def test_the_chunks_of_documents_are_known(self, store: Store) -> None:
        names = [("default", "dog"), ("other", "dog"), ("default", "ru"), ("default", "nobody")]
        async with store.view(Eq("collection", "default")) as view:
            stored = await view.stored(names)
            for collection, name in (names[0], names[2]):
                chunks = stored[collection, name]
                passages = await view.passages(chunks.keys)
                expected = await store.chunks(collection, name)
                assert [passage.chunk for passage in passages] == expected
                assert chunks[1:] == (CHUNKER.id, EMBEDDER.info.model_id)
            assert not len(stored[names[1]].keys)  # the filter allows none of them
            assert names[3] not in stored

    async def test_children_find_their_parents(self) -> None:
        async with self.make() as store:
            document = Document(
                id="long", text=" ".join(f"Sentence number {n}." for n in range(60))
            )
            await store.write([await entry(document, chunker_id="parent-child:64/16/0")])
            chunks = await store.chunks("default", "long")
            children = [chunk for chunk in chunks if chunk.level == "child"]
            async with store.view(And()) as view:
                parents = await view.parents(children)
                assert {child.parent_id for child in children} == set(parents)
                assert set(parents.values()) <= set(chunks)
                hits = await view.text(text_query("sentence", view.languages), k=100)
                passages = await found(view, hits)
                assert {passage.chunk.level for passage in passages} == {"child"}

    @pytest.mark.parametrize(("page", "count"), [(1, 1), (2, 1), (3, 1), (4, 0)])
    async def test_a_chunk_is_on_all_of_its_pages(
        self, store: Store, page: int, count: int
    ) -> None:
        """Also on one between its first and its last."""
        pages = tuple(Page(number=n, start=4 * n - 4, end=4 * n) for n in (1, 2, 3))
        await store.write([await entry(Document(text="one two six ", pages=pages))])
        async with store.view(In("page", (page, 99))) as view:
            assert len(await view.text(text_query("two", view.languages), k=9)) == count

    @pytest.mark.parametrize("chunker", ["page:8/0", "recursive:8/2", "parent-child:24/8/0"])
    async def test_neighbours_are_those_of_the_oracle(self, chunker: str) -> None:
        oracle = MemoryStore()
        made = [await entry(_paged(name), chunker_id=chunker) for name in ("one", "two")]
        await oracle.write(made)
        async with self.make() as store:
            await store.write(made)
            async with store.view(Gte("page", 3)) as view, oracle.view(And()) as right:
                for near, across in ((0, 0), (1, 0), (0, 2), (2, 1), (99, 99)):
                    for asked in (made[0].chunks[3:5], [made[0].chunks[0], made[1].chunks[-1]], []):
                        found = await view.neighbours(asked, near=near, across=across)
                        expected = await right.neighbours(asked, near=near, across=across)
                        assert found == expected
                        assert all(chunk in found for chunk in asked)
                nobody = made[0].chunks[0].model_copy(update={"document_id": "nobody"})
                assert await view.neighbours([nobody], near=1, across=1) == []

    async def test_searches_see_whole_documents_while_others_write(self, store: Store) -> None:
        versions = [
            Document(id="moving", text=f"Version {word}. " * 30, metadata={"word": word})
            for word in ("alpha", "beta")
        ]
        ready = [await entry(document) for document in versions]

        async def write() -> None:
            for turn in range(20):
                await store.write([ready[turn % 2]])

        async def read() -> None:
            for _ in range(20):
                chunks = await store.chunks("default", "moving")
                assert len(set(map(_words, chunks))) <= 1
                await text_ids(store, "alpha beta")

        await asyncio.gather(write(), read(), read())

    async def test_closing_twice_is_fine(self) -> None:
        async with self.make() as store:
            await store.close()
            await store.close()

    async def test_a_failed_write_leaves_everything_as_it_was(self, store: Store) -> None:
        good = await entry(Document(id="new", text="New."))
        broken = Entry(good.document, good.chunks, good.vectors[:0], good.model_id)
        with pytest.raises((LagottoError, ValueError)):
            await store.write([broken])
        assert await store.get("default", "new") is None
        assert (await store.info()).documents == len(DOCUMENTS)
        await store.write([good])
        assert await store.get("default", "new") == good.document


async def _ids(view: View, hits: Hits) -> list[str]:
    return list(dict.fromkeys(item.document.id for item in await found(view, hits)))


def _words(chunk: Chunk) -> str:
    return "alpha" if "alpha" in chunk.text else "beta"


def _first_terms(text: str, view: View) -> list[Term]:
    return [word[0] for word in text_query(text, view.languages).words]


async def _scored(view: View, hits: Hits) -> dict[str, float]:
    passages = await found(view, hits)
    pairs = zip(passages, hits.scores.tolist(), strict=True)
    return {passage.chunk.id: round(score, 4) for passage, score in pairs}


def _paged(name: str) -> Document:
    """Five pages of three sentences each; the third page is blank."""
    sentences = "".join(f"Sentence {number} of the page here. " for number in range(3))
    text, pages = "", []
    for number in range(1, 6):
        page = " " if number == 3 else sentences
        pages.append(Page(start=len(text), end=len(text) + len(page), number=number))
        text += page
    return Document(id=name, text=text, pages=tuple(pages))
