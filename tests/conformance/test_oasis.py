"""The Go design: `HybridRetriever` with weighted reciprocal rank fusion. Preset `oasis`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.tool import KnowledgeTool
from lagotto.documents import Chunk, Document
from lagotto.errors import ConfigError, DegradedError, RerankError, SearchCancelled, StoreError
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import CancellationToken, RequestContext
from lagotto.rerankers.base import UNIT, Candidate, Judgement, Verdict
from lagotto.results import EvidenceChunk, RetrievalBundle, RetrievalResult
from lagotto.retrieval.fusion import fuse
from lagotto.retrieval.retriever import HybridRetriever, Retriever
from lagotto.stores.base import Capabilities
from lagotto.stores.memory import MemoryStore, MemoryView
from lagotto.stores.sql.view import SqlView
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import EMBEDDER as ENTRIES
from lagotto.testing.stores import entry
from tests.bases import base_of
from tests.conformance.lists import DOCUMENTS, LONG, Angles, candidates, named, spread
from tests.servers.scripted import ScriptedServer, chat_reply, chat_route

EMBEDDER = HashEmbedder(dimension=64)
OASIS = RetrievalPrefs.preset("oasis")


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with base_of(*DOCUMENTS, embedder=EMBEDDER, prefs="oasis") as base:
        yield base


class Judge:
    """A reranker that counts what it sees, and may raise an error."""

    id = "judge"
    scale = UNIT
    reads_only_text = True

    def __init__(self, error: Exception | None = None) -> None:
        self.seen: list[Sequence[Candidate]] = []
        self._error = error

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        self.seen.append(candidates)
        if self._error:
            raise self._error
        count = len(candidates)
        return Judgement([Verdict((place + 1) / count) for place in range(count)])

    async def close(self) -> None:
        pass


async def test_one_call_gives_results(base: AsyncKnowledgeBase) -> None:
    """oasis 1: Retrieve(ctx, query, topK)."""
    found = await base.retrieve("configure logging", top_k=2, request=RequestContext())
    assert len(found) == 2
    assert all(isinstance(hit, RetrievalResult) for hit in found)


async def test_result_fields(base: AsyncKnowledgeBase) -> None:
    """oasis 2: content, score in [0, 1], chunk_id, document_id, document_title, document_source."""
    (hit,) = await base.retrieve("configure logging", top_k=1)
    assert hit.content == DOCUMENTS[0].text
    assert 0 <= hit.score <= 1
    assert hit.chunk_id == (await base.chunks("guide"))[0].id
    assert hit.document_id == "guide"
    assert hit.document_title == "Logging guide"
    assert hit.document_source == "guide.md"
    names = {"content", "score", "chunk_id", "document_id", "document_title", "document_source"}
    assert names <= hit.model_dump(mode="json").keys()
    everything = await base.retrieve("configure logging")
    scores = [hit.score for hit in everything]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= min(scores) <= max(scores) <= 1


def test_defaults() -> None:
    """oasis 3: no reranker, min score 0, keyword weight 0.3, overfetch 3."""
    assert OASIS.rerank.reranker is None
    assert OASIS.min_score == 0
    assert OASIS.scoring.w_text == 0.3
    assert OASIS.scoring.w_vec == pytest.approx(1 - 0.3)
    assert OASIS.overfetch == 3


async def test_example_options(base: AsyncKnowledgeBase) -> None:
    """oasis 3: weight 0.3, three times topK, a ScoreReranker and a least score, as in its example.

    With topK 1, three candidates of each leg are looked at. The reranker keeps what has its least
    score or more, and does not change the score.
    """
    example: dict[str, Any] = {"scoring": {"w_text": 0.3}, "overfetch": 3, "min_score": 0.05}
    everything = await base.retrieve("configure logging", top_k=5, **example)
    assert len(everything) > 2
    for least, kept in ((0.1, None), (everything[1].score, 2), (everything[0].score, 1)):
        found = await base.retrieve(
            "configure logging", top_k=5, rerank={"reranker": f"score:{least}"}, **example
        )
        expected = [hit for hit in everything if hit.score >= least]
        assert kept in (None, len(expected))
        assert [(hit.chunk_id, hit.score) for hit in found] == [
            (hit.chunk_id, hit.score) for hit in expected
        ]
    (one,) = await base.retrieve("configure logging", top_k=1, debug=True, **example)
    assert one.breakdown.semantic is not None
    assert one.breakdown.text is not None
    ranks = one.breakdown.semantic.rank, one.breakdown.text.rank
    assert ranks[0] is not None
    assert ranks[1] is not None
    fused = 0.7 / (60 + ranks[0]) + 0.3 / (60 + ranks[1])
    assert one.breakdown.fused == pytest.approx(fused)


async def test_query_is_embedded_and_compared_by_cosine(base: AsyncKnowledgeBase) -> None:
    """oasis 4 and 5: the query's vector, and the cosine of each chunk with it."""
    (vector,) = await EMBEDDER.embed(["configure logging"], role="query")
    found = await base.retrieve("configure logging", mode="semantic")
    texts = [f"{hit.document_title}\n\n{hit.content}" for hit in found]
    cosines = (await EMBEDDER.embed(texts, role="document")) @ vector
    for hit, cosine in zip(found, cosines, strict=True):
        assert hit.breakdown.semantic is not None
        assert hit.breakdown.semantic.score == pytest.approx(float(cosine), abs=1e-5)


