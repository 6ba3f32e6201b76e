"""The Kotlin design: modes, RRF or weighted fusion, optional reranker. Preset `kotlin-rag`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Chunk, Document
from lagotto.errors import ConfigError, StoreError, UnknownNameError
from lagotto.filters import And, Contains, Eq, Exists, Gt, Gte, In, Lt, Lte, Ne, Not, NotIn, Or
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers import create_reranker
from lagotto.results import RetrievalResult, ScoreBreakdown
from lagotto.retrieval.builder import RetrieverBuilder
from lagotto.retrieval.fusion import fuse
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.memory import MemoryStore, MemoryView
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import EMBEDDER as ENTRIES
from lagotto.testing.stores import entry
from tests.bases import base_of
from tests.conformance.lists import DOCUMENTS, LONG, Angles, candidates, named, spread
from tests.servers.scripted import Reply, ScriptedServer, rerank_route

EMBEDDER = HashEmbedder(dimension=64)
KOTLIN = RetrievalPrefs.preset("kotlin-rag")


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with base_of(*DOCUMENTS, embedder=EMBEDDER, prefs="kotlin-rag") as base:
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
    """kotlin-rag 3: semantic 0.7, keyword 0.3, RRF; the weights are those of WEIGHTED alone."""
    scoring = KOTLIN.scoring
    assert (scoring.w_vec, scoring.w_text, scoring.blend) == (0.7, 0.3, "rrf")
    found = candidates(semantic="ab", text="ba")
    fused = named(fuse(found, scoring.weights(), scoring).raw, found)
    assert fused["a"] == fused["b"]


def test_two_fusion_methods() -> None:
    """kotlin-rag 4: RRF and WEIGHTED (linear here)."""
    found = candidates(semantic={"a": 0.9, "b": 0.8}, text={"b": 2.0})
    sums = {}
    for blend in ("rrf", "linear"):
        scoring = KOTLIN.replace(scoring={"blend": blend}).scoring
        sums[blend] = named(fuse(found, scoring.weights(), scoring).raw, found)
    assert sums["rrf"] == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61})
    assert sums["linear"] == pytest.approx({"a": 0.63, "b": 0.56 + 0.6})
    with pytest.raises(ConfigError, match=r"scoring\.blend"):
        KOTLIN.replace(scoring={"blend": "max"})


def test_reciprocal_ranks() -> None:
    """kotlin-rag 5: 1 / (60 + rank + 1) from rank 0, which is 1 / (60 + rank) from rank 1.

    a (first, second) has 1/61 + 1/62 and c (third in one list) has 1/63; weights change nothing.
    The scale ends at 2/61, first in both lists.
    """
    found = candidates(semantic="abc", text="ba")
    for weights in ({}, {"w_vec": 0.1, "w_text": 0.9}):
        scoring = KOTLIN.replace(scoring=weights).scoring
        fused = fuse(found, scoring.weights(), scoring)
        raw = named(fused.raw, found)
        assert raw["a"] == pytest.approx(1 / 61 + 1 / 62)
        assert raw["b"] == pytest.approx(1 / 62 + 1 / 61)
        assert raw["c"] == pytest.approx(1 / 63)
        assert fused.ends == pytest.approx((0.0, 2 / 61))


async def test_the_only_hit_of_a_word_is_found() -> None:
    """kotlin-rag 5: of 60 documents the one with the word is farthest by its vector.

    It has 1/61 by keywords, as much as the nearest by its vector, and no score by vectors.
    """
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs="kotlin-rag") as base:
        await base.add(*spread(60, worded=1))
        found = await base.retrieve("zebra")
    assert [hit.document_id for hit in found[2:]] == [f"s{n:03}" for n in range(1, 9)]
    assert {hit.document_id for hit in found[:2]} == {"s000", "s059"}
    assert [hit.breakdown.fused for hit in found[:2]] == pytest.approx([1 / 61, 1 / 61])


def test_weighted_fusion() -> None:
    """kotlin-rag 6: score * weight, added up, without normalisation: 0.9 * 0.7 + 2 * 0.3 = 1.23."""
    scoring = KOTLIN.replace(scoring={"blend": "linear"}).scoring
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


async def test_no_score_where_a_leg_has_none() -> None:
    """kotlin-rag 7: a score is null in the breakdown of a hit that is not in the leg's list.

    Nothing says 0, neither explain() nor JSON: its cosine is cos 29.5, and was not computed.
    """
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs="kotlin-rag") as base:
        await base.add(*spread(60, worded=1))
        found = {hit.document_id: hit for hit in await base.retrieve("zebra")}
        bundle = await base.search("zebra")
        why = await base.why_not("zebra", "s030")
    word, near = found["s059"], found["s000"]
    assert (word.breakdown.semantic, near.breakdown.text) == (None, None)
    assert word.breakdown.text is not None
    assert near.breakdown.semantic is not None
    assert word.model_dump(mode="json")["breakdown"]["semantic"] is None
    assert word.explain().splitlines()[1].startswith("   text ")
    assert "semantic" not in word.explain()
    assert [part.contribution for part in word.breakdown.legs().values()] == [word.score]
    items = {item.item_id: item for item in bundle.candidates}
    assert (items["s059"].score_vec, items["s059"].rank_vec) == (None, None)
    assert (items["s000"].score_text, items["s000"].rank_text) == (None, None)
    evidence = {item.item_id: item for item in bundle.evidence}
    assert evidence["s059"].score_vec is None
    assert evidence["s000"].score_text is None
    assert "text does not find it" in why.reason
    filled = {hit.document_id: hit for hit in await _filled()}
    assert filled["s059"].breakdown.semantic is not None
    assert filled["s059"].breakdown.semantic.score == pytest.approx(np.cos(np.radians(29.5)))
    assert "(scored, not in its list)" in filled["s059"].explain()


async def _filled() -> list[RetrievalResult]:
    """The same with `fill`: every leg scores what any of them found."""
    prefs = KOTLIN.replace(scoring={"fill": True})
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs=prefs) as base:
        await base.add(*spread(60, worded=1))
        return await base.retrieve("zebra")


async def test_search_result(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 8: the chunk, its score, its breakdown."""
    found = await base.retrieve("configure logging", collection="my-collection")
    hit = next(hit for hit in found if hit.document_id == "guide")
    (chunk,) = await base.chunks("guide", collection="my-collection")
    assert (hit.chunk_id, hit.content, hit.start, hit.end) == (
        chunk.id, chunk.text, chunk.start, chunk.end,
    )  # fmt: skip
    assert hit.score == hit.breakdown.fused_score
    assert (hit.parent_id, hit.section) == (None, None)  # no child: it stays as it is


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


