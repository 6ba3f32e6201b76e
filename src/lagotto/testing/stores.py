"""The contract of stores, as tests: inherit, say how to make yours, and run pytest."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagotto import errors
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Block, Document, Page, Span, in_context
from lagotto.errors import ReplaceRefusedError, StoreBusyError
from lagotto.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    Gt,
    Gte,
    In,
    Ne,
    Not,
    NotIn,
    Or,
    matches,
    parse_filter,
)
from lagotto.indexes.base import ChunkKeys, Hits
from lagotto.indexes.bm25 import CountedTerms
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
    holds,
    single_words,
)
from lagotto.stores import base
from lagotto.stores.base import Entry, NewValue, Store, View, WriteGuard
from lagotto.stores.memory import MemoryStore, outline
from lagotto.terms import content_terms, query_terms
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.strategies import FILTERS, SLOW, filterable_documents

EMBEDDER = HashEmbedder(dimension=32)
CHUNKER = CHUNKERS.create("recursive:24/4", tokenizer=EMBEDDER.tokenizer)

DOCUMENTS = (
    Document(
        id="truffle",
        title="Truffles",
        language="en",
        metadata={"year": 2021, "tags": ["food"]},
        text="Truffles grow on the roots of oak and hazel. A trained dog finds them by smell.",
    ),
    Document(
        id="dog",
        title="Lagotto Romagnolo",
        language="en",
        metadata={"year": 2023},
        text="The Lagotto is a water dog from Romagna that is trained to find truffles.",
    ),
    Document(
        id="code",
        title="Errors",
        language="en",
        metadata={"year": 2023, "draft": True},
        text="SQLITE_BUSY means that another connection is writing. ECONNREFUSED is not.",
    ),
    Document(
        id="ru",
        title="Байкал",
        language="ru",
        metadata={"year": 2020},
        text="Байкал самое глубокое озеро на Земле. В озере живут нерпы и омули.",
    ),
    Document(id="cjk", title="東京", text="東京都は日本の首都です。人口は約千四百万人。"),
    Document(id="thai", text="กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
    Document(id="dog", collection="other", title="Elsewhere", text="A dog somewhere else."),
)


async def entry(document: Document, *, chunker_id: str = CHUNKER.id) -> Entry:
    """A document ready to be written."""
    chunker = CHUNKERS.create(chunker_id, tokenizer=EMBEDDER.tokenizer)
    chunks = chunker.chunk(document)
    texts = [in_context(document.title, item.text) for item in chunks if item.level != "parent"]
    vectors = await EMBEDDER.embed(texts, role="document")
    return Entry(document, chunks, vectors, EMBEDDER.info.model_id)


async def entries(documents: Sequence[Document] = DOCUMENTS) -> list[Entry]:
    """Documents ready to be written."""
    return [await entry(document) for document in documents]


async def oracle_of(documents: Sequence[Document] = DOCUMENTS) -> MemoryStore:
    """The oracle with some documents."""
    oracle = MemoryStore()
    await oracle.write(await entries(documents))
    return oracle


def text_query(text: str, languages: Sequence[str | None]) -> TextQuery:
    """Any of the content words of `text`."""
    words = content_terms(query_terms(text, languages))
    return TextQuery(tuple(tuple(map(Term, word.variants)) for word in words))


WORDS = ("oak", "lake", "truffle", "dog", "hazel", "otter")
NAMES = tuple("abcdefgh")
STEPS = 12


def changed_document(chance: random.Random, name: str) -> Document:
    """One of a few documents, with another text."""
    text = ". ".join(" ".join(chance.choices(WORDS, k=6)) for _ in range(chance.randint(1, 9)))
    return Document(id=name, text=text, language="en")


MANY = 100_000
"""Values of a condition: as many as documents in a large base."""

TEXT = "A page on oaks. A page on lakes."
MANY_DOCUMENTS = (
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

MANY_NAMES = [f"no-such-{number}" for number in range(MANY)]
NUMBERS = [*range(3_000, 3_000 + MANY), 0.5, *range(1_000, 2_030)]


def filters() -> Iterator[Filter]:
    """Conditions on fields of every kind."""
    yield In("document_id", [*MANY_NAMES, "oak"])
    yield NotIn("document_id", [*MANY_NAMES, "oak", None])
    yield In("topic", [*MANY_NAMES, "trees", "water"])
    yield In("topic", [*NUMBERS, True, 7])
    yield NotIn("topic", [*MANY_NAMES, 1, None])
    yield In("year", [*NUMBERS, 2**53])
    yield NotIn("year", [*NUMBERS, None])
    yield In("page", [0.5, 1.5, *range(2, MANY)])
    yield In("page", [0.5, 1.5, -3])
    yield NotIn("page", [0.5, *range(2, MANY)])


WIDE = 1_100
"""Conditions side by side: more than the depth of an expression that SQLite takes."""


def wide_filters() -> Iterator[Filter]:
    """Many conditions of different kinds; as many as are merged, and as are not."""
    yield Or(*(Eq("topic", name) for name in (*MANY_NAMES[:20_000], "trees", None)))
    yield And(*(Ne("year", number) for number in (*NUMBERS[:20_000], 2021)))
    yield Or(*(And(Eq("year", 2021 - n), Exists("topic")) for n in range(MAX_CONDITIONS // 2)))
    yield And(*(Not(Contains("topic", name)) for name in MANY_NAMES[:WIDE]), Exists("year"))
    yield Or(*(Gt("page", number) for number in range(1, WIDE)), Eq("title", "no"))
    yield _nested(MAX_DEPTH - 1, each=16)
    yield _nested(MAX_DEPTH - 1, each=1)
    negated: Filter = Contains("topic", "tree")
    for level in range(MAX_DEPTH // 2):  # as deep as filters can be, every other level a negation
        negated = Not(Or(Eq(f"no-{level}", 1), negated))
    yield negated


def _nested(depth: int, *, each: int) -> Filter:
    """A filter as deep as filters can be, with many conditions at every level."""
    result: Filter = Eq("topic", "trees")
    for level in range(depth):
        junction, leaf = (And, Ne) if level % 2 else (Or, Eq)
        result = junction(result, *(leaf(f"no-{level}-{number}", 1) for number in range(each)))
    return result


CHANGING_TOLERANCE = 0.5

FILTER_NOTES: list[tuple[Mapping[str, object], *tuple[str, ...]]] = [
    ({},),
    ({"year": {"$gte": 2020}, "a.b": 1, "a": {"$exists": True}, "title": "x"},),
    (
        {"$not": {"yaer": 2024}, "rack": 7},
        "no document has the field 'rack'",
        "no document has the field 'yaer'; did you mean year?",
    ),
    (
        {"collection": "handbook"},
        "no document has collection 'handbook'; did you mean 'handbooks'?",
    ),
    ({"kind": "tetx"}, "no document has kind 'tetx'; did you mean 'text'?"),
    ({"language": "eng"}, "no document has language 'eng'"),
    ({"topic": {"$in": ["dosg"]}}, "no document has topic 'dosg'; did you mean 'dogs'?"),
    ({"topic": "turbines"},),
    ({"topic": {"$in": ["dosg", "dogs"]}},),
    ({"topic": "dogs", "collection": "default"},),
    ({"topic": {"$ne": "dosg"}, "collection": "elsewhere"},),
    (
        {"founded": {"$gte": 2020}},
        "the field 'founded' holds text, but the filter compares it with numbers",
    ),
    (
        {"seen": {"$in": [1, "yes"]}},
        "the field 'seen' holds booleans, but the filter compares it with text and",
    ),
    (
        {"sheets": {"$eq": "7"}},
        "the field 'sheets' holds numbers, but the filter compares it with text",
    ),
    (
        {"labels": {"$contains": True}},
        "the field 'labels' holds text and numbers, but the filter compares it with",
    ),
    ({"$or": [{"founded": 2024}, {"founded": "2024"}]},),  # it matches
    ({"founded": "2023", "sheets": {"$exists": True}},),
    ({"founded": {"$in": [2023, "2023"]}},),  # one of the kinds is right
    ({"labels": 2},),
]
"""Filters, and how the notes on them begin."""


QUERY_WORDS = ("a", "ab", "b", "b1", "ц", "цаб", "京")
ODD = ("", "A", "a b", 'a"', "a*", "a.", "(", "\\", "-b", "a\0", "\ud800", "NOT", "terms:a")
"""What can't be a term, and means something to some engine."""

