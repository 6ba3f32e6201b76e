from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto.base.ingest import Ingest
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Chunk, Document, Page, Vector
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError, DegradedError
from lagotto.filters import And, Eq, Gte
from lagotto.indexes.text_query import Match, NativeQuery, Phrase, Term, TextQuery, Word
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.prefs import ChunkingPrefs, RetrievalPrefs
from lagotto.retrieval.explain import leg_scores
from lagotto.retrieval.fusion import fuse
from lagotto.retrieval.late import ChunkMaker, index_text, late_candidates
from lagotto.retrieval.recall import LegQueries, QueryPlan, SemanticQuery
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.retrieval.stages import above, cap, document_of, rank
from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.testing.chunk_cache import cache_of
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.strategies import documents as any_documents
from tests.bases import base_of
from tests.counting import CountingEmbedder
from tests.panics import PANICS, PanickingChunker, PanickingEmbedder

TOPICS = ("truffles and oak roots", "the deep lake and its seals", "trains that leave at noon")
CHUNKER = "recursive:16/0"
LATE = RetrievalPrefs(chunking=ChunkingPrefs(strategy="late", chunker_id=CHUNKER))


def book(name: str, *, collection: str = "default") -> Document:
    """Ten sentences about each topic, in an order of its own."""
    sentences = [f"Sentence {n} is about {topic}." for topic in TOPICS for n in range(10)]
    random.Random(name).shuffle(sentences)
    return Document(id=name, collection=collection, language="en", text=" ".join(sentences))


BOOKS = [book("a"), book("b"), book("c"), book("a", collection="other")]


async def written(
    store: Store, embedder: Embedder, documents: Sequence[Document], *, chunker: str = "document"
) -> None:
    cutter = CHUNKERS.create(chunker, tokenizer=embedder.tokenizer)
    await Ingest(store=store, chunker=cutter, vectors=ChunkEmbedder(embedder)).run(documents)


def words(*terms: str) -> TextQuery:
    return TextQuery(tuple((Term(term),) for term in terms))


async def vector_of(embedder: Embedder, text: str) -> Vector:
    (vector,) = await embedder.embed([text], role="query")
    return np.asarray(vector)


@dataclass(frozen=True)
class LateQuery:
    """What chunks are scored by: words, a vector, or both; those that are excluded don't count."""

    text: TextQuery | None = None
    vector: Vector | None = None
    excluded: Match | None = None

    def plan(self, prefs: RetrievalPrefs) -> QueryPlan:
        semantic = None if self.vector is None else SemanticQuery(self.vector)
        legs = LegQueries(semantic, self.text)
        return QueryPlan("keywords", legs, prefs.scoring.weights(), self.excluded)


@dataclass(frozen=True)
class LateItem:
    chunk: Chunk
    document: Document
    score: float
    score_vec: float | None
    score_text: float | None


@dataclass(frozen=True)
class LateEvidence:
    items: list[LateItem]
    counts: Mapping[str, int]


async def evidence(
    store: Store,
    embedder: Embedder,
    query: LateQuery,
    prefs: RetrievalPrefs = LATE,
    *,
    documents: Sequence[Document] = BOOKS,
    chunker_id: str = "document",
    cached: bool = True,
) -> LateEvidence:
    """The candidates through the stages that every candidate goes through."""
    cache = store.chunk_cache if cached else None
    vectors = ChunkEmbedder(embedder)
    maker = ChunkMaker(prefs, chunker_id=chunker_id, vectors=vectors, cache=cache)
    async with store.view(prefs.filters) as view:
        plan = query.plan(prefs)
        source, found = await late_candidates(view, documents, plan, maker)
        fused = fuse(found, plan.weights, prefs.scoring)
        everything = len(found.keys)
        rows = np.arange(everything)
        passages = await source.passages(found.keys)
        ranked = above(
            rank(passages, rows, found, fused.scores, count=everything),
            prefs.scoring.min_score,
        )
    capped = cap(ranked, key=document_of, most=prefs.per_item_chunk_cap)[: prefs.top_k_chunks]
    legs = [leg_scores(item.row, found, fused) for item in capped]
    by_name = {(item.collection, item.id): item for item in documents}
    items = [
        LateItem(
            item.passage.chunk,
            by_name[document_of(item)],
            item.score,
            said["semantic"].score if "semantic" in said else None,
            said["text"].score if "text" in said else None,
        )
        for item, said in zip(capped, legs, strict=True)
    ]
    return LateEvidence(items, +maker.counts)


