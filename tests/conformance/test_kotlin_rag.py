"""The Kotlin design: modes, RRF or weighted fusion, optional reranker. Preset `kotlin-rag`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagotto.documents import Chunk, Document
from lagotto.errors import ConfigError, StoreError, UnknownNameError
from lagotto.filters import And, Eq, Gt
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers import create_reranker
from lagotto.results import ScoreBreakdown
from lagotto.retrieval.builder import RetrieverBuilder
from lagotto.retrieval.fusion import fuse
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.memory import MemoryStore, MemoryView
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.rerank_server import rerank_route
from lagotto.testing.server import Reply, ScriptedServer
from lagotto.testing.stores import EMBEDDER as ENTRIES
from lagotto.testing.stores import entry
from tests.conformance.lists import DOCUMENTS, LONG, candidates, named

EMBEDDER = HashEmbedder(dimension=64)
KOTLIN = RetrievalPrefs.preset("kotlin-rag")


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, prefs="kotlin-rag") as base:
        await base.add(*DOCUMENTS)
        for document in DOCUMENTS:
            await base.add(document.model_copy(update={"collection": "my-collection"}))
        yield base


def test_retrieval_config_defaults() -> None:
    """kotlin-rag 1: topK 10, hybrid, no reranker, no filter, parent context."""
    assert KOTLIN.top_k == 10
    assert KOTLIN.mode == "hybrid"
    assert KOTLIN.rerank.reranker is None
    assert KOTLIN.filters == And()
    assert KOTLIN.parents.mode == "section"


async def test_modes(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 2: semantic by vectors only, keyword by words only, hybrid by both."""
    for mode, legs in (
        ("semantic", {"semantic"}),
        ("keyword", {"text"}),
        ("hybrid", {"semantic", "text"}),
    ):
        found = await base.retrieve("logging configuration", prefs=KOTLIN.replace(mode=mode))
        assert found
        assert {leg for hit in found for leg in hit.breakdown.legs()} == legs


def test_hybrid_config_defaults() -> None:
    """kotlin-rag 3: semantic 0.7, keyword 0.3, RRF; here RRF honours the weights."""
    scoring = KOTLIN.scoring
    assert (scoring.w_vec, scoring.w_text, scoring.blend) == (0.7, 0.3, "rrf")
    found = candidates(semantic="ab", text="ba")
    fused = named(fuse(found, scoring.weights(), scoring).raw, found)
    assert fused["a"] > fused["b"]


def test_two_fusion_methods() -> None:
    """kotlin-rag 4: RRF and WEIGHTED (linear here)."""
    weighted = KOTLIN.replace(scoring={"blend": "linear", "normalize": "none"})
    assert weighted.scoring.blend == "linear"
    with pytest.raises(ConfigError, match=r"scoring\.blend"):
        KOTLIN.replace(scoring={"blend": "max"})


def test_reciprocal_ranks() -> None:
    """kotlin-rag 5: 1 / (60 + rank + 1) from rank 0, which is 1 / (60 + rank) from rank 1.

    With equal weights a (first, second) has 1/61 + 1/62 and c (third in one list) has 1/63.
    """
    scoring = KOTLIN.replace(scoring={"w_vec": 1.0, "w_text": 1.0}).scoring
    found = candidates(semantic="abc", text="ba")
    raw = named(fuse(found, scoring.weights(), scoring).raw, found)
    assert raw["a"] == pytest.approx(1 / 61 + 1 / 62)
    assert raw["b"] == pytest.approx(1 / 62 + 1 / 61)
    assert raw["c"] == pytest.approx(1 / 63)


def test_weighted_fusion() -> None:
    """kotlin-rag 6: score * weight, added up, without normalisation: 0.9 * 0.7 + 2 * 0.3 = 1.23."""
    scoring = KOTLIN.replace(scoring={"blend": "linear", "normalize": "none"}).scoring
    found = candidates(semantic={"a": 0.9, "b": 0.5}, text={"a": 2.0, "c": 4.0})
    fused = fuse(found, scoring.weights(), scoring)
    raw = named(fused.raw, found)
    assert raw["a"] == pytest.approx(1.23)
    assert raw["b"] == pytest.approx(0.35)
    assert raw["c"] == pytest.approx(1.2)
    assert max(fused.scores) == 1.0