EVERYTHING = 50

NO_WORD, A_WORD = (
    Document(id=name, text=f"{name}.", metadata={"even": True}) for name in ("-", "a")
)
"""Chunks with less than one term on average."""

terms = st.sampled_from(QUERY_WORDS)
query_words = st.sampled_from(QUERY_WORDS * 2 + ODD)
several = st.lists(query_words, max_size=3).map(tuple)
leaves: st.SearchStrategy[Match] = st.one_of(
    several.map(Word), query_words.map(Prefix), st.lists(several, max_size=2).map(tuple).map(Phrase)
)


def combined(inner: st.SearchStrategy[Match]) -> st.SearchStrategy[Match]:
    """All, some or none of several conditions."""
    parts = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(parts.map(Every), parts.map(Either), inner.map(Without))


MATCHES: st.SearchStrategy[Match] = st.recursive(leaves, combined, max_leaves=6)
weighed = st.builds(Term, query_words, st.sampled_from([0.5, 1.0, 2.0]))
ALTERNATIVES = st.lists(st.lists(weighed, max_size=2).map(tuple), max_size=3).map(tuple)
TEXTS = st.lists(terms, max_size=8).map(" ".join)


@st.composite
def corpora(draw: st.DrawFn) -> list[Document]:
    """Documents of a chunk each, every other one `even`."""
    texts = draw(st.lists(st.tuples(TEXTS, st.none() | terms), min_size=1, max_size=6))
    return [
        Document(id=str(number), text=f"{text}.", title=title, metadata={"even": number % 2 == 0})
        for number, (text, title) in enumerate(texts)
    ]


def terms_of(document: Document) -> CountedTerms:
    """The index terms of a document of one chunk."""
    return CountedTerms.of(in_context(document.title, document.text), document.language)


