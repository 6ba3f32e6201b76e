"""What a caller passes wins over what a preset names: one rule, for every part of every design."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.prefs import RetrievalPrefs
from lagotto.presets import preset_names
from lagotto.request_context import RequestContext
from lagotto.rerankers.base import UNIT, Candidate, Judgement, Verdict
from lagotto.retrieval.query.expansion import Expansion
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.memory import MemoryStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import EMBEDDER as ENTRIES
from lagotto.testing.stores import entry
from tests.bases import base_of
from tests.conformance.lists import DOCUMENTS, LONG
from tests.counting import CountingEmbedder
from tests.servers.scripted import ScriptedServer, chat_route

QUERY = "configure logging"
CHAT = "/chat/completions"


class Mine:
    """A reranker of the caller: the shorter a text, the better, and never 0."""

    id = "mine"
    scale = UNIT
    reads_only_text = True

    def __init__(self) -> None:
        self.calls = 0

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        self.calls += 1
        return Judgement([Verdict(1 / (1 + len(one.text))) for one in candidates])

    async def close(self) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """The language model that the preset contextpack names."""
    server = ScriptedServer({CHAT: chat_route()})
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    return server


class TestReranker:
    """contextpack names llm:gpt-4o; whoever passes a reranker means that one."""

    async def test_of_the_base(self, service: ScriptedServer) -> None:
        mine = Mine()
        with service:
            async with base_of(
                *DOCUMENTS, embedder=HashEmbedder(), prefs="contextpack", reranker=mine
            ) as base:
                found = await base.retrieve(QUERY)
                await base.search(QUERY)
                await base.context(QUERY)
                await base.retrieve_many([QUERY])
        assert mine.calls == 4
        assert service.requests == []
        shortest = min(DOCUMENTS, key=lambda document: len(document.text))
        assert found[0].document_id == shortest.id
        assert found[0].breakdown.rerank == 1 / (1 + len(shortest.text))

    async def test_preset_of_a_single_call(self, service: ScriptedServer) -> None:
        mine = Mine()
        preset = RetrievalPrefs.preset("contextpack", query_text=QUERY)
        with service:
            async with base_of(*DOCUMENTS, embedder=HashEmbedder(), reranker=mine) as base:
                await base.retrieve(QUERY, prefs="contextpack")
                await base.context(QUERY, prefs=preset.replace(top_k=3))
                await base.retriever.search(RequestContext(), preset)
        assert mine.calls == 3
        assert service.requests == []

    async def test_of_a_retriever(self, service: ScriptedServer) -> None:
        mine = Mine()
        store = MemoryStore()
        await store.write([await entry(document) for document in DOCUMENTS])
        retriever = HybridRetriever(store=store, embedder=ENTRIES, reranker=mine)
        with service:
            await retriever.retrieve(RetrievalPrefs.preset("contextpack", query_text=QUERY))
        assert (mine.calls, service.requests) == (1, [])

    async def test_settings_of_the_caller_are_no_preset(self, service: ScriptedServer) -> None:
        """What the call names wins over what the base was given, also by the preset's own name."""
        mine = Mine()
        with service:
            async with base_of(
                *DOCUMENTS, embedder=HashEmbedder(), prefs="contextpack", reranker=mine
            ) as base:
                named = await base.retrieve(QUERY, rerank={"reranker": "overlap"})
                own = RetrievalPrefs(rerank={"reranker": "overlap"})
                preferred = await base.retrieve(QUERY, prefs=own)
                assert mine.calls == 0
                assert named[0].breakdown.rerank == preferred[0].breakdown.rerank == 1.0
                await base.retrieve(QUERY, rerank={"reranker": "llm:gpt-4o"})
        assert mine.calls == 0
        assert len(service.requests) == 1

    async def test_argument_wins_over_preferences_of_the_base(self) -> None:
        mine = Mine()
        named = RetrievalPrefs(rerank={"reranker": "overlap"})
        async with base_of(*DOCUMENTS, embedder=HashEmbedder(), prefs=named, reranker=mine) as base:
            await base.retrieve(QUERY)
        assert mine.calls == 1

    async def test_preset_holds_where_nothing_is_passed(self, service: ScriptedServer) -> None:
        with service:
            async with base_of(*DOCUMENTS, embedder=HashEmbedder(), prefs="contextpack") as base:
                await base.retrieve(QUERY)
        (request,) = service.requests
        assert request.json["model"] == "gpt-4o"