class Base:
    """A store of whole books, and an embedder that counts."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.embedder = CountingEmbedder()

    async def ask(self, query: LateQuery, prefs: RetrievalPrefs = LATE) -> LateEvidence:
        return await evidence(self.store, self.embedder, query, prefs)

    async def vector(self, text: str) -> Vector:
        return await vector_of(self.embedder, text)


class OnStore:
    """Tests that run on any store; a subclass makes other ones."""

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        """An empty store, open."""
        yield MemoryStore()

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with self.make() as store:
            yield store

    @pytest.fixture
    async def base(self, store: Store) -> Base:
        base = Base(store)
        await written(base.store, base.embedder, BOOKS)
        base.embedder.texts.clear()
        return base


class TestEvidence(OnStore):
    async def test_chunks_are_spans_of_their_documents(self, base: Base) -> None:
        found = await base.ask(LateQuery(words("seal"), await base.vector("seals in the lake")))
        assert len(found.items) == LATE.top_k_chunks
        for item in found.items:
            assert item.document.text[item.chunk.start : item.chunk.end] == item.chunk.text
            assert item.chunk.chunker_id == CHUNKER
            assert "seals" in item.chunk.text

    async def test_scores_add_up(self, base: Base) -> None:
        vector = await base.vector("seals")
        found = await base.ask(LateQuery(words("seal"), vector))
        everything = await base.ask(
            LateQuery(words("seal"), None), LATE.replace(top_k_chunks=10_000)
        )
        best = max(item.score_text or 0.0 for item in everything.items)
        (plain,) = await ChunkEmbedder(base.embedder).embed(
            [(found.items[0].document, [found.items[0].chunk])]
        )
        first = found.items[0]
        assert first.score_vec == pytest.approx(float(plain[0] @ vector), abs=1e-5)
        assert first.score_text is not None
        fused = (max(first.score_vec or 0, 0) + 0.5 * first.score_text / best) / 1.5
        assert first.score == pytest.approx(fused, abs=1e-5)

    async def test_text_scores_are_bm25(self, store: Store) -> None:
        """Two chunks of 5 and 8 words, by hand: mean length 6.5, k1 1.2, b 0.75."""
        embedder = CountingEmbedder()
        text = "red dog red cat cow\n\ngreen dog blue cat blue cat blue cat"
        document = Document(id="x", text=text)
        await written(store, embedder, [document])
        prefs = LATE.replace(chunking={"chunker_id": "recursive:8/0"})
        found = await evidence(
            store, embedder, LateQuery(words("red", "dog")), prefs, documents=[document]
        )
        dog = math.log(1 + 0.5 / 1.5)  # of one chunk that is stored, which holds it
        red = math.log(1 + 1.5 / 1.5)  # of two chunks here, one of which holds it

        def saturated(count: int, length: int) -> float:
            return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 6.5))

        expected = [
            red * saturated(2, 5) + dog * saturated(1, 5),
            dog * saturated(1, 8),
        ]
        assert [item.score_text for item in found.items] == pytest.approx(expected)
        assert [item.score_vec for item in found.items] == [None, None]

    async def test_a_document_gives_no_more_than_its_cap(self, base: Base) -> None:
        query = LateQuery(None, await base.vector("seals"))
        for most in (1, 2, 5):
            found = await base.ask(query, LATE.replace(per_item_chunk_cap=most, top_k_chunks=100))
            names = [(item.document.collection, item.document.id) for item in found.items]
            assert {names.count(name) for name in names} == {most}

    async def test_fewer_are_the_first_of_more(self, base: Base) -> None:
        query = LateQuery(words("lake", "noon"), await base.vector("a train by the lake"))
        many = (await base.ask(query, LATE.replace(top_k_chunks=50))).items
        for count in (1, 4, 11):
            assert (await base.ask(query, LATE.replace(top_k_chunks=count))).items == many[:count]

    async def test_ties_are_settled_by_document_and_place(self, store: Store) -> None:
        embedder = CountingEmbedder()
        same = [Document(id=name, text="One dog. " * 40) for name in ("b", "a")]
        await written(store, embedder, same)
        query = LateQuery(None, await vector_of(embedder, "dog"))
        prefs = LATE.replace(chunking={"chunker_id": "recursive:8/0"})
        found = await evidence(store, embedder, query, prefs, documents=same)
        places = [(item.document.id, item.chunk.start) for item in found.items]
        assert places == sorted(places)
        assert len(places) == 6

    async def test_the_order_of_documents_makes_no_difference(self, base: Base) -> None:
        query = LateQuery(words("oak"), await base.vector("oak"))
        expected = (await base.ask(query)).items
        for documents in (BOOKS[::-1], BOOKS[2:] + BOOKS[:2]):
            found = await evidence(base.store, base.embedder, query, documents=documents)
            assert found.items == expected

    async def test_conditions_of_the_query_count(self, base: Base) -> None:
        phrase = Phrase((("deep", "lake"),))
        text = TextQuery(words("sentenc", "lake").words, where=phrase)
        everything = LATE.replace(top_k_chunks=500, per_item_chunk_cap=500)
        for vector in (None, await base.vector("trains at noon")):
            found = await base.ask(LateQuery(text, vector), everything)
            scored = [item for item in found.items if item.score_text]
            assert scored
            assert all("deep lake" in item.chunk.text for item in scored)
            assert (len(found.items) > len(scored)) == (vector is not None)

    async def test_what_is_excluded_is_no_evidence(self, base: Base) -> None:
        everything = LATE.replace(top_k_chunks=10_000, per_item_chunk_cap=10_000)
        query = LateQuery(None, await base.vector("seals"), excluded=Word(("seal",)))
        found = await base.ask(query, everything)
        assert found.items
        assert not any("seals" in item.chunk.text for item in found.items)

    async def test_filters_on_pages_hold_for_chunks_made_now(self, store: Store) -> None:
        embedder = CountingEmbedder()
        text = "First page about dogs. " * 10 + "Second page about dogs. " * 10
        middle = text.index("Second")
        pages = (Page(start=0, end=middle, number=1), Page(start=middle, end=len(text), number=2))
        document = Document(id="paged", text=text, pages=pages)
        await written(store, embedder, [document])
        prefs = LATE.replace(
            filters=Gte("page", 2), chunking={"chunker_id": "page:16/0"}, top_k_chunks=99
        )
        query = LateQuery(None, await vector_of(embedder, "dogs"))
        found = await evidence(store, embedder, query, prefs, documents=[document])
        assert found.items
        assert all(item.chunk.pages == (2, 2) for item in found.items)

    async def test_a_threshold_leaves_out_what_is_below(self, base: Base) -> None:
        query = LateQuery(None, await base.vector("seals in the lake"))
        everything = LATE.replace(top_k_chunks=10_000, per_item_chunk_cap=10_000)
        scores = [item.score for item in (await base.ask(query, everything)).items]
        least = scores[len(scores) // 2]
        kept = await base.ask(query, everything.replace(scoring={"min_score": least}))
        assert [item.score for item in kept.items] == [one for one in scores if one >= least]

    async def test_a_threshold_of_cosines_holds_for_chunks_made_now(self, base: Base) -> None:
        query = LateQuery(None, await base.vector("seals in the lake"))
        everything = LATE.replace(top_k_chunks=10_000, per_item_chunk_cap=10_000)
        cosines = [item.score_vec or 0.0 for item in (await base.ask(query, everything)).items]
        least = cosines[len(cosines) // 2]
        kept = (await base.ask(query, everything.replace(vector={"min_score": least}))).items
        assert [item.score_vec for item in kept] == [one for one in cosines if one >= least]
        assert 0 < len(kept) < len(cosines)

    async def test_a_threshold_on_the_scale_of_a_server_is_none_of_bm25(self, base: Base) -> None:
        """A server ranks documents; their chunks are ranked here, on another scale."""
        prefs = LATE.replace(fts={"min_rank": 50.0})
        asked = words("seal")
        served = replace(asked, native=NativeQuery("seals", "any", "ts_rank_cd"))
        assert (await base.ask(LateQuery(asked), prefs)).items == []
        found = (await base.ask(LateQuery(served), prefs)).items
        assert found == (await base.ask(LateQuery(asked))).items != []

    async def test_parents_are_no_evidence(self, base: Base) -> None:
        query = LateQuery(words("seal"), await base.vector("seals"))
        prefs = LATE.replace(chunking={"chunker_id": "parent-child:64/16/0"})
        for _ in range(2):  # made, then from the cache
            found = await base.ask(query, prefs)
            assert {item.chunk.level for item in found.items} == {"child"}
        without_vectors = await base.ask(LateQuery(words("seal")), prefs)
        assert {item.chunk.level for item in without_vectors.items} == {"child"}

    async def test_no_documents_and_blank_ones(self, base: Base) -> None:
        query = LateQuery(words("seal"), await base.vector("seals"))
        for documents in ([], [Document(id="blank", text=" \n ")]):
            found = await evidence(base.store, base.embedder, query, documents=documents)
            assert found.items == []

    @settings(
        max_examples=25,
        suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
    )
    @given(
        st.lists(any_documents(), min_size=1, max_size=3),
        st.sampled_from(
            ["recursive:16/4", "sentence:24/0", "heading:16/0", "parent-child:48/16/4"]
        ),
    )
    def test_offsets_are_exact_and_the_cache_changes_nothing(
        self, documents: list[Document], chunker: str
    ) -> None:
        named = [
            document.model_copy(update={"id": str(number)})
            for number, document in enumerate(documents)
        ]
        asyncio.run(self._check(named, chunker))

    async def _check(self, documents: list[Document], chunker: str) -> None:
        embedder = CountingEmbedder()
        prefs = LATE.replace(chunking={"chunker_id": chunker}, top_k_chunks=50)
        query = LateQuery(words("cat", "home"), await vector_of(embedder, "the cat"))
        async with self.make() as store:
            await written(store, embedder, documents)
            cold, warm = [
                await evidence(store, embedder, query, prefs, documents=documents) for _ in range(2)
            ]
        assert warm.items == cold.items
        assert warm.counts.get("chunks_made", 0) == 0
        for item in cold.items:
            assert item.document.text[item.chunk.start : item.chunk.end] == item.chunk.text
            assert 0 <= item.score <= 1


class TestCache(OnStore):
    async def test_the_second_query_embeds_nothing(self, base: Base) -> None:
        first = await base.ask(LateQuery(None, await base.vector("seals")))
        embedded = len(base.embedder.texts)
        second = await base.ask(LateQuery(None, await base.vector("oak")))
        assert len(base.embedder.texts) == embedded == first.counts["chunks_made"]
        assert second.counts == {"chunks_cached": embedded}
        assert first.counts["chunk_sets_kept"] == len(BOOKS)

    @pytest.mark.parametrize(
        "chunking",
        [{"chunker_id": "sentence:16/0"}, {"max_chunk_tokens": 24}, {"include_headers": False}],
    )
    async def test_other_chunks_are_other_entries(
        self, base: Base, chunking: dict[str, object]
    ) -> None:
        query = LateQuery(None, await base.vector("seals"))
        await base.ask(query)
        counts = (await base.ask(query, LATE.replace(chunking=chunking))).counts
        assert counts["chunks_made"] > 0
        assert "chunks_cached" not in counts

    async def test_vectors_of_another_dimension_are_made_again(self, base: Base) -> None:
        """The service behind an address may change the model and keep its name."""
        smaller = HashEmbedder(dimension=16, model_id=base.embedder.info.model_id)
        assert base.embedder.info.dimension != 16
        await base.ask(LateQuery(None, await base.vector("seals")))
        query = LateQuery(None, await vector_of(smaller, "seals"))
        found = await evidence(base.store, smaller, query)
        assert found.items
        assert found.counts.get("chunks_cached", 0) == 0

    async def test_changed_content_is_cut_again(self, base: Base) -> None:
        query = LateQuery(words("seal"), await base.vector("seals"))
        await base.ask(query)
        changed = Document(id="a", language="en", text="Only seals now.")
        await written(base.store, base.embedder, [changed])
        documents = [changed, *BOOKS[1:]]
        found = await evidence(base.store, base.embedder, query, documents=documents)
        assert found.counts["chunks_made"] == 1
        assert found.counts["chunks_cached"] > 0
        assert "Only seals now." in [item.chunk.text for item in found.items]

    async def test_a_store_without_a_cache_will_do(self, base: Base) -> None:
        query = LateQuery(None, await base.vector("seals"))
        bare = await evidence(base.store, base.embedder, query, cached=False)
        assert bare.items == (await base.ask(query)).items
        assert "chunk_sets_kept" not in bare.counts

    async def test_a_cancelled_search_keeps_whole_documents_only(self, store: Store) -> None:
        started = asyncio.Event()

        class Stuck(CountingEmbedder):
            async def embed(self, texts, *, role):  # type: ignore[no-untyped-def]
                if role == "document" and any("stuck" in text for text in texts):
                    started.set()
                    await asyncio.sleep(60)
                return await super().embed(texts, role=role)

        embedder = Stuck()
        finished = Document(id="1", text="A sentence with some words. " * 1_200)
        stuck = Document(id="2", text="This one is stuck. " * 10)
        await written(store, CountingEmbedder(), [finished, stuck])
        query = LateQuery(None, await vector_of(embedder, "words"))
        asked = asyncio.create_task(evidence(store, embedder, query, documents=[finished, stuck]))
        await started.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await cache_of(store).clear() == 1

    async def test_a_document_that_can_not_be_cut_or_embedded_is_left_out_and_noted(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(CHUNKERS._registered, "panicking", lambda *_: PanickingChunker())
        odd = Document(id="odd", text=f"Seals in the deep lake. {PANICS}")
        await written(store, CountingEmbedder(), [odd, *BOOKS[:3]])
        retriever = HybridRetriever(store=store, embedder=PanickingEmbedder())
        for chunker, reason in (("panicking", "the chunker"), (CHUNKER, "the embedder")):
            chunking = {"chunker_id": chunker}
            prefs = LATE.replace(query_text="seals", chunking=chunking, top_k=50)
            found = await retriever.retrieve(prefs)
            assert {hit.document_id for hit in found} == {"a", "b", "c"}
            [note] = found.stats.degraded
            assert note.startswith(f"late chunking: odd is left out ({reason} failed")
            with pytest.raises(DegradedError):
                await retriever.retrieve(prefs.replace(strict=True))


class TestStrategies(OnStore):
    @pytest.fixture
    async def mixed(self, store: Store) -> Base:
        """Two books in the chunks that are asked for, two in others of that size."""
        base = Base(store)
        await written(base.store, base.embedder, BOOKS[:2], chunker=CHUNKER)
        await written(base.store, base.embedder, BOOKS[2:], chunker="sentence:16/0")
        base.embedder.texts.clear()
        return base

    async def test_mixed_takes_stored_chunks_where_they_fit(self, mixed: Base) -> None:
        query = LateQuery(words("seal"), await mixed.vector("seals"))
        late = await mixed.ask(query, LATE.replace(top_k_chunks=100))
        mixed.embedder.texts.clear()
        await cache_of(mixed.store).clear()
        both = await mixed.ask(
            query, LATE.replace(top_k_chunks=100, chunking={"strategy": "mixed"})
        )
        cutter = CHUNKERS.create(CHUNKER, tokenizer=mixed.embedder.tokenizer)
        counts = [len(cutter.chunk(book)) for book in BOOKS]
        assert both.counts["chunks_stored"] == sum(counts[:2])
        assert both.counts["chunks_made"] == len(mixed.embedder.texts) == sum(counts[2:])
        assert {item.chunk.id for item in both.items} == {item.chunk.id for item in late.items}
        for one, two in zip(both.items, late.items, strict=True):
            assert one.score == pytest.approx(two.score, abs=0.02)

    @pytest.mark.parametrize("chunking", [{"max_chunk_tokens": 24}, {"include_headers": False}])
    async def test_mixed_makes_chunks_that_are_not_stored(
        self, mixed: Base, chunking: dict[str, object]
    ) -> None:
        query = LateQuery(None, await mixed.vector("seals"))
        prefs = LATE.replace(chunking={"strategy": "mixed", **chunking})
        assert "chunks_stored" not in (await mixed.ask(query, prefs)).counts

    async def test_precomputed_takes_what_is_stored(self, mixed: Base) -> None:
        retriever = HybridRetriever(store=mixed.store, embedder=mixed.embedder)
        prefs = LATE.replace(query_text="seals", chunking={"strategy": "precomputed"}, top_k=100)
        found = await retriever.retrieve(prefs)
        assert mixed.embedder.texts == []
        stored = [await mixed.store.chunks(book.collection, book.id) for book in BOOKS]
        assert {hit.chunk_id for hit in found} <= {chunk.id for some in stored for chunk in some}
        assert len({(hit.collection, hit.document_id) for hit in found}) == len(BOOKS)

    async def test_filters_hold_for_stored_chunks(self, mixed: Base) -> None:
        query = LateQuery(None, await mixed.vector("seals"))
        where = And(Eq("collection", "default"), Eq("document_id", "a"))
        prefs = LATE.replace(filters=where, chunking={"strategy": "mixed"})
        found = await mixed.ask(query, prefs)
        assert found.counts["chunks_stored"] > 0
        assert {(item.document.collection, item.document.id) for item in found.items} == {
            ("default", "a")
        }


class TestChunker:
    @pytest.mark.parametrize(
        ("own", "chunking", "used"),
        [
            ("recursive:256/32", {}, "recursive:256/32"),
            ("document", {}, "prose:256/32"),
            ("document", {"chunker_id": "sentence"}, "sentence:256/32"),
            ("recursive:256/32", {"max_chunk_tokens": 64}, "recursive:64/16"),
            ("sentence:256/32", {"max_chunk_tokens": 64, "overlap_tokens": 0}, "sentence:64/0"),
        ],
    )
    def test_which_one(self, own: str, chunking: dict[str, object], used: str) -> None:
        prefs, vectors = RetrievalPrefs(chunking=chunking), ChunkEmbedder(HashEmbedder())
        made = ChunkMaker(prefs, chunker_id=own, vectors=vectors, cache=None).chunker
        assert made.id == used

    def test_one_without_sizes_can_not_be_resized(self) -> None:
        prefs = RetrievalPrefs(chunking={"chunker_id": "document", "max_chunk_tokens": 64})
        vectors = ChunkEmbedder(HashEmbedder())
        with pytest.raises(ConfigError, match="leave out max_chunk_tokens"):
            ChunkMaker(prefs, chunker_id="document", vectors=vectors, cache=None)


async def test_ranks_of_late_chunks_follow_their_scores() -> None:
    store, embedder = MemoryStore(), CountingEmbedder()
    await written(store, embedder, BOOKS)
    prefs = LATE.replace(query_text="truffles", mode="semantic", scoring={"blend": "rrf"})
    hits = await HybridRetriever(store=store, embedder=embedder).retrieve(prefs)
    scores = [hit.breakdown.semantic.score for hit in hits if hit.breakdown.semantic]
    assert len(scores) == len(hits) > 5
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]


async def test_stored_chunks_of_a_mixed_search_have_their_parents() -> None:
    store, embedder, chunker = MemoryStore(), CountingEmbedder(), "parent-child:64/16/0"
    await written(store, embedder, BOOKS, chunker=chunker)
    chunking = ChunkingPrefs(strategy="mixed", chunker_id=chunker)
    prefs = RetrievalPrefs(query_text="truffles", chunking=chunking)
    hits = await HybridRetriever(store=store, embedder=embedder).retrieve(prefs)
    assert hits
    assert all(hit.child_id for hit in hits)


async def test_words_alone_are_diverse_too() -> None:
    """Then vectors are made though no leg asks for them."""
    store, embedder = MemoryStore(), CountingEmbedder()
    await written(store, embedder, BOOKS)
    retriever = HybridRetriever(store=store, embedder=embedder)
    prefs = LATE.replace(query_text="truffles lake", mode="keyword")
    plain = await retriever.retrieve(prefs)
    varied = await retriever.retrieve(prefs.replace(diversity={"mmr": 0.3}))
    assert [hit.chunk_id for hit in varied] != [hit.chunk_id for hit in plain]
    assert varied[0].chunk_id == plain[0].chunk_id


async def test_words_find_the_stored_chunks_that_hold_them() -> None:
    store, embedder = MemoryStore(), CountingEmbedder()
    await written(store, embedder, BOOKS, chunker=CHUNKER)
    prefs = LATE.replace(
        query_text="seals", mode="keyword", chunking={"strategy": "mixed"}, top_k=100
    )
    hits = await HybridRetriever(store=store, embedder=embedder).retrieve(prefs)
    assert hits
    assert all("seals" in hit.content for hit in hits)


def test_the_main_language_stands_in_for_an_unknown_one() -> None:
    document = Document(id="a", text="Hunted truffles.")
    chunks = CHUNKERS.create("document", tokenizer=ApproximateTokenizer()).chunk(document)
    (known,) = index_text(document, chunks, headers=False, main_language="en")
    (unknown,) = index_text(document, chunks, headers=False)
    german = document.model_copy(update={"language": "de"})
    (own,) = index_text(german, chunks, headers=False, main_language="en")
    assert list(own.text.terms) == ["hunted", "truffl"]
    assert list(known.text.terms) == ["hunt", "truffl"]
    assert list(unknown.text.terms) == ["hunted", "truffles"]


def test_headers_are_scored_with_the_text_if_they_are_wanted() -> None:
    document = Document(title="Zebra", text="Stripes.", language="en")
    (chunk,) = CHUNKERS.create("document", tokenizer=ApproximateTokenizer()).chunk(document)
    for headers, terms in ((True, {"zebra", "stripe"}), (False, {"stripe"})):
        (indexed,) = index_text(document, [chunk], headers=headers)
        assert set(indexed.text.terms) == terms


async def test_a_wording_changes_no_score_of_the_words() -> None:
    store, embedder = MemoryStore(), CountingEmbedder()
    await written(store, embedder, BOOKS)
    retriever = HybridRetriever(store=store, embedder=embedder)
    prefs = LATE.replace(query_text='"deep lake" truffles', top_k=200)
    plain = await retriever.retrieve(prefs.replace(scoring={"w_exact": 0}))
    found = await retriever.retrieve(prefs)
    assert found[0].breakdown.exact is not None
    for leg in ("text", "semantic"):
        scores = [
            {hit.chunk_id: hit.breakdown.legs()[leg].score for hit in one} for one in (plain, found)
        ]
        assert scores[0] == scores[1] != {}


async def test_what_surrounds_a_chunk_made_now_is_made_now() -> None:
    embedder = CountingEmbedder()
    async with base_of(*BOOKS, embedder=embedder, chunker="sentence:8/0") as base:
        stored = {chunk.id for item in BOOKS[:3] for chunk in await base.chunks(item.id)}
        pack = await base.context(
            "truffles", prefs=LATE, top_k=3, context={"neighbor_same_page": 3}
        )
    assert {chunk.role for chunk in pack.selected_chunks} == {"primary", "sibling"}
    assert stored.isdisjoint(chunk.chunk_id for chunk in pack.selected_chunks)