ANY_TEXT = (
    "", " ", '"', "a AND (b OR", "NOT -x* ^2 ~", "col:val", "\0", "👩‍👩‍👧", "'; DROP TABLE chunk;",
    "x " * 50_000, "שלום", "*", "\ud800",
)  # fmt: skip


async def text_ids(store: Store, text: str | TextQuery, where: Filter | None = None) -> list[str]:
    """Ids of the documents that a text search finds, best first."""
    async with store.view(where or And()) as view:
        query = text_query(text, view.languages) if isinstance(text, str) else text
        return await _ids(view, await view.text(query, k=10))


async def semantic_ids(store: Store, text: str, where: Filter | None = None) -> list[str]:
    """Ids of the documents whose chunks are nearest, best first."""
    (vector,) = await EMBEDDER.embed([text], role="query")
    async with store.view(where or And()) as view:
        return await _ids(view, await view.semantic(vector, k=10))


class StoreContract:
    """What `lagotto.stores.base.Store` promises. A subclass makes empty, open stores."""

    score_tolerance = 1e-4
    """How far text scores may be from the oracle's, as a share of them."""

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        """An empty store, open."""
        raise NotImplementedError
        yield

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """A store with DOCUMENTS in it."""
        async with self.make() as store:
            await store.write(await entries())
            yield store

    @pytest.fixture
    async def trees(self) -> AsyncIterator[Store]:
        """A store with documents that differ in what filters ask for."""
        async with self.make() as store:
            await store.write(await entries(MANY_DOCUMENTS))
            yield store

    async def test_documents_are_listed_in_order_without_their_texts(self, store: Store) -> None:
        names = [(f"c{number % 3}", f"d{number:03}") for number in range(520)]
        many = [Document(collection=name[0], id=name[1], text="A text.") for name in names]
        await store.write(await entries(many))
        everything: list[tuple[Filter, Sequence[Document]]] = [
            (And(), (*DOCUMENTS, *many)),
            (In("collection", ["c0", "c1", "c2"]), many),
        ]
        for where, documents in everything:
            listed = [document async for document in store.documents(where)]
            ordered = sorted(documents, key=lambda item: (item.collection, item.id))
            assert listed == [outline(document) for document in ordered]

    async def test_filters_that_can_not_match_are_noted(self, store: Store) -> None:
        metadata = {"founded": "2024", "labels": ["a", 1], "seen": True, "sheets": 7}
        kinds = Document(id="kinds", text="A text.", metadata={**metadata, "a": {"b": 1}})
        topics = Document(collection="handbooks", text=".", metadata={"topic": ["dogs", "oaks"]})
        await store.write(await entries([kinds, topics]))
        for where, *starts in FILTER_NOTES:
            async with store.view(parse_filter(where)) as view:
                assert len(view.filter_notes) == len(starts), where
                assert all(map(str.startswith, view.filter_notes, starts)), where

    async def test_the_state_of_source_files(self, store: Store) -> None:
        files = store.source_files
        one = base.SourceFile("/notes/a.md", 2**40, 1_700_000_000_123_456_789, "how", "which")
        two = base.SourceFile("/notes/ä b.md", 0, None, "how", "which")
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
                (document.id, document.source, document.content_hash, base.fingerprint(document))
                for document in DOCUMENTS
                if document.collection == collection
            )

    async def test_metadata_given_for_paths(self, store: Store) -> None:
        files = store.source_files
        assert await files.path_metadata("default") == {}
        await files.set_path_metadata(
            "default", {"/notes": {"topic": "dogs", "years": [2023, None]}}
        )
        await files.set_path_metadata("default", {"/notes/ä b.md": {"topic": None}})
        await files.set_path_metadata("other", {"/notes": {"topic": "cats"}})
        expected = {"/notes": {"topic": "dogs", "years": [2023, None]}}
        assert await files.path_metadata("default") == expected | {"/notes/ä b.md": {"topic": None}}
        await files.set_path_metadata("default", {"/notes": {"topic": "oaks"}})
        assert (await files.path_metadata("default"))["/notes"] == {"topic": "oaks"}
        assert await files.path_metadata("other") == {"/notes": {"topic": "cats"}}

    async def test_an_unfinished_copy_is_marked(self, store: Store) -> None:
        before = await store.config()
        await store.mark_copy("elsewhere.db")
        await store.write(await entries())
        assert (await store.config()).unfinished_copy_of == "elsewhere.db"
        await store.mark_copy(None)
        assert await store.config() == before

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

    async def test_keyed_values_that_are_created_together(self, store: Store) -> None:
        values = store.keyed_values
        await values.create([NewValue("file", "f", {"of": "t"}, b"\0"), NewValue("task", "t", {})])
        assert await values.get("file", "f") == ("f", 1, {"of": "t"})
        assert await values.data("file", "f") == b"\0"
        assert await values.get("task", "t") == ("t", 1, {})
        assert await values.data("task", "t") is None
        assert await values.put("task", "t", {"state": "done"}, expected=1)

    async def test_what_a_guard_hides_is_not_replaced(self, store: Store) -> None:
        mine, theirs = (
            Document(id="shared", text=f"The text of {tenant}.", metadata={"tenant": tenant})
            for tenant in ("x", "y")
        )
        free = Document(id="free", text="A text.", metadata={"tenant": "x"})
        guard = WriteGuard(Eq("tenant", "x"))
        await store.write([await entry(theirs)], guard=guard)  # there is nothing to replace
        for refused in (
            store.write([await entry(free), await entry(mine)], guard=guard),
            store.write([await entry(mine)], guard=WriteGuard(Or())),
            store.update([theirs.model_copy(update={"title": "T"})], guard=guard),
        ):
            with pytest.raises(ReplaceRefusedError) as caught:
                await refused
            assert caught.value.names == {("default", "shared")}
        assert await store.get("default", "shared") == theirs
        assert await store.get("default", "free") is None
        await store.write([await entry(mine), await entry(free)], guard=WriteGuard())
        titled = mine.model_copy(update={"source": "s"})
        await store.update([titled], guard=guard)
        assert await store.get("default", "shared") == titled

    async def test_of_tenants_that_write_one_document_at_once_one_succeeds(
        self, store: Store
    ) -> None:
        tenants = [
            Document(id="new", text=f"The text of {name}.", metadata={"tenant": name})
            for name in "abcd"
        ]
        writes = [
            store.write(
                [await entry(document)], guard=WriteGuard(Eq("tenant", document.metadata["tenant"]))
            )
            for document in tenants
        ]
        done = await asyncio.gather(*writes, return_exceptions=True)
        (winner,) = [item for item, end in zip(tenants, done, strict=True) if end is None]
        assert sum(isinstance(end, ReplaceRefusedError) for end in done) == 3
        assert await store.get("default", "new") == winner

    async def test_nothing_is_written_under_a_lost_lease(self, store: Store) -> None:
        document, values = Document(id="leased", text="A text."), store.keyed_values
        guard = WriteGuard(lease=base.Lease("task", "t", "me"))
        for owner in (None, "another"):
            if owner is not None:
                await values.put("task", "t", {"owner": owner})
            with pytest.raises(StoreBusyError, match="another process has taken over the task t"):
                await store.write([await entry(document)], guard=guard)
        assert await store.get("default", "leased") is None
        await values.put("task", "t", {"owner": "me"})
        await store.write([await entry(document)], guard=guard)
        assert await store.get("default", "leased") == document

    async def test_chunks_of_a_document_that_matches(self, store: Store) -> None:
        document = Document(id="cut", text="A text. " * 200, metadata={"tenant": "x"})
        await store.write([await entry(document)])
        every = await store.chunks("default", "cut")
        assert every
        assert await store.chunks("default", "cut", where=Eq("tenant", "x")) == every
        assert await store.chunks("default", "cut", where=Eq("tenant", "y")) == []

    async def test_of_writers_at_once_one_succeeds(self, store: Store) -> None:
        values = store.keyed_values
        writes = [values.put("task", "c", {"by": number}, expected=0) for number in range(5)]
        assert sum(await asyncio.gather(*writes)) == 1
        changed = [values.put("task", "c", {"by": number}, expected=1) for number in range(5)]
        assert sum(await asyncio.gather(*changed)) == 1

    async def test_an_empty_store_finds_nothing(self) -> None:
        async with self.make() as store:
            assert await text_ids(store, "dog") == []
            assert await semantic_ids(store, "dog") == []
            assert (await store.info()).documents == 0
            assert await store.get("default", "dog") is None
            assert "problem" not in [finding.level for finding in await store.check()]
            async with store.view(And()) as view:
                nothing = await view.excluding(Word(("a",)))
                assert len(await nothing.text(TextQuery((), Every(())), k=5)) == 0
                assert np.isfinite(await view.idf([Word(("a",))])).all()

    async def test_documents_and_chunks_come_back_whole(self, store: Store) -> None:
        for document in DOCUMENTS:
            assert await store.get(document.collection, document.id) == document
            assert await store.chunks(document.collection, document.id) == CHUNKER.chunk(document)

    async def test_info_counts(self, store: Store) -> None:
        info = await store.info()
        assert info.documents == len(DOCUMENTS)
        assert info.collections == {"default": 6, "other": 1}
        assert info.chunks == sum(len(CHUNKER.chunk(document)) for document in DOCUMENTS)
        assert (info.languages, info.of_unknown_language) == (("en", "ru"), 3)
        assert tuple(info.by_language) == info.languages
        assert sum(info.by_language.values()) == info.documents - 3
        assert (info.model_id, info.chunker_id) == (EMBEDDER.info.model_id, CHUNKER.id)
        assert info.dimension == EMBEDDER.info.dimension

    async def test_indexes_are_brought_up_to_date(self, store: Store) -> None:
        await store.update_indexes()
        for index in (await store.info()).indexes:
            assert index.applied_seq == index.changes

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
                assert await text_ids(store, TextQuery(((Term(term),),))) == expected
            stored = await store.get("default", "short")
            assert stored is not None
            assert stored.language is None

    async def test_synonyms_are_seen_by_the_next_view(self, store: Store) -> None:
        """Setting them writes no document, but what views have cached must not hide them."""
        values = store.keyed_values
        for groups in ([["a", "b"]], [["a", "b"], ["c", "d"]]):
            await values.put(base.SYNONYMS, "default", {"groups": groups})
            async with store.view(And()) as view:
                synonyms = [list(group) for group in view.synonyms["default"].groups]
                assert synonyms == groups
                assert len((await view.text(TextQuery(((Term("dog"),),)), k=9)).keys)
        await values.remove(base.SYNONYMS, "default")
        async with store.view(And()) as view:
            assert not view.synonyms

    async def test_a_sound_base_has_no_problems(self, store: Store) -> None:
        for _ in range(2):  # with indexes that no search has made yet, and after one has
            levels = [finding.level for finding in await store.check()]
            assert "ok" in levels
            assert "problem" not in levels
            assert await text_ids(store, "dog")

    async def test_words_are_found_in_many_scripts(self, store: Store) -> None:
        assert set(await text_ids(store, "trained to find truffles")) == {"dog", "truffle"}
        assert await text_ids(store, "озёра") == ["ru"]
        assert await text_ids(store, "首都") == ["cjk"]
        assert await text_ids(store, "เมืองหลวง") == ["thai"]
        assert await text_ids(store, "SQLITE_BUSY") == ["code"]
        assert await text_ids(store, "econnrefused!") == ["code"]

    async def test_rows_are_found_by_the_header_of_their_table(self, store: Store) -> None:
        lines = ["Torques of bolts:", "Bolt | Newtonmetre", *(f"b{n} | {n}" for n in range(90))]
        text, spans, start = "\n".join(lines), list[Span](), 0
        for line in lines:
            spans.append(Span(start, start + len(line)))
            start += len(line) + 1
        block = Block(start=spans[1].start, end=len(text), kind="table", parts=tuple(spans[1:]))
        await store.write([await entry(Document(id="bolts", text=text, blocks=(block,)))])
        chunks = await store.chunks("default", "bolts")
        assert {chunk.context for chunk in chunks[1:]} == {"\n".join(lines[:2])}
        assert len(chunks) > 3
        async with store.view(And()) as view:
            for word in ("newtonmetre", "torque"):
                hits = await view.text(text_query(word, view.languages), k=90)
                assert len(hits.keys) == len(chunks)
            read = await view.passages(hits.keys)
            assert all(text[one.chunk.start : one.chunk.end] == one.chunk.text for one in read)

    @pytest.mark.parametrize("text", ANY_TEXT, ids=lambda text: ascii(text[:12]))
    async def test_any_text_is_a_query(self, store: Store, text: str) -> None:
        await text_ids(store, text)
        async with store.view(And()) as view:
            words = text_query(text, view.languages).words
            await view.corrections([alternatives[0].text for alternatives in words])

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
        assert version.fingerprint == base.fingerprint(changed)

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

        empty = Document(id="empty", text="", title="Nothing")
        await store.write([await entry(empty)])
        version = (await store.versions("default", ["empty"]))["empty"]
        assert version == (empty.content_hash, None, base.fingerprint(empty), None)

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
        remaining = {item.ref for item in DOCUMENTS if not matches(where, item)}
        assert (await store.info()).documents == len(remaining)
        async with store.view(And()) as view:
            query = text_query("dog truffles writing connection", view.languages)
            for keys in ((await view.text(query, k=50)).keys, await _keys(view)):
                passages = await view.passages(keys)
                assert len(passages) == len(keys)
                assert {item.document.ref for item in passages} <= remaining

    async def test_vectors_of_another_model_are_refused(self, store: Store) -> None:
        good = await entry(Document(id="new", text="New."))
        alien = Entry(good.document, good.chunks, good.vectors, "another-model")
        with pytest.raises(errors.ModelMismatchError, match="another-model"):
            await store.write([good, alien])
        assert await store.get("default", "new") is None

    async def test_legs_agree_with_the_oracle(self, store: Store) -> None:
        oracle = await oracle_of()
        filters: list[Filter] = [
            And(),
            Gte("year", 2021),
            Contains("tags", "food"),
            Not(Exists("year")),
            In("collection", ["other"]),
            Eq("draft", True) | Eq("language", "ru"),
        ]
        texts = ("truffle dog", "озеро", "writing a connection", "首都 dog")
        for where, text in product(filters, texts):
            await self._compare(store, oracle, where, text)

    async def _compare(
        self, store: Store, oracle: Store, where: Filter, text: str, *, changing: bool = False
    ) -> None:
        """Scores of words may differ while chunks go: an index counts them until it is merged."""
        of_words = CHANGING_TOLERANCE if changing else self.score_tolerance
        (vector,) = await EMBEDDER.embed([text], role="query")
        async with store.view(where) as ours, oracle.view(where) as theirs:
            assert list(ours.languages) == list(theirs.languages)
            query = text_query(text, ours.languages)
            for k in (1, 3, EVERYTHING):
                near, right = await ours.semantic(vector, k=k), await theirs.semantic(vector, k=k)
                np.testing.assert_allclose(near.scores, right.scores, atol=1e-5)
                hits, best = await ours.text(query, k=k), await theirs.text(query, k=k)
                np.testing.assert_allclose(hits.scores, best.scores, rtol=of_words)
            expected = pytest.approx(await _scored(theirs, right), abs=1e-5)
            assert await _scored(ours, near) == expected
            assert await _scored(ours, hits) == pytest.approx(
                await _scored(theirs, best), rel=of_words
            )
            filled = await ours.semantic_scores(vector, near.keys)
            np.testing.assert_allclose(filled, near.scores, atol=1e-6)
            await _check_fill(ours, query, hits)

    @settings(SLOW, max_examples=30)
    @given(st.lists(filterable_documents(), min_size=1, max_size=4), st.lists(FILTERS, max_size=4))
    async def test_filters_mean_the_same_everywhere(
        self, documents: list[Document], filters: list[Filter]
    ) -> None:
        """Each filter lets through what the evaluator says, in both legs and in lists."""
        named = [
            document.model_copy(update={"id": str(number)})
            for number, document in enumerate(documents)
        ]
        query = TextQuery(((Term("text"),),))
        async with self.make() as store:
            await store.write(await entries(named))
            for where in filters:
                listed = [document.id async for document in store.documents(where)]
                assert listed == [item.id for item in named if matches(where, item)]
                allowed = {
                    item.id for item in named if matches(where, item, CHUNKER.chunk(item)[0])
                }
                assert set(await semantic_ids(store, "some text", where)) == allowed
                assert set(await text_ids(store, query, where)) == allowed

    async def test_hidden_words_correct_nothing(self, store: Store) -> None:
        """As if the documents that the filter leaves out were not there."""
        oracle = MemoryStore()
        hidden = ["zenithcorp", "zenithcore", "marginally"]
        for number, text in enumerate(["zenithal view", "marginal notes", *hidden]):
            tenant = "b" if text in hidden else "a"
            metadata = {"tenant": tenant}
            document = Document(id=f"t{number}", text=text, language="en", metadata=metadata)
            await store.write([await entry(document)])
            if tenant == "a":
                await oracle.write([await entry(document)])
        words = ["zenithcorp", "zenithc", "margnal", "zenithal", "marginally", "zzz"]
        async with store.view(Eq("tenant", "a")) as view, oracle.view(And()) as right:
            assert await view.corrections(words) == await right.corrections(words)
            for threshold in (0.1, 0.5):
                similar = await view.similar(words, threshold=threshold)
                assert similar == await right.similar(words, threshold=threshold)
        async with store.view(And()) as view:
            (terms,) = await view.corrections(["zenithc"])
            assert {"zenithcorp", "zenithcor"} & {term.text for term in terms}

    async def test_misspelt_and_similar_words(self, store: Store) -> None:
        oracle = await oracle_of()
        words = ["romagnollo", "dog", "trufle", "zzz", ""]
        async with store.view(And()) as view, oracle.view(And()) as right:
            misspelt, correct, *_ = await view.corrections(words)
            assert "romagnolo" in [term.text for term in misspelt]
            assert correct == ()
            for threshold in (0.3, 0.6):
                similar = await view.similar(words, threshold=threshold)
                expected = await right.similar(words, threshold=threshold)
                assert list(map(set, similar)) == list(map(set, expected))

    async def test_vectors_come_back(self, store: Store) -> None:
        vectors = {
            chunk.id: vector
            for each in await entries()
            for chunk, vector in zip(each.chunks, each.vectors, strict=True)
        }
        async with store.view(And()) as view:
            keys = await _keys(view)
            passages = await view.passages(keys)
            expected = np.array([vectors[passage.chunk.id] for passage in passages])
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
                passages = await view.passages(hits.keys)
                assert {passage.chunk.level for passage in passages} == {"child"}

    @pytest.mark.parametrize(("page", "count"), [(1, 1), (2, 1), (3, 1), (4, 0)])
    async def test_a_chunk_is_on_all_of_its_pages(
        self, store: Store, page: int, count: int
    ) -> None:
        """Also on one between its first and its last."""
        pages = tuple(Page(number=n, start=4 * n - 4, end=4 * n) for n in (1, 2, 3))
        await store.write([await entry(Document(text="one two six ", pages=pages))])
        assert len(await text_ids(store, "two", In("page", (page, 99)))) == count

    @pytest.mark.parametrize("chunker", ["page:8/0", "recursive:8/2", "parent-child:24/8/0"])
    async def test_neighbours_are_those_of_the_oracle(self, chunker: str) -> None:
        oracle = MemoryStore()
        pair = [await entry(_paged(name), chunker_id=chunker) for name in ("one", "two")]
        await oracle.write(pair)
        async with self.make() as store:
            await store.write(pair)
            async with store.view(Gte("page", 3)) as view, oracle.view(And()) as right:
                for near, across in ((0, 0), (1, 0), (0, 2), (2, 1), (99, 99)):
                    for some in (pair[0].chunks[3:5], [pair[0].chunks[0], pair[1].chunks[-1]], []):
                        neighbours = await view.neighbours(some, near=near, across=across)
                        expected = await right.neighbours(some, near=near, across=across)
                        assert neighbours == expected
                        assert all(chunk in neighbours for chunk in some)
                nobody = pair[0].chunks[0].model_copy(update={"document_id": "nobody"})
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
                assert len({"alpha" in chunk.text for chunk in chunks}) <= 1
                await text_ids(store, "alpha beta")

        await asyncio.gather(write(), read(), read())

    async def test_closing_twice_is_fine(self) -> None:
        async with self.make() as store:
            await store.close()
            await store.close()

    async def test_a_failed_write_leaves_everything_as_it_was(self, store: Store) -> None:
        good = await entry(Document(id="new", text="New."))
        broken = Entry(good.document, good.chunks, good.vectors[:0], good.model_id)
        with pytest.raises((errors.LagottoError, ValueError)):
            await store.write([broken])
        assert await store.get("default", "new") is None
        assert (await store.info()).documents == len(DOCUMENTS)
        await store.write([good])
        assert await store.get("default", "new") == good.document

    @settings(SLOW, max_examples=30)
    @given(
        corpora(),
        st.lists(st.tuples(ALTERNATIVES, st.none() | MATCHES), max_size=6),
        st.lists(MATCHES, max_size=3),
    )
    @example([NO_WORD, A_WORD], [(((Term("a", 0.5),),), None)], [])
    async def test_conditions_mean_the_same_everywhere(
        self,
        documents: list[Document],
        conditions: list[tuple[tuple[tuple[Term, ...], ...], Match | None]],
        excluded: list[Match],
    ) -> None:
        oracle, queries = MemoryStore(), [TextQuery(*parts) for parts in conditions]
        async with self.make() as store:
            for each in (oracle, store):
                await each.write(await entries(documents))
            for where in (And(), Eq("even", True)):
                async with store.view(where) as ours, oracle.view(where) as right:
                    allowed = [item for item in documents if matches(where, item)]
                    for query in queries:
                        await self._check_query(ours, right, query, allowed)
                    for match in excluded:
                        rest = [item for item in allowed if not holds(match, terms_of(item).terms)]
                        view, right_view = await ours.excluding(match), await right.excluding(match)
                        assert await _everything(view) == {item.id for item in rest}
                        for query in queries:
                            await self._check_query(view, right_view, query, rest)

    async def _check_query(
        self, ours: View, oracle: View, query: TextQuery, allowed: Sequence[Document]
    ) -> None:
        """What is found, with which score, in which order, and what is filled in."""
        hits = await ours.text(query, k=EVERYTHING)
        names = await _names(ours, hits.keys)
        assert set(names) == {item.id for item in allowed if terms_of(item).found_by(query)}
        right = await oracle.text(query, k=EVERYTHING)
        expected = dict(zip(await _names(oracle, right.keys), right.scores, strict=True))
        scores = np.array([expected[name] for name in names], np.float32)
        np.testing.assert_allclose(hits.scores, scores, rtol=self.score_tolerance)
        order = np.lexsort((hits.keys, -hits.scores))
        assert order.tolist() == list(range(len(hits)))
        for k in (1, 2):
            first = await ours.text(query, k=k)
            assert first.keys.tolist() == hits.keys[:k].tolist()
        await _check_fill(ours, query, hits)

    async def test_a_variant_scores_no_more_than_its_word(self) -> None:
        texts = ["tea pots", "tea pot", "tea pot", "tea pot", "tea", "tea"]
        documents = [Document(id=str(n), text=text, title="x") for n, text in enumerate(texts)]
        word = TextQuery(((Term("pots"), Term("pot")),))
        async with self.make() as store:
            await store.write(await entries(documents))
            async with store.view(And()) as view:
                hits = await view.text(word, k=EVERYTHING)
                plain = await view.text(TextQuery(((Term("pots"),),)), k=1)
        # Each holds the word once in 3 terms; 4 of 6 chunks hold it, and mean length is 16 / 6.
        expected = math.log(1 + 2.5 / 4.5) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / (16 / 6)))
        assert hits.scores.tolist() == pytest.approx([expected] * 4, rel=self.score_tolerance)
        assert plain.scores[0] > 2 * expected

    async def test_conditions_may_be_nested_deeply(self, store: Store) -> None:
        match: Match = Word(("dog",))
        for _ in range(40):
            match = Without(Either((Every((Prefix("x"), Word(("nobody",)))), Without(match))))
        assert set(await text_ids(store, TextQuery((), match))) == {"dog", "truffle"}

    async def test_rarities_are_exact(self, store: Store) -> None:
        oracle = await oracle_of()
        terms = ["dog", "truffl", "a", "nowhere", "", "озер", "\ud800"]
        words = [*single_words(terms), Word(("dog", "озер")), Word(("dog", "nowhere")), Word(())]
        for each in (oracle, store):
            await each.delete(Eq("document_id", "truffle"))
        for where in (And(), Eq("document_id", "ru")):
            async with store.view(where) as ours, oracle.view(where) as right:
                assert list(await ours.idf(words)) == list(await right.idf(words))
                assert (await ours.idf([])).shape == (0,)

    async def test_a_view_without_something_leaves_the_first_one_as_it_is(
        self, store: Store
    ) -> None:
        async with store.view(And()) as view:
            everything = await _everything(view)
            less = await view.excluding(Word(("dog",)))
            least = await less.excluding(Word(("connect",)))
            assert await _everything(less) == everything - {"dog", "truffle"}
            assert await _everything(least) == everything - {"dog", "truffle", "code"}
            assert await _everything(view) == everything

    async def test_sources_come_whole(self, store: Store) -> None:
        names = [item.ref for item in reversed(DOCUMENTS)]
        async with store.view(Eq("document_id", "ru")) as view:
            refs = [names[0], ("default", "nobody"), *names[1:], ("'", '"')]
            assert await view.sources(refs) == list(reversed(DOCUMENTS))
            assert await view.sources([]) == []

    @pytest.mark.parametrize("some", [filters, wide_filters])
    async def test_filters_may_be_long_and_wide_and_deep(
        self, trees: Store, some: Callable[[], Iterator[Filter]]
    ) -> None:
        oracle = await oracle_of(MANY_DOCUMENTS)
        for number, where in enumerate(some()):
            expected = await _seen(oracle, where)
            assert expected[0] or some is filters, number
            for _ in range(2):  # the second time from a cache, where there is one
                assert await _seen(trees, where) == expected, number

    async def test_too_many_conditions_are_refused(self, trees: Store) -> None:
        for field in ("year", "page"):
            where = Or(*(Gt(field, number) for number in range(MAX_CONDITIONS + 1)))
            with pytest.raises(errors.FilterError, match=f"has {MAX_CONDITIONS + 1} conditions"):
                await _seen(trees, where)
            with pytest.raises(errors.FilterError, match="conditions"):
                async with trees.view(where):
                    pass
            with pytest.raises(errors.FilterError, match="conditions"):
                await trees.delete(where)
        assert (await trees.info()).documents == len(MANY_DOCUMENTS)

    async def test_any_number_of_ids_is_deleted(self, trees: Store) -> None:
        assert await trees.delete(In("document_id", [*MANY_NAMES, "oak", "one"])) == ["oak", "one"]
        assert (await trees.info()).documents == len(MANY_DOCUMENTS) - 2

    @pytest.mark.parametrize("seed", range(4))
    async def test_any_history_ends_as_in_the_oracle(self, seed: int) -> None:
        chance = random.Random(seed)
        oracle = MemoryStore()
        async with self.make() as store:
            for _ in range(STEPS):
                names = chance.sample(NAMES, chance.randint(1, 3))
                if chance.random() < 0.6:
                    batch = [await entry(changed_document(chance, name)) for name in names]
                    await store.write(batch)
                    await oracle.write(batch)
                else:
                    gone = await store.delete(In("document_id", names))
                    assert gone == await oracle.delete(In("document_id", names))
                if chance.random() < 0.7:
                    await self._compare(store, oracle, And(), chance.choice(WORDS), changing=True)
            await self._compare(store, oracle, And(), "oak lake", changing=True)