async def test_store_without_keywords_falls_back_to_vectors() -> None:
    """oasis 6: no error, but it can be seen; `strict` makes it one."""

    class VectorStore(MemoryStore):
        capabilities = Capabilities(text=False, fuzzy=False)

    store = VectorStore()
    await store.write([await entry(document) for document in DOCUMENTS])
    retriever = HybridRetriever(store=store, embedder=ENTRIES)
    found = await retriever.retrieve(OASIS.replace(query_text="configure logging"))
    assert {hit.document_id for hit in found} == {document.id for document in DOCUMENTS}
    assert len(found.degraded) == 1
    assert "no full-text index" in found.degraded[0]
    with pytest.raises(DegradedError, match="no full-text index"):
        await retriever.retrieve(OASIS.replace(query_text="configure logging", strict=True))


@pytest.mark.parametrize("index", ["fts5", None])
async def test_text_index_follows_the_documents(tmp_path: Path, index: str | None) -> None:
    """oasis 7: what is stored, changed or removed is in the index at once; FTS5 if it is named."""
    path = tmp_path / "kb.db"
    async with AsyncKnowledgeBase(path, embedder=EMBEDDER, prefs="oasis", text_index=index) as base:
        for text, found in (("A zyzzyva is a weevil.", 1), ("A weevil.", 0), ("Zyzzyva!", 1)):
            await base.add(*DOCUMENTS, Document(id="new", text=text))
            hits = await base.retrieve("zyzzyva", mode="keyword")
            assert [hit.document_id for hit in hits] == ["new"] * found
        assert (await base.info()).text_index == (index or "tantivy")
        await base.remove("new")
        assert await base.retrieve("zyzzyva", mode="keyword") == []
    with closing(sqlite3.connect(path)) as file:
        (made,) = file.execute("SELECT count(*) FROM sqlite_master WHERE sql LIKE '%USING fts5%'")
    assert (made[0] > 0) == (index == "fts5")