NODES = {
    "Equals": (Eq("n", 3), {3}),
    "NotEquals": (Ne("n", 3), set(range(8)) - {3}),
    "GreaterThan": (Gt("n", 5), {6, 7}),
    "GreaterOrEqual": (Gte("n", 5), {5, 6, 7}),
    "LessThan": (Lt("n", 2), {0, 1}),
    "LessOrEqual": (Lte("n", 2), {0, 1, 2}),
    "In": (In("n", [1, 4, 9]), {1, 4}),
    "NotIn": (NotIn("n", [0, 1, 2, 3]), {4, 5, 6, 7}),
    "Contains": (Contains("tags", "even"), {0, 2, 4, 6}),
    "Exists": (Exists("low"), {0, 1, 2, 3}),
    "Not": (Not(Lt("n", 6)), {6, 7}),
    "Or": (Or(Eq("n", 0), Eq("n", 7)), {0, 7}),
    "And": (And(Gt("n", 1), Lt("n", 4)), {2, 3}),
}


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
async def test_every_filter_node(mode: str) -> None:
    """kotlin-rag 10: exactly what a filter allows comes back, whichever leg looks for it."""
    documents = [
        Document(
            id=str(n),
            text=f"A truffle, number {n}.",
            metadata={
                "n": n,
                "tags": ["odd" if n % 2 else "even"],
                **({"low": 1} if n < 4 else {}),
            },
        )
        for n in range(8)
    ]
    async with base_of(*documents, embedder=EMBEDDER, prefs="kotlin-rag") as base:
        for name, (where, expected) in NODES.items():
            found = await base.retrieve("truffle", prefs=KOTLIN.replace(mode=mode), filters=where)
            assert {int(hit.document_id) for hit in found} == expected, name


def test_rerank_config() -> None:
    """kotlin-rag 11: no RerankConfig unless a search has one; with one, 20 go to the reranker."""
    assert KOTLIN.rerank.candidates == 20
    assert KOTLIN.rerank.keep is None
    assert KOTLIN.rerank.enabled == "named"


async def test_more_results_than_the_reranker_was_to_see(base: AsyncKnowledgeBase) -> None:
    """kotlin-rag 11: k is rerank.topK, also below topK: no more than 20 results."""
    await base.add(*(Document(id=f"log{n}", text=f"Logging, part {n}.") for n in range(30)))
    found = await base.retrieve("logging", top_k=25, rerank={"reranker": "overlap"}, debug=True)
    assert len(found) == found.stats.counts["reranked"] == 20


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
        await base.retrieve("configure logging", mode="semantic", rerank={"reranker": "api:rank-1"})
    request, other = server.requests
    assert request.headers["authorization"] == "Bearer secret"
    assert request.json == {
        "model": "rank-1",
        "query": "configure logging",
        "documents": [hit.content for hit in plain],
        "top_n": 2,
    }
    assert other.json["top_n"] == 20  # rerank.topK, however many documents there are
    assert len(other.json["documents"]) == 2 * len(DOCUMENTS)
    assert [hit.chunk_id for hit in found] == [plain[1].chunk_id, plain[0].chunk_id]
    assert [hit.score for hit in found] == [0.9, 0.2]