async def _check_fill(view: View, query: TextQuery, hits: Hits) -> None:
    """Scores that are filled in are those that a search gives, and 0 for what it does not find."""
    everything = await _keys(view)
    scores = dict(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True))
    filled = await view.text_scores(query, everything)
    expected = [scores.get(key, 0.0) for key in everything.tolist()]
    assert filled.tolist() == pytest.approx(expected, rel=1e-5)


async def _keys(view: View) -> ChunkKeys:
    (vector,) = await EMBEDDER.embed(["any"], role="query")
    return (await view.semantic(vector, k=EVERYTHING)).keys


async def _everything(view: View) -> set[str]:
    return set(await _names(view, await _keys(view)))


async def _names(view: View, keys: ChunkKeys) -> list[str]:
    passages = await view.passages(keys)
    assert len(passages) == len(keys)
    return [item.document.id for item in passages]


async def _seen(store: Store, where: Filter) -> tuple[list[str], list[str]]:
    """Ids of the documents that match, and texts of the chunks that a search finds."""
    documents = [document.id async for document in store.documents(where)]
    async with store.view(where) as view:
        passages = await view.passages(await _keys(view))
        return documents, sorted(item.chunk.text for item in passages)


async def _ids(view: View, hits: Hits) -> list[str]:
    return list(dict.fromkeys(await _names(view, hits.keys)))


async def _scored(view: View, hits: Hits) -> dict[str, float]:
    passages = await view.passages(hits.keys)
    pairs = zip(passages, hits.scores.tolist(), strict=True)
    return {passage.chunk.id: score for passage, score in pairs}


def _paged(name: str) -> Document:
    """Five pages of three sentences each; the third page is blank."""
    sentences = "".join(f"Sentence {number} of the page here. " for number in range(3))
    text, pages = "", []
    for number in range(1, 6):
        page = " " if number == 3 else sentences
        pages.append(Page(start=len(text), end=len(text) + len(page), number=number))
        text += page
    return Document(id=name, text=text, pages=tuple(pages))