async def test_score_breakdown(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 7: semantic, keyword and rerank score of each result, None where not used."""
    (hit, *_) = await base.retrieve("configure logging", mode="keyword")
    assert isinstance(hit.breakdown, ScoreBreakdown)
    assert hit.breakdown.semantic is None
    assert hit.breakdown.text is not None
    assert hit.breakdown.rerank is None
    (hit, *_) = await base.retrieve("configure logging", rerank={"reranker": "overlap"})
    assert hit.breakdown.semantic is not None
    assert hit.breakdown.rerank == 1.0


async def test_search_result(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 8: the chunk, its score, its breakdown."""
    (hit, *_) = await base.retrieve("configure logging", collection="my-collection")
    (chunk,) = await base.chunks("guide", collection="my-collection")
    assert (hit.chunk_id, hit.content, hit.start, hit.end) == (
        chunk.id, chunk.text, chunk.start, chunk.end,
    )  # fmt: skip
    assert hit.score == hit.breakdown.fused_score


async def test_collections(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 9: only the collection that is asked for."""
    found = await base.retrieve("logging", collection="my-collection")
    assert {hit.collection for hit in found} == {"my-collection"}


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
async def test_metadata_filter_in_every_mode(base: AsyncKnowledgeBase, mode: str) -> None:
    """kotlin-rag 10: And(Equals, GreaterThan), in the keyword leg as well."""
    where = And(Eq("type", "documentation"), Gt("date", "2024-01-01"))
    found = await base.retrieve(
        "API reference logging",
        collection="my-collection",
        prefs=KOTLIN.replace(mode=mode),
        filters=where,
    )
    assert {hit.document_id for hit in found} == {"guide"}


def test_rerank_config() -> None:
    """kotlin-rag 11: 20 go to the reranker; how many come out is said apart."""
    assert KOTLIN.rerank.candidates == 20
    assert KOTLIN.rerank.keep is None
    assert KOTLIN.rerank.enabled


async def test_more_results_than_the_reranker_was_to_see(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 11: topK above the reranker's own still gives topK results."""
    await base.add(*(Document(id=f"log{n}", text=f"Logging, part {n}.") for n in range(30)))
    found = await base.retrieve("logging", top_k=25, rerank={"reranker": "overlap"})
    assert len(found) == 25


async def test_simple_reranker(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 12: the share of the query's words that the chunk has: 2 of 4 is 0.5."""
    await base.add(Document(id="half", text="red green"))
    found = await base.retrieve("red green blue yellow", rerank={"reranker": "overlap"})
    assert found[0].document_id == "half"
    assert found[0].breakdown.rerank == pytest.approx(0.5)
    assert found[0].score == pytest.approx(0.5)


async def test_api_reranker(base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """kotlin-rag 13: POST {baseUrl}/rerank with model, query, documents, top_n and a bearer key."""
    reply = {
        "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]
    }
    with ScriptedServer({"/rerank": lambda request: Reply(reply)}) as server:
        monkeypatch.setenv("LAGOTTO_RERANK_URL", server.url)
        monkeypatch.setenv("LAGOTTO_RERANK_KEY", "secret")
        plain = await base.retrieve("configure logging", top_k=2, candidates=2, mode="semantic")
        found = await base.retrieve(
            "configure logging",
            top_k=2,
            candidates=2,
            mode="semantic",
            rerank={"reranker": "api:rank-1", "candidates": 2},
        )
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer secret"
    assert request.json == {
        "model": "rank-1",
        "query": "configure logging",
        "documents": [hit.content for hit in plain],
        "top_n": 2,
    }
    assert [hit.chunk_id for hit in found] == [plain[1].chunk_id, plain[0].chunk_id]
    assert [hit.score for hit in found] == [0.9, 0.2]


@pytest.fixture
async def family() -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(
        ":memory:", embedder=EMBEDDER, prefs="kotlin-rag", chunker="parent-child:96/24/0"
    ) as base:
        await base.add(Document(id="long", text=LONG))
        yield base


async def test_parent_context(family: AsyncKnowledgeBase) -> None:
    """kotlin-rag 14: the first 200 characters of the parent as `section`; the child stays."""
    chunks = {chunk.id: chunk for chunk in await family.chunks("long")}
    for hit in await family.retrieve("who looks for truffles"):
        child = chunks[hit.chunk_id]
        assert hit.content == child.text
        assert child.parent_id is not None
        assert hit.section == chunks[child.parent_id].text[:200]
    for hit in await family.retrieve("truffles", parents={"mode": "none"}):
        assert hit.section is None


async def test_hits_are_read_in_one_go(
    family: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kotlin-rag 14 and 15: one look-up for all chunks, one for all parents."""
    calls: list[int] = []
    real = MemoryView.parents

    async def counted(self: MemoryView, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        calls.append(len(chunks))
        return await real(self, chunks)

    monkeypatch.setattr(MemoryView, "parents", counted)
    found = await family.retrieve("truffles")
    assert len(found) > 1
    assert calls == [len(found)]


async def test_builder() -> None:
    """kotlin-rag 16: a retriever from its parts, and an error that names the missing one."""
    store = MemoryStore()
    await store.write([await entry(document) for document in DOCUMENTS])
    retriever = HybridRetriever(
        store=store,
        embedder=ENTRIES,
        reranker=create_reranker("overlap"),
    )
    found = await retriever.retrieve(KOTLIN.replace(query_text="How to configure logging?"))
    assert found[0].document_id == "guide"
    with pytest.raises(ConfigError, match="needs a store"):
        HybridRetriever(embedder=EMBEDDER)
    with pytest.raises(ConfigError, match="needs an embedder"):
        HybridRetriever(store=store)


async def test_rerankers_by_name(base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """kotlin-rag 17: none unless named, a local one without requests, an API with one."""
    with ScriptedServer({"/rerank": rerank_route(lambda query, text: 0.25)}) as server:
        monkeypatch.setenv("LAGOTTO_RERANK_URL", server.url)
        marks = {}
        for name in (None, "overlap", "api:rank-1"):
            (hit, *_) = await base.retrieve("configure logging", rerank={"reranker": name})
            marks[name] = hit.breakdown.rerank, len(server.requests)
    assert marks == {None: (None, 0), "overlap": (1.0, 0), "api:rank-1": (0.25, 1)}
    with pytest.raises(UnknownNameError, match='"nonsense"'):
        await base.retrieve("configure logging", rerank={"reranker": "nonsense"})


async def test_calls_run_side_by_side(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 18: any number of coroutines may ask at once."""
    queries = ["logging", "API reference", "Atlantis", "Stargate"] * 5
    alone = [await base.retrieve(query) for query in queries]
    together = await asyncio.gather(*(base.retrieve(query) for query in queries))
    assert together == alone


async def test_usage_examples(base: AsyncKnowledgeBase) -> None:
    """The three examples of the design, in Python."""
    semantic = await base.retrieve(
        "How to configure logging?", collection="my-collection", mode="semantic", top_k=5
    )
    assert semantic[0].document_id == "guide"
    hybrid = await base.retrieve(
        "logging configuration",
        collection="my-collection",
        mode="hybrid",
        top_k=10,
        scoring={"w_vec": 0.7, "w_text": 0.3, "blend": "rrf"},
        rerank={"reranker": "overlap", "enabled": True, "candidates": 20},
    )
    assert hybrid[0].document_id in {"guide", "blog"}
    filtered = await base.retrieve(
        "API reference",
        collection="my-collection",
        filters=And(Eq("type", "documentation"), Gt("date", "2024-01-01")),
    )
    assert {hit.document_id for hit in filtered} == {"guide"}


@pytest.mark.parametrize(
    ("settings", "depth"),
    [
        ({}, 10),
        ({"top_k": 4}, 4),
        ({"rerank": {"reranker": "overlap"}}, 20),
        ({"rerank": {"reranker": "overlap", "candidates": 7}, "top_k": 3}, 7),
        ({"rerank": {"reranker": "overlap", "enabled": False}}, 10),
    ],
)
async def test_candidates_per_leg(settings: dict[str, Any], depth: int) -> None:
    """kotlin-rag 11: k is rerank.topK with a reranker, else topK."""
    async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, prefs="kotlin-rag") as base:
        await base.add(*(Document(id=f"d{n}", text=f"A truffle, number {n}.") for n in range(40)))
        for mode in ("semantic", "keyword"):
            found = await base.retrieve("truffle", mode=mode, debug=True, **settings)
            assert found.stats.counts["candidate_chunks"] == depth


async def test_simple_reranker_is_literal() -> None:
    """kotlin-rag 12: |Q ∩ C| / |Q| of lower-cased words split at blanks; the fused score stays.

    The query has the words which, dog, finds, truffles?. Of these, `plain` has dog and finds, 2 of
    4. `noisy` has none, since "dog!" is another word than "dog", and its title is not looked at.
    Only blanks split: a tab makes one word of "which" and "dog", two blanks have an empty one
    between them, so that `plain` has 1 of 4.
    """
    noisy = Document(id="noisy", title="Which dog finds truffles?", text="Dog! Truffles! Finds!")
    plain = Document(id="plain", title="Oaks", text="An Oak Finds what a Dog looks for in a wood.")
    query, literal = "Which dog finds truffles?", {"reranker": "overlap:literal"}
    async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, prefs="kotlin-rag") as base:
        await base.add(noisy, plain)
        fused = await base.retrieve(query, candidates=20)
        found = await base.retrieve(query, rerank=literal)
        bundle = await base.search(query, rerank=literal)
        other = await base.retrieve("Which\tdog  finds truffles?", rerank=literal)
    assert [hit.document_id for hit in fused] == ["noisy", "plain"]
    assert [hit.document_id for hit in found] == ["plain", "noisy"]
    assert [item.item_id for item in bundle.candidates] == ["plain", "noisy"]
    assert [hit.breakdown.rerank for hit in found] == [0.5, 0.0]
    assert [hit.breakdown.rerank for hit in other] == [0.25, 0.0]
    assert [hit.score for hit in found] == [hit.score for hit in reversed(fused)]
    assert [hit.score for hit in found] == [hit.breakdown.fused_score for hit in found]


async def test_api_reranker_tolerates(
    base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kotlin-rag 13: fewer results than documents; logits, by `?scale=logit`; titles on request."""
    reply = {"results": [{"index": 1, "relevance_score": 2.0}]}
    with ScriptedServer({"/rerank": lambda request: Reply(reply)}) as server:
        monkeypatch.setenv("LAGOTTO_RERANK_URL", server.url)
        monkeypatch.setenv("LAGOTTO_RERANK_KEY", "secret")
        small: dict[str, Any] = {"top_k": 2, "candidates": 2, "mode": "semantic"}
        plain = await base.retrieve("configure logging", **small)
        name = "api:rank-1?scale=logit&title=true"
        found = await base.retrieve(
            "configure logging", **small, rerank={"reranker": name, "candidates": 2}
        )
    (request,) = server.requests
    assert request.json["model"] == "rank-1"
    assert request.json["documents"] == [f"{hit.document_title}\n\n{hit.content}" for hit in plain]
    assert [hit.chunk_id for hit in found] == [plain[1].chunk_id]
    assert found[0].score == pytest.approx(1 / (1 + np.exp(-2)))
    assert found[0].breakdown.rerank == 2.0
    assert found.degraded == ("reranker: rank-1 left out 1 of 2 passages, which are dropped",)


class TestTwoStores:
    """kotlin-rag 16: a vector store and a full-text store apart, joined by their chunks."""

    PARTS = DOCUMENTS[:4]

    @pytest.fixture
    async def stores(self, tmp_path: Path) -> AsyncIterator[tuple[MemoryStore, SqliteStore]]:
        """Vectors in memory; words in a file, whose keys are others and which lacks a document."""
        vectors, words = MemoryStore(), SqliteStore(tmp_path / "words.db")
        await words.open()
        await vectors.write([await entry(document) for document in DOCUMENTS])
        await words.write([await entry(document) for document in reversed(self.PARTS)])
        yield vectors, words
        await words.close()

    def builder(self, stores: tuple[MemoryStore, SqliteStore]) -> RetrieverBuilder:
        vectors, words = stores
        return RetrieverBuilder().vector_store(vectors).fts_store(words).embedder(ENTRIES)

    @pytest.mark.parametrize("fill", [False, True])
    async def test_as_one_store_with_the_same_chunks(
        self, stores: tuple[MemoryStore, SqliteStore], fill: bool
    ) -> None:
        """Results, scores and ranks are those of a single store."""
        single, words = MemoryStore(), stores[1]
        await single.write([await entry(document) for document in self.PARTS])
        both = RetrieverBuilder().vector_store(single).fts_store(words).embedder(ENTRIES).build()
        one = HybridRetriever(store=single, embedder=ENTRIES)
        for query in ("How to configure logging?", "API reference", "costs of loging", "Stargate"):
            asked = KOTLIN.replace(
                query_text=query, scoring={"fill": fill}, fuzzy={"mode": "correct"}
            )
            expected, found = await one.retrieve(asked), await both.retrieve(asked)
            assert [hit.chunk_id for hit in found] == [hit.chunk_id for hit in expected]
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])
            legs = [
                [(name, leg.rank) for name, leg in hit.breakdown.legs().items()] for hit in found
            ]
            assert legs == [
                [(name, leg.rank) for name, leg in hit.breakdown.legs().items()] for hit in expected
            ]

    async def test_each_leg_has_its_store(self, stores: tuple[MemoryStore, SqliteStore]) -> None:
        """`other` is only in the vector store: its words are not found, its vector is."""
        retriever = self.builder(stores).simple_reranker().build()
        asked = KOTLIN.replace(query_text="island that Plato mentions")
        found = await retriever.retrieve(asked)
        first = next(hit for hit in found if hit.document_id == "other")
        assert set(first.breakdown.legs()) == {"semantic", "text"}
        assert first.breakdown.text is not None
        assert (first.breakdown.text.rank, first.breakdown.text.score) == (None, 0.0)
        assert first.breakdown.rerank == 0.75  # island, that, plato; "mentions." is another word
        assert await retriever.retrieve(asked.replace(mode="keyword", query_text="Plato")) == []

    async def test_filters_and_exclusions(self, stores: tuple[MemoryStore, SqliteStore]) -> None:
        retriever = self.builder(stores).build()
        where = KOTLIN.replace(query_text="logging", filters=Eq("type", "documentation"))
        assert {hit.document_id for hit in await retriever.retrieve(where)} == {"guide", "api"}
        web = KOTLIN.replace(query_text="logging -configure", fts={"mode": "web"})
        assert "guide" not in {hit.document_id for hit in await retriever.retrieve(web)}

    async def test_other_chunks_are_an_error(self, tmp_path: Path) -> None:
        """Words that lead to no chunk of the vector store: noted, or an error if alone."""
        vectors, words = MemoryStore(), MemoryStore()
        await vectors.write([await entry(DOCUMENTS[0])])
        await words.write([await entry(DOCUMENTS[2])])
        retriever = (
            RetrieverBuilder().vector_store(vectors).fts_store(words).embedder(ENTRIES).build()
        )
        asked = KOTLIN.replace(query_text="costs to log too much")
        (note,) = (await retriever.retrieve(asked)).degraded
        assert "the same documents and the same chunker" in note
        with pytest.raises(StoreError, match="the same chunker"):
            await retriever.retrieve(asked.replace(mode="keyword"))

    @pytest.mark.parametrize("missing", ["vector_store", "fts_store", "embedder"])
    async def test_missing_part_is_named(
        self, stores: tuple[MemoryStore, SqliteStore], missing: str
    ) -> None:
        parts = {"vector_store": stores[0], "fts_store": stores[1], "embedder": ENTRIES}
        builder = RetrieverBuilder()
        for name, part in parts.items():
            if name != missing:
                getattr(builder, name)(part)
        with pytest.raises(ConfigError, match=f"{missing} is missing"):
            builder.build()