async def test_api_reranker_without_key_or_results(
    base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kotlin-rag 13: no Authorization without a key, no request without results.

    The fused score is replaced, and the leg's own stays beside it.
    """
    with ScriptedServer({"/rerank": rerank_route(lambda query, text: 0.25)}) as server:
        monkeypatch.setenv("LAGOTTO_RERANK_URL", server.url)
        monkeypatch.delenv("LAGOTTO_RERANK_KEY", raising=False)
        asked: dict[str, Any] = {"mode": "semantic", "rerank": {"reranker": "api:rank-1"}}
        assert await base.retrieve("logging", filters=Eq("type", "none"), **asked) == []
        assert server.requests == []
        (hit, *_) = await base.retrieve("logging", **asked)
    (request,) = server.requests
    assert "authorization" not in request.headers
    assert request.headers["content-type"] == "application/json"
    assert (hit.score, hit.breakdown.rerank) == (0.25, 0.25)
    assert hit.breakdown.semantic is not None
    assert hit.breakdown.semantic.rank is not None


async def test_fused_list_is_cut_before_the_reranker() -> None:
    """kotlin-rag 11: 20 of each leg, none of them in both lists; the best 20 go on."""
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs="kotlin-rag") as base:
        await base.add(*spread(60, worded=30))
        found = await base.retrieve("zebra", top_k=4, rerank={"reranker": "overlap"}, debug=True)
    assert found.stats.counts == {"candidate_chunks": 40, "reranked": 20, "hits": 4}


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
    asked = KOTLIN.replace(query_text="How to configure logging?")
    found = await retriever.retrieve(asked.replace(rerank={"enabled": True}))
    assert found[0].document_id == "guide"
    parts = RetrieverBuilder().vector_store(store).fts_store(store).embedder(ENTRIES)
    built = parts.reranker("overlap").build()  # any reranker
    assert await built.retrieve(asked.replace(rerank={"enabled": True})) == found
    by_words = await built.retrieve(asked.replace(mode="keyword"))
    assert by_words
    for hit in by_words:
        assert hit.breakdown.text is not None
        assert hit.breakdown.text.score > 0
        assert hit.breakdown.fused == pytest.approx(1 / (60 + (hit.breakdown.text.rank or 0)))
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
        ({"rerank": {"reranker": "overlap"}, "top_k": 25}, 20),
        ({"rerank": {"reranker": "overlap", "enabled": False}}, 20),
        ({"rerank": {"enabled": False}, "top_k": 4}, 20),
        ({"rerank": {"enabled": False, "candidates": 7}}, 7),
    ],
)
async def test_candidates_per_leg(settings: dict[str, Any], depth: int) -> None:
    """kotlin-rag 11: k is rerank.topK with a RerankConfig, enabled or not, else topK."""
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
    async with base_of(noisy, plain, embedder=EMBEDDER, prefs="kotlin-rag") as base:
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
        asked = KOTLIN.replace(query_text="island that Plato mentions", rerank={"enabled": True})
        found = await retriever.retrieve(asked)
        first = next(hit for hit in found if hit.document_id == "other")
        assert set(first.breakdown.legs()) == {"semantic"}
        extra = Document(id="extra", text="Logging that only the words know of.")
        await stores[1].write([await entry(extra)])
        by_words = await retriever.retrieve(KOTLIN.replace(query_text="logging", mode="keyword"))
        assert {hit.document_id for hit in by_words} == {"guide", "blog"}
        assert by_words.degraded == ()
        assert first.breakdown.rerank == 0.75  # island, that, plato; "mentions." is another word
        assert await retriever.retrieve(asked.replace(mode="keyword", query_text="Plato")) == []

    @pytest.mark.parametrize(
        ("rerank", "judged", "depth"),
        [
            ({}, False, 3),
            ({"enabled": True}, True, len(DOCUMENTS)),
            ({"enabled": True, "candidates": 2}, True, 2),
            ({"enabled": False, "candidates": 2}, False, 2),
        ],
    )
    async def test_reranks_only_if_the_config_says_so(
        self,
        stores: tuple[MemoryStore, SqliteStore],
        rerank: dict[str, Any],
        judged: bool,
        depth: int,
    ) -> None:
        """With simpleReranker(), a search without a RerankConfig is not reranked."""
        retriever = self.builder(stores).simple_reranker().build()
        asked = KOTLIN.replace(query_text="logging", mode="semantic", top_k=3, debug=True)
        found = await retriever.retrieve(asked.replace(rerank=rerank) if rerank else asked)
        assert {hit.breakdown.rerank is not None for hit in found} == {judged}
        assert found.stats.counts["candidate_chunks"] == depth
        assert len(found) == min(depth, 3)

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
