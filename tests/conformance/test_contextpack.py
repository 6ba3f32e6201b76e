"""The design with a language model as reranker and cited packs. Preset `contextpack`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from lagotto.context import ContextPack, expand_neighbors
from lagotto.documents import Document, Page
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers.base import RerankResult
from lagotto.rerankers.llm import LlmConfig, LlmReranker
from lagotto.rerankers.wrappers import CachedReranker
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.rerank_server import chat_reply, chat_route
from lagotto.testing.server import Reply, ScriptedServer
from lagotto.tokens import ApproximateTokenizer

PACK = RetrievalPrefs.preset("contextpack")
QUESTION = "What is the main topic of the report?"
CHAT = "/chat/completions"


def paged(name: str, topic: str, pages: int = 6) -> Document:
    text, spans = "", []
    for number in range(1, pages + 1):
        start = len(text)
        text += f"Page {number} of {name} speaks of {topic}. " * 8 + "\n\n"
        spans.append(Page(number=number, start=start, end=len(text)))
    return Document(id=name, title=f"Report {name}", text=text, pages=tuple(spans))


DOCUMENTS = [paged("doc_1", "truffles"), paged("doc_2", "lakes"), paged("doc_3", "the main topic")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer({CHAT: chat_route()}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        yield server


@pytest.fixture
async def base(server: ScriptedServer) -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(
        ":memory:",
        embedder=HashEmbedder(),
        chunker="parent-child:128/32/0",
        prefs="contextpack",
    ) as base:
        await base.add(*DOCUMENTS)
        yield base


async def test_one_call_gives_a_pack(base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
    """contextpack 1: embed, search, fetch, rerank with the model, assemble."""
    pack = await base.context(QUESTION)
    assert isinstance(pack, ContextPack)
    assert pack.selected_chunks
    assert {request.path for request in server.requests} == {CHAT}
    assert server.requests[0].json["model"] == "gpt-4o"


async def test_reranked_order(base: AsyncKnowledgeBase) -> None:
    """contextpack 2: what the model says decides, best first."""
    found = await base.retrieve(QUESTION)
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert {hit.document_id for hit in found[:3]} == {"doc_3"}


@pytest.mark.parametrize("mark", [100, 70, 40, 0])
async def test_rubric(mark: int) -> None:
    """contextpack 3: 100, 70, 40 and 0 become 1, 0.7, 0.4 and 0, and the model is told of them."""
    with ScriptedServer({CHAT: chat_route(lambda query, text: mark / 100)}) as server:
        reranker = LlmReranker(LlmConfig(model="m", base_url=server.url))
        async with AsyncKnowledgeBase(
            ":memory:", embedder=HashEmbedder(), reranker=reranker
        ) as base:
            await base.add(Document(id="a", text="A truffle."))
            (hit,) = await base.retrieve("truffle")
        system = server.requests[0].json["messages"][0]["content"]
    assert hit.breakdown.rerank == mark
    assert hit.score == mark / 100
    for said in ("100", "70", "40", "0"):
        assert said in system


class TestReranking:
    """contextpack 4: strict JSON, retries, a cache, trimmed candidates."""

    async def test_strict_json(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        await base.retrieve(QUESTION)
        wanted = server.requests[0].json["response_format"]
        assert wanted["type"] == "json_schema"
        assert wanted["json_schema"]["strict"] is True

    async def test_retries(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        busy = Reply({"error": "busy"}, status=429, headers={"Retry-After": "0"})
        server.script(CHAT, busy, chat_reply("I can't say."))
        found = await base.retrieve(QUESTION)
        assert found.degraded == ()
        assert len(server.requests) >= 3

    async def test_cache(self, server: ScriptedServer, tmp_path: Path) -> None:
        model = LlmReranker(LlmConfig(model="gpt-4o"))
        async with AsyncKnowledgeBase(
            ":memory:",
            embedder=HashEmbedder(),
            prefs=PACK.replace(rerank={"reranker": None}),
            reranker=CachedReranker(model, folder=tmp_path),
        ) as base:
            await base.add(*DOCUMENTS)
            first = await base.retrieve(QUESTION)
            asked = len(server.requests)
            assert await base.retrieve(QUESTION) == first
            assert len(server.requests) == asked

    async def test_candidates_are_trimmed(self, server: ScriptedServer) -> None:
        async with AsyncKnowledgeBase(
            ":memory:", embedder=HashEmbedder(), prefs="contextpack", chunker="recursive:1024/0"
        ) as base:
            await base.add(Document(id="long", text="word " * 900))
            await base.retrieve("word")
        shown = server.requests[0].json["messages"][1]["content"]
        assert shown.count("word") <= 1200 // 5 + 1


async def test_rerank_result_fields(base: AsyncKnowledgeBase) -> None:
    """contextpack 5: chunk_id, relevance_score, answerability, key_evidence; evidence is quoted."""
    assert set(RerankResult.model_fields) == {
        "chunk_id", "relevance_score", "answerability", "key_evidence",
    }  # fmt: skip
    found = await base.retrieve(QUESTION)
    best = found[0]
    assert best.answerable is True
    assert best.evidence is not None
    start, end = best.evidence
    assert best.content[start:end].strip()


def test_rerank_config() -> None:
    """contextpack 6: gpt-4o, 50 candidates, the best 15, 1200 characters each, strict JSON."""
    assert PACK.rerank.reranker == "llm:gpt-4o"
    assert PACK.rerank.candidates == 50
    assert PACK.rerank.keep == 15
    assert PACK.rerank.max_text_chars == 1200
    assert LlmConfig(model="gpt-4o").max_text_chars == 1200


class TestAssembly:
    """contextpack 7, 8 and 9: primaries, parents, siblings, other pages; then the budget."""

    async def test_order(self, base: AsyncKnowledgeBase) -> None:
        pack = await base.context(QUESTION, rerank={"keep": 4})
        roles = [chunk.role for chunk in pack.selected_chunks]
        near = [role for role in roles if role in {"primary", "parent"}]
        assert roles == near + sorted(roles[len(near) :], key=["sibling", "cross_page"].index)
        ranks = [chunk.rank for chunk in pack.selected_chunks if chunk.role == "primary"]
        assert ranks == sorted(ranks)
        for place, chunk in enumerate(pack.selected_chunks):
            if chunk.role == "parent":
                child = pack.selected_chunks[place - 1]
                assert child.rank == chunk.rank
                assert chunk.start <= child.start < child.end <= chunk.end

    async def test_no_text_twice(self, base: AsyncKnowledgeBase) -> None:
        pack = await base.context(QUESTION)
        spans = sorted((item.document_id, item.start, item.end) for item in pack.citations)
        for one, other in pairwise(spans):
            assert one[0] != other[0] or one[2] <= other[1]

    @pytest.mark.parametrize("budget", [40, 200, 600, 12_000])
    async def test_budget(self, base: AsyncKnowledgeBase, budget: int) -> None:
        pack = await base.context(QUESTION, max_tokens=budget)
        (counted,) = ApproximateTokenizer().count([pack.context_pack])
        assert counted == pack.tokens == pack.trace.final_token_count <= budget

    async def test_drop_order(self, base: AsyncKnowledgeBase) -> None:
        whole = await base.context(QUESTION)
        small = await base.context(QUESTION, max_tokens=whole.tokens // 3)
        order = ["cross_page", "sibling", "parent", "primary"]
        gone = {item.role for item in small.trace.dropped}
        kept = {chunk.role for chunk in small.selected_chunks}
        assert gone
        worst_kept = min(order.index(role) for role in kept)
        best_gone = max(order.index(role) for role in gone)
        assert best_gone <= worst_kept

    async def test_minimum_is_kept(self, base: AsyncKnowledgeBase) -> None:
        pack = await base.context(QUESTION, max_tokens=150)
        primaries = [chunk for chunk in pack.selected_chunks if chunk.role == "primary"]
        assert len(primaries) >= 3


def test_retrieval_config() -> None:
    """contextpack 10: 1 and 2 neighbours, parents, 12000 tokens, 3 hits at least; from_env."""
    context = PACK.context
    assert (context.neighbor_same_page, context.neighbor_cross_page) == (1, 2)
    assert context.include_parents
    assert context.max_tokens == 12_000
    assert context.min_primary_hits_to_keep == 3
    prefs = RetrievalPrefs.from_env(
        {
            "LAGOTTO_RETRIEVAL_PRESET": "contextpack",
            "LAGOTTO_RETRIEVAL_CONTEXT__NEIGHBOR_SAME_PAGE": "4",
        }
    )
    assert prefs.context.neighbor_same_page == 4
    assert prefs.rerank.keep == 15


async def test_expand_neighbors(base: AsyncKnowledgeBase) -> None:
    """contextpack 11: the chunk itself, siblings of its parent, chunks of adjacent pages."""
    chunks = await base.chunks("doc_1")
    children = [chunk for chunk in chunks if chunk.level == "child"]
    middle = children[len(children) // 2]
    around = expand_neighbors(middle, chunks, PACK.context)
    assert middle in around
    others = [chunk for chunk in around if chunk != middle]
    assert middle.pages is not None
    for chunk in others:
        assert chunk.pages is not None
        same_parent = chunk.parent_id == middle.parent_id
        assert same_parent or abs(chunk.pages[0] - middle.pages[0]) == 1


async def test_pack_fields(base: AsyncKnowledgeBase) -> None:
    """contextpack 12: query, selected_chunks, citations, trace, context_pack."""
    pack = await base.context(QUESTION)
    assert pack.query == QUESTION
    assert {"query", "selected_chunks", "citations", "trace", "context_pack"} <= set(
        ContextPack.model_fields
    )
    assert all(isinstance(str(citation), str) for citation in pack.citations)
    assert "[1]" in pack.context_pack


async def test_trace(base: AsyncKnowledgeBase) -> None:
    """contextpack 13: candidates, rerank results, token count, expansion statistics."""
    pack = await base.context(QUESTION)
    trace = pack.trace
    assert trace.pinecone_candidates == trace.candidates
    assert len(trace.candidates) > len(trace.rerank_results) > 0
    assert all(0 <= item.relevance_score <= 100 for item in trace.rerank_results)
    assert trace.final_token_count == pack.tokens
    assert set(trace.expansion_stats) == {"primary", "parent", "sibling", "cross_page"}


async def test_citations(base: AsyncKnowledgeBase) -> None:
    """contextpack 14: Doc, Page, Section; and they lead back to the text."""
    pack = await base.context(QUESTION)
    first = pack.citations[0]
    assert str(first).startswith("Doc: Report doc_3 | Page: ")
    passage = await base.resolve(first)
    document = await base.get("doc_3")
    assert document is not None
    assert passage.text == document.text[first.start : first.end]


async def test_filters(base: AsyncKnowledgeBase) -> None:
    """contextpack 15: equality as a dict."""
    pack = await base.context(QUESTION, filters={"document_id": "doc_1"})
    assert {chunk.document_id for chunk in pack.selected_chunks} == {"doc_1"}


async def test_batches(server: ScriptedServer) -> None:
    """contextpack 16: texts are embedded together."""
    calls: list[int] = []

    class Counting(HashEmbedder):
        async def embed(self, texts, *, role):  # type: ignore[no-untyped-def]
            calls.append(len(texts))
            return await super().embed(texts, role=role)

    async with AsyncKnowledgeBase(":memory:", embedder=Counting(), prefs="contextpack") as base:
        await base.add(*DOCUMENTS)
    assert len(calls) == 1


async def test_usage_example(base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the design, in Python."""
    monkeypatch.setenv("LAGOTTO_RETRIEVAL_PRESET", "contextpack")
    config = RetrievalPrefs.from_env()
    result = await base.context(QUESTION, filters={"document_id": "doc_1"}, prefs=config)
    assert len(result.selected_chunks) > 0
    assert [str(citation) for citation in result.citations]
    assert result.context_pack