PRESETS = [name for name in preset_names() if name != "contextpack"]
"""Those that need no service."""


@pytest.mark.parametrize("preset", PRESETS)
async def test_embedder(preset: str) -> None:
    """Also local-rag, whose design says MiniLM."""
    mine = CountingEmbedder()
    async with base_of(*DOCUMENTS, embedder=mine, prefs=preset) as base:
        await base.retrieve(QUERY)
        assert base.embedder is mine
        assert (await base.info()).model_id == mine.info.model_id
    assert mine.queries == [QUERY]


@pytest.mark.parametrize("preset", PRESETS)
async def test_chunker(preset: str, tmp_path: Path) -> None:
    """Of stored chunks, and of chunks made at query time."""
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=HashEmbedder(), chunker="sentence:12", prefs=preset
    ) as base:
        await base.add(Document(id="long", text=LONG))
        stored = {(chunk.start, chunk.end) for chunk in await base.chunks("long")}
        found = await base.retrieve("who looks for truffles", min_score=0)
        assert {(hit.start, hit.end) for hit in found} <= stored
        late = {"strategy": "late", "chunker_id": "recursive:64/0"}
        other = await base.retrieve("who looks for truffles", min_score=0, chunking=late)
        assert not {(hit.start, hit.end) for hit in other} & stored


class Words:
    """An expander of the caller."""

    async def expand(self, query: str) -> Expansion:
        return Expansion(queries=("island of Plato",))


@pytest.mark.parametrize("preset", PRESETS)
async def test_expander(preset: str) -> None:
    mine = CountingEmbedder()
    async with base_of(*DOCUMENTS, embedder=mine, prefs=preset, expander=Words()) as base:
        await base.retrieve(QUERY)
    assert mine.queries == [QUERY, "island of Plato"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_counter(preset: str) -> None:
    """Of a pack's tokens; otherwise the embedder's tokenizer counts them."""
    async with base_of(*DOCUMENTS, embedder=HashEmbedder(), prefs=preset) as base:
        pack = await base.context(QUERY, counter=len, max_tokens=300)
    assert pack.tokens == len(pack.context_pack) <= 300


@pytest.mark.parametrize("preset", PRESETS)
async def test_query_vector(preset: str) -> None:
    """The caller's vector is the query's, with an expander too, whatever embeds queries."""
    mine = CountingEmbedder()
    (vector,) = await HashEmbedder(dimension=64).embed(["island of Plato"], role="query")
    async with base_of(*DOCUMENTS, embedder=mine, prefs=preset) as base:
        own = await base.retrieve(QUERY, mode="semantic", query_vector=vector)
        embedded = await base.retrieve("island of Plato", mode="semantic")
    assert mine.queries == ["island of Plato"]
    assert [hit.chunk_id for hit in own] == [hit.chunk_id for hit in embedded]


async def test_query_vector_with_an_expander() -> None:
    """The mean of the caller's vector and of what the expander adds; the query is not embedded."""
    mine = CountingEmbedder()
    plato, stargate = await HashEmbedder(dimension=64).embed(
        ["island of Plato", "stargate seasons"], role="query"
    )
    mean = (plato + stargate) / np.linalg.norm(plato + stargate)
    async with base_of(*DOCUMENTS, embedder=mine, expander=Words()) as base:
        both = await base.retrieve(QUERY, mode="semantic", query_vector=stargate)
        assert mine.queries == ["island of Plato"]
    async with base_of(*DOCUMENTS, embedder=mine) as base:
        alone = await base.retrieve(QUERY, mode="semantic", query_vector=mean)
    assert [hit.score for hit in both] == pytest.approx([hit.score for hit in alone], abs=1e-6)