@pytest.mark.parametrize("where", ["fts5", "postgresql"])
async def test_legs_run_side_by_side(
    where: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oasis 6: keywords are fetched in parallel with vectors: each leg waits for the other here."""
    begun = {"semantic": asyncio.Event(), "text": asyncio.Event()}

    def together(leg: str, real: Callable[..., Any]) -> Callable[..., Any]:
        async def search(self: SqlView, query: Any, *, k: int) -> Any:
            begun[leg].set()
            async with asyncio.timeout(30):
                await asyncio.gather(*(event.wait() for event in begun.values()))
            return await real(self, query, k=k)

        return search

    server = where == "postgresql"
    location = request.getfixturevalue("location") if server else tmp_path / "kb.db"
    settings: dict[str, Any] = {} if server else {"text_index": "fts5"}
    prefs = OASIS.replace(strategy="legs")
    async with AsyncKnowledgeBase(location, embedder=EMBEDDER, prefs=prefs, **settings) as base:
        await base.add(*DOCUMENTS)
        for leg in begun:
            monkeypatch.setattr(SqlView, leg, together(leg, getattr(SqlView, leg)))
        found = await base.retrieve("configure logging")
    assert set(found[0].breakdown.legs()) == {"semantic", "text"}
    assert found.degraded == ()


async def test_libsql_servers_are_no_store() -> None:
    """oasis 7: of its two stores, one is a file of SQLite; a libSQL server is said to be none."""
    with pytest.raises(ConfigError, match="no store for libsql://host"):
        async with AsyncKnowledgeBase("libsql://host", embedder=EMBEDDER):
            pass


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.9, 1.0])
async def test_keyword_weight_of_the_first_hit(weight: float) -> None:
    """oasis 9: the first by vectors alone has (1 - w) / 61, the first by keywords alone w / 61."""
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs="oasis") as base:
        await base.add(*spread(70, worded=35))
        found = await base.retrieve("zebra", scoring={"keyword_weight": weight})
    assert found[0].document_id == ("s069" if weight > 0.5 else "s000")
    assert found[0].breakdown.fused == pytest.approx(max(weight, 1 - weight) / 61)


@pytest.mark.parametrize(("top_k", "multiplier", "depth"), [(10, 3, 30), (4, 3, 12), (5, 1, 5)])
async def test_overfetch(top_k: int, multiplier: float, depth: int) -> None:
    """oasis 8: topK times the multiplier from each leg, no chunk of which the other leg has."""
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs="oasis") as base:
        await base.add(*spread(70, worded=35))
        settings: dict[str, Any] = {} if multiplier == 3 else {"overfetch": multiplier}
        found = await base.retrieve("zebra", top_k=top_k, debug=True, **settings)
    assert found.stats.counts["candidate_chunks"] == 2 * depth
    assert len(found) == top_k


@pytest.mark.parametrize(("multiplier", "seen"), [(None, 6), (1, 2), (2, 4), (7, 14)])
async def test_overfetched_candidates_are_trimmed(multiplier: float | None, seen: int) -> None:
    """oasis 8: of topK 2, twice the multiplier from each leg, and 2 come back; 3 by default."""
    settings: dict[str, Any] = {} if multiplier is None else {"overfetch": multiplier}
    async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, prefs="oasis") as base:
        await base.add(*(Document(id=f"d{n}", text=f"A truffle, number {n}.") for n in range(40)))
        for mode in ("semantic", "keyword"):
            found = await base.retrieve("truffle", top_k=2, mode=mode, debug=True, **settings)
            assert found.stats.counts["candidate_chunks"] == seen
            assert len(found) == 2


def test_weighted_reciprocal_ranks() -> None:
    """oasis 9: weight / (60 + rank + 1), ranks from 0.

    a is first by vectors and third by keywords: 0.7 / 61 + 0.3 / 63 = 0.0162373...
    """
    found = candidates(semantic="abc", text="cba")
    fused = fuse(found, OASIS.scoring.weights(), OASIS.scoring)
    raw = named(fused.raw, found)
    assert raw["a"] == pytest.approx(0.7 / 61 + 0.3 / 63)
    assert raw["a"] == pytest.approx(0.01623731)
    assert raw["b"] == pytest.approx(0.7 / 62 + 0.3 / 62)
    assert raw["c"] == pytest.approx(0.7 / 63 + 0.3 / 61)
    # The best that could be is 1 / 61, so a's score in [0, 1] is its share of that.
    assert named(fused.scores, found)["a"] == pytest.approx(0.01623731 * 61)


@pytest.fixture
async def family() -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(
        ":memory:", embedder=EMBEDDER, prefs="oasis", chunker="parent-child:96/24/0"
    ) as base:
        await base.add(Document(id="long", text=LONG), *DOCUMENTS)
        yield base


class TestParents:
    """oasis 10 and 11: children are found, parents are returned; on any error, the children."""

    async def test_parent_content_with_the_childs_score(self, family: AsyncKnowledgeBase) -> None:
        parents = await family.retrieve("who looks for truffles", top_k=200, overfetch=10)
        children = await family.retrieve(
            "who looks for truffles", top_k=200, overfetch=10, parents={"mode": "none"}
        )
        by_id = {hit.chunk_id: hit for hit in children}
        replaced = [hit for hit in parents if hit.child_id and hit.document_id == "long"]
        assert replaced
        for hit in replaced:
            child = by_id[hit.child_id or ""]
            assert hit.score == child.score
            assert child.content in hit.content
            assert len(hit.content) > len(child.content)

    async def test_best_child_wins(self, family: AsyncKnowledgeBase) -> None:
        parents = await family.retrieve("truffles", top_k=200, overfetch=10)
        children = await family.retrieve(
            "truffles", top_k=200, overfetch=10, parents={"mode": "none"}
        )
        best: dict[str, float] = {}
        for child in children:
            best.setdefault(child.parent_id or child.chunk_id, child.score)
        assert {hit.chunk_id: hit.score for hit in parents} == best

    async def test_top_k_counts_parents(self, family: AsyncKnowledgeBase) -> None:
        found = await family.retrieve("truffles", top_k=3, overfetch=10)
        assert len({hit.chunk_id for hit in found}) == 3

    async def test_without_parent_unchanged(self, base: AsyncKnowledgeBase) -> None:
        with_parents = await base.retrieve("logging")
        without = await base.retrieve("logging", parents={"mode": "none"})
        assert with_parents == without

    @pytest.mark.parametrize(
        "error", [StoreError("gone"), RuntimeError("boom"), KeyError("id"), OSError("no disk")]
    )
    async def test_any_error_leaves_children(
        self, family: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        async def broken(self: MemoryView, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
            raise error

        children = await family.retrieve("truffles", parents={"mode": "none"})
        monkeypatch.setattr(MemoryView, "parents", broken)
        found = await family.retrieve("truffles")
        assert [hit.chunk_id for hit in found] == [hit.chunk_id for hit in children]
        assert found.degraded == (f"parents: not read, children stand alone ({error})",)
        with pytest.raises(DegradedError, match="children stand alone"):
            await family.retrieve("truffles", strict=True)

    async def test_looked_up_in_one_go(
        self, family: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = 0
        real = MemoryView.parents

        async def counted(self: MemoryView, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
            nonlocal calls
            calls += 1
            return await real(self, chunks)

        monkeypatch.setattr(MemoryView, "parents", counted)
        await family.retrieve("truffles", top_k=30)
        assert calls == 1

    async def test_before_the_reranker(self, family: AsyncKnowledgeBase) -> None:
        """oasis 16: the reranker sees parents."""
        chunks = await family.chunks("long")
        parents = {chunk.text for chunk in chunks if chunk.level == "parent"}
        judge = Judge()
        async with base_of(
            Document(id="long", text=LONG),
            embedder=EMBEDDER,
            prefs="oasis",
            chunker="parent-child:96/24/0",
            reranker=judge,
        ) as base:
            await base.retrieve("truffles")
        assert {candidate.text for candidate in judge.seen[0]} <= parents


async def with_judge(
    judge: Judge, **settings: Any
) -> tuple[list[RetrievalResult], tuple[str, ...]]:
    async with base_of(*DOCUMENTS, embedder=EMBEDDER, prefs="oasis", reranker=judge) as base:
        found = await base.retrieve("configure logging", **settings)
        return found, found.degraded


async def test_reranker_decides_the_order_and_is_trimmed() -> None:
    """oasis 12: sorted by score, at most topK."""
    found, _ = await with_judge(Judge(), top_k=3)
    assert len(found) == 3
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert found[0].score == 1.0
    assert found[0].breakdown.rerank == 1.0


async def test_score_reranker(base: AsyncKnowledgeBase) -> None:
    """oasis 13: drops what is below the minimum, sorts the rest."""
    everything = await base.retrieve("configure logging")
    least = everything[2].score
    found = await base.retrieve("configure logging", rerank={"reranker": f"score:{least}"})
    assert [hit.chunk_id for hit in found] == [
        hit.chunk_id for hit in everything if hit.score >= least
    ]


@pytest.mark.parametrize("error", [RerankError("the service is down"), ZeroDivisionError("none")])
async def test_failing_reranker_passes_results_through(error: Exception) -> None:
    """oasis 14: on any failure the fused order stands, and it is noted."""
    plain, _ = await with_judge(Judge(), rerank={"enabled": False})
    found, degraded = await with_judge(Judge(error))
    assert found == plain
    assert degraded == (f"reranker: failed, the fused order stands ({error})",)


async def test_wrong_settings_of_a_reranker_are_errors() -> None:
    with pytest.raises(ConfigError, match="MY_KEY"):
        await with_judge(Judge(ConfigError("no key is set; set MY_KEY")))


async def test_scores_from_0_to_10_become_0_to_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """oasis 14: the model is asked for marks from 0 to 10; 10, 7 and 0 become 1, 0.7 and 0."""
    marks = {"ten": 1.0, "seven": 0.7, "none": 0.0}
    route = chat_route(lambda query, text: marks[text.split()[-1]])
    with ScriptedServer({"/chat/completions": route}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, prefs="oasis") as base:
            await base.add(*(Document(id=name, text=f"Truffles: {name}") for name in marks))
            found = await base.retrieve("truffles", rerank={"reranker": "llm-score:any"})
    assert [(hit.document_id, hit.breakdown.rerank, hit.score) for hit in found] == [
        ("ten", 10, 1.0), ("seven", 7, 0.7), ("none", 0, 0.0),
    ]  # fmt: skip
    (request,) = server.requests
    assert "score is a number from 0 to 10" in request.json["messages"][0]["content"]


async def test_score_filter_and_trim_come_last(base: AsyncKnowledgeBase) -> None:
    """oasis 15: below minScore nothing comes back, however much was asked for."""
    everything = await base.retrieve("configure logging", top_k=5)
    least = everything[1].score
    found = await base.retrieve("configure logging", min_score=least, top_k=5)
    assert [hit.score for hit in found] == [hit.score for hit in everything if hit.score >= least]


async def test_score_filter_is_on_the_rerankers_scores() -> None:
    """oasis 15: of five with the scores 0.2, 0.4, 0.6, 0.8 and 1, minScore 0.5 leaves three."""
    found, _ = await with_judge(Judge(), min_score=0.5)
    assert [hit.score for hit in found] == pytest.approx([1.0, 0.8, 0.6])


async def test_nonsense_of_the_model_passes_results_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """oasis 14: no verdict in three answers is a failure as any other."""
    with ScriptedServer(
        {"/chat/completions": lambda request: chat_reply("I can't say.")}
    ) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with base_of(*DOCUMENTS, embedder=EMBEDDER, prefs="oasis") as base:
            plain = await base.retrieve("logging")
            found = await base.retrieve("logging", rerank={"reranker": "llm-score:any"})
    assert [(hit.chunk_id, hit.score) for hit in found] == [
        (hit.chunk_id, hit.score) for hit in plain
    ]
    assert found.degraded[0].startswith("reranker: failed, the fused order stands (any left")


async def test_context_goes_everywhere(base: AsyncKnowledgeBase) -> None:
    """oasis 17: a cancelled context ends the call."""
    token = CancellationToken()
    token.fire()
    with pytest.raises(SearchCancelled):
        await base.retrieve("logging", request=RequestContext(cancellation=token))


async def test_thresholds_cut() -> None:
    """oasis 3: 0.05 and 0.1 cut what only keywords found, and far down in their list.

    Thirty of each leg: 0 is 0.3 / 90, 1 is 1 / 61. By keywords alone, the rank 15 scores
    (0.3 / 75 - 0.3 / 90) / (1 / 61 - 0.3 / 90) = 0.0511 and 16 scores 0.0470; the rank 4 scores
    0.1037 and 5 scores 0.0982.
    """
    near = [Document(id=f"near{n}", text="logging " * 3) for n in range(3)]
    worded = [Document(id=f"word{n:02}", text=f"zyzzyva {'weevil ' * n}") for n in range(30)]
    (vector,) = await EMBEDDER.embed([near[0].text], role="document")
    async with AsyncKnowledgeBase(
        ":memory:",
        embedder=EMBEDDER,
        prefs=OASIS.replace(top_k=30, overfetch=1, vector={"min_score": 0.9}),
    ) as base:
        await base.add(*near, *worded)
        everything, some, few = [
            await base.retrieve("zyzzyva", query_vector=vector, min_score=least)
            for least in (0, 0.05, 0.1)
        ]
    assert (len(everything), len(some), len(few)) == (30, 3 + 15, 3 + 4)
    low, high = 0.3 / 90, 1 / 61
    assert some[-1].score == pytest.approx((0.3 / 75 - low) / (high - low))
    assert everything[18].score == pytest.approx((0.3 / 76 - low) / (high - low))
    assert few[-1].score == pytest.approx((0.3 / 64 - low) / (high - low))


class Fixed:
    """A Retriever of somebody else's: a class with one method."""

    def __init__(self) -> None:
        self.asked: list[RetrievalPrefs] = []

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        self.asked.append(prefs)
        evidence = [EvidenceChunk(item_id="own", text="What it always says.", score=1.0)]
        return RetrievalBundle(candidates=[], evidence=evidence[: prefs.top_k_chunks])


class TestKnowledgeTool:
    """oasis 1: consumers depend on the Retriever protocol; the tool accepts any of them."""

    async def test_any_retriever(self, base: AsyncKnowledgeBase) -> None:
        store = MemoryStore()
        await store.write([await entry(document) for document in DOCUMENTS])
        others = (HybridRetriever(store=store, embedder=ENTRIES), base.retriever)
        for retriever in others:
            assert isinstance(retriever, Retriever)
            said = await KnowledgeTool(retriever, top_k=1)("How to configure logging?")
            assert said == f"[1] Doc: Logging guide\n{DOCUMENTS[0].text}"
        assert isinstance(Fixed(), Retriever)
        assert await KnowledgeTool(Fixed())("anything") == "[1] Doc: own\nWhat it always says."

    async def test_call(self) -> None:
        """With the arguments that a model wrote; what it may write is in the schema."""
        retriever = Fixed()
        tool = KnowledgeTool(retriever, name="docs", prefs=OASIS, top_k=4)
        await tool.call('{"query": "logging"}')
        await tool.call({"query": "logging", "top_k": 2})
        assert [prefs.top_k_chunks for prefs in retriever.asked] == [4, 2]
        assert {prefs.query_text for prefs in retriever.asked} == {"logging"}
        assert {prefs.scoring.keyword_weight for prefs in retriever.asked} == {0.3}
        for wrong in ("{", "[]", '{"top_k": 3}', '{"query": ""}', '{"query": "x", "top_k": 0}'):
            with pytest.raises(ConfigError, match="arguments of the tool"):
                await tool.call(wrong)

    def test_definition(self) -> None:
        function = KnowledgeTool(Fixed(), name="docs").definition["function"]
        assert function["name"] == "docs"
        assert "knowledge base" in function["description"]
        assert function["parameters"]["required"] == ["query"]
        query, top_k = function["parameters"]["properties"].values()
        assert (query["type"], query["minLength"]) == ("string", 1)
        assert (top_k["type"], top_k["minimum"], top_k["maximum"]) == ("integer", 1, 50)

    async def test_nothing_found_and_degraded(self) -> None:
        class Vectors(MemoryStore):
            capabilities = Capabilities(text=False, fuzzy=False)

        tool = KnowledgeTool(HybridRetriever(store=Vectors(), embedder=ENTRIES))
        said = await tool("anything")
        assert said.startswith("No passage was found.\n\nNote: text: this store has no full-text")


@pytest.mark.parametrize("top_k", [5, 10, 20])
async def test_overfetch_with_a_reranker(top_k: int) -> None:
    """oasis 8: the reranker sees all merged candidates, 3 topK of each leg; the trim comes after.

    From topK 17 on no hit of the keywords alone is among the first 50, since 0.3 / 61 is less than
    0.7 / (60 + 51); the best of them is the last document, to which the reranker gives the most.
    """
    judge = Judge()
    async with AsyncKnowledgeBase(
        ":memory:", embedder=Angles(), prefs="oasis", reranker=judge
    ) as base:
        await base.add(*spread(140, worded=70))
        fused = await base.retrieve("zebra", top_k=140, rerank={"enabled": False})
        found = await base.retrieve("zebra", top_k=top_k, debug=True)
    assert len(judge.seen[0]) == found.stats.counts["candidate_chunks"] == 6 * top_k
    assert found[0].score == 1.0
    assert found[0].chunk_id == judge.seen[0][-1].id
    assert len(found) == top_k
    only_words = next(hit for hit in fused if hit.document_id == "s139")
    assert any(candidate.id == only_words.chunk_id for candidate in judge.seen[0])


@pytest.mark.parametrize(
    ("given", "vector", "keyword"),
    [
        ({}, 0.7, 0.3),
        ({"w_text": 0.4}, 0.6, 0.4),
        ({"keyword_weight": 0.4}, 0.6, 0.4),
        ({"w_vec": 0.9}, 0.9, 0.1),
        ({"w_vec": 0.9, "w_text": 0.4}, 0.9, 0.4),
    ],
)
async def test_keyword_weight(
    base: AsyncKnowledgeBase, given: dict[str, float], vector: float, keyword: float
) -> None:
    """oasis 9: the keyword weight w leaves 1 - w to the vectors, if only one of them is given."""
    (hit, *_) = await base.retrieve("configure logging", scoring=given)
    total = vector + keyword
    assert hit.breakdown.semantic is not None
    assert hit.breakdown.text is not None
    ranks = hit.breakdown.semantic.rank or 0, hit.breakdown.text.rank or 0
    assert min(ranks) == 1
    expected = vector / (60 + ranks[0]) + keyword / (60 + ranks[1])
    assert hit.breakdown.fused == pytest.approx(expected)
    assert hit.breakdown.semantic.weight == pytest.approx(vector / total)
    assert hit.breakdown.text.weight == pytest.approx(keyword / total)
    once_more = RetrievalPrefs.preset("oasis", scoring=given).replace(top_k=3)
    assert once_more.scoring.w_vec == pytest.approx(vector)


def test_keyword_weight_is_a_share() -> None:
    """oasis 9: a weight above 1 leaves nothing to the other."""
    with pytest.raises(ConfigError, match="w_text is 2; with keyword_weight it is a share"):
        RetrievalPrefs.preset("oasis", scoring={"w_text": 2})
