"""The design with a language model as reranker and cited packs. Preset `contextpack`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import pairwise, product
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagotto.base.chunk_context import context_of_chunks
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.context import ContextPack, expand_neighbors
from lagotto.documents import Chunk, Document, Heading, Location, Page
from lagotto.errors import ConfigError
from lagotto.models.http import RetryPolicy
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers import RERANKERS
from lagotto.rerankers.base import Candidate, RerankResult, Verdict
from lagotto.rerankers.llm import LlmConfig, LlmReranker
from lagotto.rerankers.wrappers import CachedReranker
from lagotto.results import format_citation
from lagotto.testing.hash_embedder import HashEmbedder
from tests.bases import base_of
from tests.conformance.lists import Angles, spread
from tests.counting import CountingEmbedder
from tests.rerankers.doubles import Scripted
from tests.servers.scripted import Reply, ScriptedServer, chat_reply, chat_route

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


BEASTS = (
    "ant", "ape", "bat", "bee", "boa", "cat", "cod", "cow", "doe", "eel",
    "elk", "emu", "fox", "gnu", "hen", "jay", "owl", "pig", "ram", "yak",
)  # fmt: skip


def book(name: str) -> Document:
    """Four pages, each a parent of five sentences, each a child that speaks of one beast."""
    text, spans = "", []
    for page in range(4):
        start = len(text)
        for beast in BEASTS[5 * page : 5 * page + 5]:
            text += f"A {name} {beast} lives under stones near water and eats what it finds. "
        text += "\n\n"
        spans.append(Page(number=page + 1, start=start, end=len(text)))
    return Document(id=name, text=text, pages=tuple(spans))


def in_roles(pack: ContextPack) -> tuple[int, int, int, int]:
    """How many primaries, parents, siblings and chunks of other pages a pack has."""
    primary, parent, sibling, cross_page = (
        sum(item.role == role for item in pack.selected_chunks)
        for role in ("primary", "parent", "sibling", "cross_page")
    )
    return primary, parent, sibling, cross_page


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer({CHAT: chat_route()}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        yield server


@pytest.fixture
async def base(server: ScriptedServer) -> AsyncIterator[AsyncKnowledgeBase]:
    async with base_of(
        *DOCUMENTS, embedder=HashEmbedder(), chunker="parent-child:128/32/0", prefs="contextpack"
    ) as base:
        yield base


async def test_one_call_gives_a_pack(base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
    """contextpack 1: embed, search, fetch, rerank with the model, assemble."""
    pack = await base.context(QUESTION)
    assert isinstance(pack, ContextPack)
    assert pack.selected_chunks
    assert {request.path for request in server.requests} == {CHAT}
    assert server.requests[0].json["model"] == "gpt-4o"
    told = "".join(request.json["messages"][1]["content"] for request in server.requests)
    assert QUESTION in told
    assert all(
        chunk.text.strip() in told for chunk in pack.selected_chunks if chunk.role == "primary"
    )


async def test_reranked_order(base: AsyncKnowledgeBase) -> None:
    """contextpack 2: what the model says decides, best first."""
    found = await base.retrieve(QUESTION)
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert {hit.document_id for hit in found[:3]} == {"doc_3"}


RUBRIC = {
    100: "100: answers the query directly, with explicit evidence",
    70: "70: highly relevant, but only a partial answer",
    40: "40: related context that does not answer",
    0: "0: unrelated",
}


async def test_rubric(server: ScriptedServer) -> None:
    """contextpack 3: the model is told what 100, 70, 40 and 0 mean; they become 1, 0.7, 0.4, 0."""
    documents = [Document(id=str(mark), text=f"Passage of {mark}") for mark in RUBRIC]
    route = chat_route(lambda query, text: int(text.split()[-1]) / 100)
    server.script(CHAT, *(route for _ in documents))
    async with base_of(*documents, embedder=HashEmbedder(), prefs="contextpack") as base:
        found = await base.retrieve("passage")
    assert [(hit.breakdown.rerank, hit.score) for hit in found] == [
        (100, 1.0), (70, 0.7), (40, 0.4), (0, 0.0),
    ]  # fmt: skip
    told = server.requests[0].json["messages"][0]["content"].splitlines()
    assert [line for line in told if line[0].isdigit()] == list(RUBRIC.values())


class TestReranking:
    """contextpack 4: strict JSON, retries, a cache, trimmed candidates."""

    async def test_strict_json(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        await base.retrieve(QUESTION)
        wanted = server.requests[0].json["response_format"]
        assert wanted["type"] == "json_schema"
        assert wanted["json_schema"]["strict"] is True

    async def test_invalid_answers(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        """Validated, asked again, and noted; the pack is made of the nearest."""
        server.script(CHAT, *(chat_reply("sorry") for _ in range(60)))
        pack = await base.context(QUESTION)
        assert "the fused order stands" in pack.trace.notes[0]
        nearest = [item.chunk_id for item in pack.trace.candidates[:15]]
        assert [
            chunk.chunk_id for chunk in pack.selected_chunks if chunk.role == "primary"
        ] == nearest

    def test_backoff(self) -> None:
        """Pauses double: half a second, one, two, with up to half of it less."""
        policy = RetryPolicy()
        for failures in range(1, 6):
            longest = 0.5 * 2 ** (failures - 1)
            assert longest / 2 <= policy.wait(failures) <= longest

    async def test_retries(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        busy = Reply({"error": "busy"}, status=429, headers={"Retry-After": "0"})
        server.script(CHAT, busy, chat_reply("I can't say."))
        found = await base.retrieve(QUESTION)
        assert found.degraded == ()
        assert len(server.requests) >= 3

    @pytest.mark.parametrize(("settings", "longest"), [({}, 1200), ({"max_text_chars": 20}, 20)])
    async def test_any_reranker_gets_trimmed_texts(
        self, settings: dict[str, int], longest: int
    ) -> None:
        seen: list[int] = []

        def look(query: str, candidate: Candidate) -> Verdict:
            seen.append(len(candidate.text))
            return Verdict(0.5)

        async with base_of(
            *DOCUMENTS,
            embedder=HashEmbedder(),
            chunker="document",
            prefs="contextpack",
            reranker=Scripted(rule=look),
        ) as base:
            await base.retrieve(QUESTION, rerank=settings)
        assert seen == [longest] * len(DOCUMENTS)

    async def test_cache(self, server: ScriptedServer, tmp_path: Path) -> None:
        """Verdicts are kept by query, model and text: only what is new of these is asked for."""
        texts = {"a": "Truffles are the main topic.", "b": "Lakes are not.", "c": "Nor is weather."}

        async def passages_asked_for(model: str, query: str) -> int:
            server.requests.clear()
            reranker = CachedReranker(LlmReranker(LlmConfig(model=model)), folder=tmp_path)
            async with base_of(
                *(Document(id=name, text=text) for name, text in texts.items()),
                embedder=HashEmbedder(),
                prefs=PACK.replace(rerank={"reranker": None}),
                reranker=reranker,
            ) as base:
                found = await base.retrieve(query)
                assert await base.retrieve(query) == found
            assert len(found) == 3
            prompts = [request.json["messages"][1]["content"] for request in server.requests]
            return sum(prompt.count("</passage-") for prompt in prompts)

        assert await passages_asked_for("gpt-4o", QUESTION) == 3
        assert await passages_asked_for("gpt-4o", QUESTION) == 0
        texts["b"] = "Lakes are, by the way."
        assert await passages_asked_for("gpt-4o", QUESTION) == 1
        assert await passages_asked_for("gpt-4o", f"{QUESTION} Really?") == 3
        assert await passages_asked_for("gpt-4o-mini", QUESTION) == 3

    async def test_candidates_are_trimmed(self, server: ScriptedServer) -> None:
        async with AsyncKnowledgeBase(
            ":memory:", embedder=HashEmbedder(), prefs="contextpack", chunker="recursive:1024/0"
        ) as base:
            await base.add(Document(id="long", text="word " * 900))
            await base.retrieve("word")
        shown = server.requests[0].json["messages"][1]["content"]
        assert shown.count("word") <= 1200 // 5 + 1


async def test_rerank_result_fields(server: ScriptedServer) -> None:
    """contextpack 5: chunk_id, relevance_score, answerability, key_evidence; best first."""
    marks = {"Truffles are the main topic.": 0.9, "Lakes come second.": 0.4, "Weather.": 0.0}
    server.script(CHAT, chat_route(lambda query, text: marks[text]))
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder(), prefs="contextpack") as base:
        await base.add(*(Document(id=str(n), text=text) for n, text in enumerate(marks)))
        chunks = [(await base.chunks(str(n)))[0].id for n in range(3)]
        pack = await base.context(QUESTION)
    # The model of these tests quotes the last line of what has a mark, here the whole text.
    assert list(pack.trace.rerank_results) == [
        RerankResult(
            chunk_id=chunks[0],
            relevance_score=90,
            answerability=True,
            key_evidence="Truffles are the main topic.",
        ),
        RerankResult(
            chunk_id=chunks[1],
            relevance_score=40,
            answerability=False,
            key_evidence="Lakes come second.",
        ),
        RerankResult(chunk_id=chunks[2], relevance_score=0, answerability=False, key_evidence=None),
    ]


@pytest.mark.parametrize(
    ("dense", "most", "top_n"),
    [
        (None, None, None),
        *product((30, 60), (7, 20, 70), (3, 25)),
        (40, 20, None),
        (40, None, 25),
        (10, None, None),
        (None, 7, None),
    ],
)
async def test_sizes(
    server: ScriptedServer, dense: int | None, most: int | None, top_n: int | None
) -> None:
    """contextpack 1, 6 and 13: top_k_dense, max_candidates_to_rerank, return_top_n as named.

    Of 70 chunks the nearest `dense` are candidates, the first `most` of these are judged, and the
    best `top_n` of these are primaries: 50, 50 and 15 by default, each whatever the others are.
    """
    named = {"candidates": most, "keep": top_n}
    rerank = {name: value for name, value in named.items() if value}
    settings: dict[str, Any] = {"rerank": rerank, **({"candidates": dense} if dense else {})}
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs="contextpack") as base:
        await base.add(*spread(70, worded=0))
        pack = await base.context(QUESTION, **settings)
        chunks = [(await base.chunks(f"s{n:03}"))[0].id for n in range(dense or 50)]
    asked = "".join(request.json["messages"][1]["content"] for request in server.requests)
    judged = min(dense or 50, most or 50)
    assert asked.count("</passage-") == judged
    assert [item.chunk_id for item in pack.trace.pinecone_candidates] == chunks
    assert {item.chunk_id for item in pack.trace.rerank_results} == set(chunks[:judged])
    assert [chunk.role for chunk in pack.selected_chunks] == ["primary"] * min(judged, top_n or 15)


@pytest.mark.parametrize("settings", [{}, {"top_k": 4}, {"rerank": {"keep": 3}}])
async def test_sizes_without_a_reranker(settings: dict[str, Any]) -> None:
    """contextpack 6 and 13: the nearest are primaries, and the trace has all candidates."""
    prefs = PACK.replace(rerank={"reranker": None}, candidates=40).replace(**settings)
    async with AsyncKnowledgeBase(":memory:", embedder=Angles(), prefs=prefs) as base:
        await base.add(*spread(70, worded=0))
        pack = await base.context(QUESTION)
    nearest = [f"s{n:03}" for n in range(40)]
    assert [item.document_id for item in pack.trace.pinecone_candidates] == nearest
    assert [item.rank for item in pack.trace.candidates] == list(range(1, 41))
    cosine = float(np.cos(np.radians(19.5)))
    assert pack.trace.candidates[-1].score == pytest.approx(cosine, abs=1e-5)
    shown = settings.get("top_k") or settings.get("rerank", {}).get("keep") or 15
    assert [chunk.document_id for chunk in pack.selected_chunks] == nearest[:shown]


def test_rerank_config() -> None:
    """contextpack 6: gpt-4o, 50 candidates, the best 15, 1200 characters each, strict JSON."""
    assert PACK.rerank.reranker == "cached:llm:gpt-4o"
    assert PACK.rerank.candidates == 50
    assert PACK.rerank.keep == 15
    assert PACK.rerank.max_text_chars == 1200
    assert LlmConfig(model="gpt-4o").max_text_chars == 1200
    assert LlmConfig(model="gpt-4o").strict_json_output is True


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

    @pytest.mark.parametrize("parents", [True, False])
    async def test_order_of_neighbours(self, base: AsyncKnowledgeBase, parents: bool) -> None:
        """Two hits, each followed by its parent, then all siblings, then what other pages have."""
        await base.remove(*(document.id for document in DOCUMENTS))
        await base.add(book("red"), book("blue"))
        context = {"include_parents": parents}
        pack = await base.context("red cow or blue cow", rerank={"keep": 2}, context=context)
        hit = ["primary", "parent"] if parents else ["primary"]
        roles = [chunk.role for chunk in pack.selected_chunks]
        assert roles == [*hit, *hit, *["sibling"] * 4, *["cross_page"] * 8]

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

    @pytest.mark.parametrize("parents", [True, False])
    async def test_drop_order(self, base: AsyncKnowledgeBase, parents: bool) -> None:
        """Chunks of other pages go first, then siblings, then parents, then primaries.

        There are two hits, each with its parent, 2 siblings, which are parts of the parent, and 4
        chunks of other pages. Each budget is one token less than the pack before it has.
        """
        await base.remove(*(document.id for document in DOCUMENTS))
        await base.add(book("red"), book("blue"))
        context = {"include_parents": parents, "min_primary_hits_to_keep": 1}
        kept: list[tuple[int, int, int, int]] = []
        budget = 12_000
        while not kept or kept[-1] != (1, 0, 0, 0):
            pack = await base.context(
                "red cow or blue cow", max_tokens=budget, rerank={"keep": 2}, context=context
            )
            kept.append(in_roles(pack))
            traced = tuple(count.kept for count in pack.trace.expansion_stats.values())
            assert traced == kept[-1]
            found = tuple(count.found for count in pack.trace.expansion_stats.values())
            assert found == (2, 2 * parents, 4, 8)
            budget = pack.tokens - 1
        siblings = [] if parents else [(2, 0, 3, 0), (2, 0, 2, 0), (2, 0, 1, 0)]
        assert kept == [
            *((2, 2 * parents, 4, across) for across in range(8, -1, -1)),
            *siblings,
            *([(2, 1, 0, 0)] if parents else []),
            (2, 0, 0, 0),
            (1, 0, 0, 0),
        ]

    @pytest.mark.parametrize(("minimum", "kept"), [(1, 2), (2, 2), (3, 3), (None, 3)])
    async def test_minimum_is_kept(
        self, base: AsyncKnowledgeBase, minimum: int | None, kept: int
    ) -> None:
        """Three hits are one token too many: two stay, or three, with less of the third."""
        alone = {"include_parents": False, "neighbor_same_page": 0, "neighbor_cross_page": 0}
        three = await base.context(QUESTION, rerank={"keep": 3}, context=alone)
        assert in_roles(three) == (3, 0, 0, 0)
        settings = {"min_primary_hits_to_keep": minimum} if minimum else {}
        pack = await base.context(QUESTION, max_tokens=three.tokens - 1, context=settings)
        assert in_roles(pack) == (kept, 0, 0, 0)
        assert [item.truncated for item in pack.selected_chunks] == [False, False, True][:kept]
        assert [item.rank for item in pack.selected_chunks] == [1, 2, 3][:kept]
        assert pack.tokens < three.tokens


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
    given = {
        "context.neighbor_cross_page": 5,
        "context.include_parents": False,
        "context.max_tokens": 900,
        "context.min_primary_hits_to_keep": 2,
        "rerank.candidates": 30,
        "rerank.keep": 9,
        "rerank.max_text_chars": 100,
        "rerank.reranker": "llm:other",
        "candidates": 40,
    }
    variables = {
        f"LAGOTTO_RETRIEVAL_{name.upper().replace('.', '__')}": str(value)
        for name, value in given.items()
    }
    prefs = RetrievalPrefs.from_env({**variables, "LAGOTTO_RETRIEVAL_PRESET": "contextpack"})
    for name, value in given.items():
        assert attrgetter(name)(prefs) == value


def child(page: int, number: int) -> Chunk:
    """One of four chunks of a page, which is their parent."""
    ordinal = 4 * page + number
    return Chunk(
        id=f"{page}.{number}",
        collection="default",
        document_id="doc_1",
        chunker_id="any",
        level="child",
        parent_id=str(page),
        ordinal=ordinal,
        text="0123456789",
        token_count=5,
        start=10 * ordinal,
        end=10 * ordinal + 10,
        pages=(page, page),
    )


@pytest.mark.parametrize(
    ("middle", "near", "across", "expected"),
    [
        ((5, 1), 1, 2, "4.2 4.3 5.0 5.1 5.2 6.0 6.1"),
        ((5, 1), 2, 1, "4.3 5.0 5.1 5.2 5.3 6.0"),
        ((5, 3), 1, 0, "5.2 5.3"),
        ((5, 0), 0, 2, "4.2 4.3 5.0 6.0 6.1"),
        ((1, 0), 1, 2, "1.0 1.1 2.0 2.1"),
        ((5, 1), 0, 0, "5.1"),
        ((5, 1), 0, 9, "4.0 4.1 4.2 4.3 5.1 6.0 6.1 6.2 6.3"),
    ],
)
def test_expand_neighbors(middle: tuple[int, int], near: int, across: int, expected: str) -> None:
    """contextpack 11: the chunk itself, siblings of its parent, chunks of adjacent pages."""
    chunks = [child(page, number) for page in range(1, 9) for number in range(4)]
    prefs = PACK.replace(context={"neighbor_same_page": near, "neighbor_cross_page": across})
    around = expand_neighbors(child(*middle), chunks[::-1], prefs.context)
    assert [chunk.id for chunk in around] == expected.split()


async def test_pack_fields(base: AsyncKnowledgeBase) -> None:
    """contextpack 12: query, selected_chunks, citations, trace, context_pack."""
    pack = await base.context(QUESTION, rerank={"keep": 2})
    fields = pack.model_dump()
    assert {"query", "selected_chunks", "citations", "trace", "context_pack"} <= set(fields)
    assert pack.query == QUESTION
    roles = [chunk["role"] for chunk in fields["selected_chunks"]]
    assert roles[:3] == ["primary", "parent", "primary"]
    texts = {document.id: document.text for document in DOCUMENTS}
    for chunk in fields["selected_chunks"]:
        assert chunk["text"] == texts[chunk["document_id"]][chunk["start"] : chunk["end"]]
        marker = pack.citations[chunk["marker"] - 1]
        assert marker.start <= chunk["start"] < chunk["end"] <= marker.end
        assert f"[{chunk['marker']}] {marker}\n" in pack.context_pack
    assert all(str(citation).startswith("Doc: doc_3 | Page: ") for citation in pack.citations)


async def test_trace(base: AsyncKnowledgeBase) -> None:
    """contextpack 13: candidates, rerank results, token count, expansion statistics."""
    pack = await base.context(QUESTION, candidates=12, rerank={"candidates": 6, "keep": 2})
    trace = pack.trace
    assert trace.pinecone_candidates == trace.candidates
    assert (len(trace.candidates), len(trace.rerank_results)) == (12, 6)
    found = await base.retrieve(QUESTION, top_k=12, candidates=12, rerank={"enabled": False})
    assert [(item.chunk_id, item.rank, item.score) for item in trace.candidates] == [
        (hit.chunk_id, hit.rank, hit.score) for hit in found
    ]
    assert {item.chunk_id for item in trace.rerank_results} == {hit.chunk_id for hit in found[:6]}
    (counted,) = ApproximateTokenizer().count([pack.context_pack])
    assert trace.final_token_count == counted
    kept = {role: count.kept for role, count in trace.expansion_stats.items()}
    assert tuple(kept.values()) == in_roles(pack)
    assert kept["primary"] == 2


async def test_citations(base: AsyncKnowledgeBase) -> None:
    """contextpack 14: Doc, Page, Section; and they lead back to the text, for every marker."""
    await base.add(book("red"))
    pack = await base.context(
        "red cow",
        rerank={"keep": 1},
        filters={"document_id": "red"},
        context={"max_tokens": 12_000},
    )
    document = await base.get("red")
    assert document is not None
    cited = [
        (str(citation), document.text[citation.start : citation.end]) for citation in pack.citations
    ]
    assert [label for label, _ in cited] == [
        "Doc: red | Page: 2",
        "Doc: red | Page: 1",
        "Doc: red | Page: 3",
    ]
    assert "A red cow lives" in cited[0][1]
    for marker, (citation, (label, text)) in enumerate(zip(pack.citations, cited, strict=True), 1):
        passage = await base.resolve(citation)
        assert (passage.text, passage.document_id, citation.marker) == (text, "red", marker)
        assert f"[{marker}] {label}\n{text.strip()}" in pack.context_pack


async def test_filters(base: AsyncKnowledgeBase) -> None:
    """contextpack 15: equality as a dict."""
    pack = await base.context(QUESTION, filters={"document_id": "doc_1"})
    assert {chunk.document_id for chunk in pack.selected_chunks} == {"doc_1"}


async def test_batches(server: ScriptedServer) -> None:
    """contextpack 16: texts are embedded together."""
    embedder = CountingEmbedder()
    async with base_of(*DOCUMENTS, embedder=embedder, prefs="contextpack"):
        assert len(embedder.calls) == 1


async def test_usage_example(base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the design, in Python."""
    monkeypatch.setenv("LAGOTTO_RETRIEVAL_PRESET", "contextpack")
    config = RetrievalPrefs.from_env()
    result = await base.context(QUESTION, filters={"document_id": "doc_1"}, prefs=config)
    assert len(result.selected_chunks) > 0
    assert [str(citation) for citation in result.citations]
    assert result.context_pack


class TestDesignsOwnTerms:
    """contextpack 4, 13, 14 and 15: its cache, trace, citations and filters by its own names."""

    async def test_second_call_costs_no_request(
        self, base: AsyncKnowledgeBase, server: ScriptedServer
    ) -> None:
        """contextpack 4: with the preset alone; verdicts are cached by query and content."""
        first = await base.context(QUESTION)
        asked = len(server.requests)
        assert asked >= 1
        assert await base.context(QUESTION) == first
        assert len(server.requests) == asked
        await base.context(f"{QUESTION} Really?")
        assert len(server.requests) > asked
        asked = len(server.requests)
        await base.context(QUESTION, rerank={"max_text_chars": 30})  # other texts
        assert len(server.requests) > asked

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("llm:gpt-4o", "json_schema"),
            ("llm:gpt-4o?strict_json_output=true", "json_schema"),
            ("llm:gpt-4o?strict_json_output=false", "json_object"),
        ],
    )
    async def test_strict_json_output(
        self, base: AsyncKnowledgeBase, server: ScriptedServer, name: str, kind: str
    ) -> None:
        """contextpack 4: strict by default; without it the service is asked for JSON at least."""
        found = await base.retrieve(QUESTION, rerank={"reranker": name})
        assert server.requests[0].json["response_format"]["type"] == kind
        assert server.requests[0].json["model"] == "gpt-4o"
        assert found.degraded == ()

    async def test_trace_has_every_verdict(self, base: AsyncKnowledgeBase) -> None:
        """contextpack 13: 50 candidates were judged, 15 are returned; the trace has all 50."""
        pack = await base.context(QUESTION)
        chunks = [
            chunk for name in ("doc_1", "doc_2", "doc_3") for chunk in await base.chunks(name)
        ]
        seen = min(50, sum(chunk.level == "child" for chunk in chunks))
        assert seen > 15
        assert len(pack.trace.candidates) == len(pack.trace.rerank_results) == seen
        marks = [item.relevance_score for item in pack.trace.rerank_results]
        assert marks == sorted(marks, reverse=True)
        judged = {item.chunk_id for item in pack.trace.rerank_results}
        assert judged == {item.chunk_id for item in pack.trace.candidates}

    async def test_trace_is_a_dict(self, base: AsyncKnowledgeBase) -> None:
        """contextpack 13: with the keys that the design names."""
        pack = await base.context(QUESTION)
        trace = pack.model_dump()["trace"]
        assert type(trace) is dict
        assert trace["pinecone_candidates"] == trace["candidates"]
        assert set(trace["rerank_results"][0]) == {
            "chunk_id", "relevance_score", "answerability", "key_evidence",
        }  # fmt: skip
        assert trace["final_token_count"] == pack.tokens
        assert trace["expansion_stats"]["primary"].keys() == {"found", "kept"}
        assert ContextPack.model_validate_json(pack.model_dump_json()) == pack

    async def test_citation_names_the_document_id(self, base: AsyncKnowledgeBase) -> None:
        """contextpack 14: Doc: {doc_id} | Page: {page} | Section: {section}, the title beside."""
        section = Document(
            id="doc_9",
            title="Manual",
            text="Intro\nThe main topic of the report is the truffle.",
            pages=(Page(number=1, start=0, end=5), Page(number=2, start=5, end=50)),
            headings=(Heading(title="Intro", level=1, start=0, end=50),),
        )
        await base.add(section)
        pack = await base.context(QUESTION, filters={"doc_id": "doc_9"})
        assert [str(citation) for citation in pack.citations] == [
            "Doc: doc_9 | Page: 1-2 | Section: Intro | Title: Manual"
        ]
        assert pack.context_pack.startswith(f"[1] {pack.citations[0]}\n")
        location = Location(
            start=0,
            end=9,
            pages=(2, 3),
            heading_path=("A", "B"),
            row_range=(4, 6),
            item_range=(1, 1),
        )
        assert format_citation("doc_1", location) == (
            "Doc: doc_1 | Page: 2-3 | Section: A > B | Rows: 4-6 | Items: 1"
        )

    async def test_doc_id(self, base: AsyncKnowledgeBase) -> None:
        """contextpack 15: filters={"doc_id": "doc_1"}, as its example has it."""
        pack = await base.context(QUESTION, filters={"doc_id": "doc_1"})
        assert {chunk.document_id for chunk in pack.selected_chunks} == {"doc_1"}
        other = await base.retrieve(QUESTION, filters={"doc_id": {"$nin": ["doc_1", "doc_3"]}})
        assert {hit.document_id for hit in other} == {"doc_2"}


class TestChunksInNoBase:
    """contextpack 1 and 11: retrieve(query, filters, cfg, all_chunks, llm_config)."""

    async def test_all_chunks(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        """The same pack as from a base; parents and neighbours are those of all_chunks."""
        chunks = [chunk for document in DOCUMENTS for chunk in await base.chunks(document.id)]
        where = {"doc_id": "doc_1"}
        stored = await base.context(QUESTION, filters=where)
        server.requests.clear()
        pack = await context_of_chunks(
            QUESTION,
            chunks,
            filters=where,
            prefs=RetrievalPrefs.from_env({"LAGOTTO_RETRIEVAL_PRESET": "contextpack"}),
            embedder=HashEmbedder(),
            documents=DOCUMENTS,
        )
        assert server.requests[0].json["model"] == "gpt-4o"
        assert pack.context_pack == stored.context_pack
        assert pack.citations == stored.citations
        assert pack.selected_chunks == stored.selected_chunks
        roles = {chunk.role for chunk in pack.selected_chunks}
        assert roles == {"primary", "parent", "sibling", "cross_page"}

    async def test_llm_config(self, base: AsyncKnowledgeBase, server: ScriptedServer) -> None:
        """A reranker of one's own configuration, and nothing known of the documents."""
        chunks = [chunk for chunk in await base.chunks("doc_1") if chunk.level == "child"]
        config = LlmConfig(model="gpt-4o-mini", max_text_chars=40)
        pack = await context_of_chunks(
            QUESTION,
            chunks[2:6],
            prefs="contextpack",
            embedder=HashEmbedder(),
            reranker=LlmReranker(config),
        )
        assert {request.json["model"] for request in server.requests} == {"gpt-4o-mini"}
        assert {chunk.chunk_id for chunk in pack.selected_chunks} == {
            chunk.id for chunk in chunks[2:6]
        }
        assert str(pack.citations[0]).startswith("Doc: doc_1 | Page: ")
        assert "Title" not in str(pack.citations[0])

    async def test_what_the_caller_passes_stays_open(
        self, base: AsyncKnowledgeBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A reranker made for the call from its name is closed with it."""
        chunks = await base.chunks("doc_1")
        passed, named = Scripted(), Scripted()
        monkeypatch.setitem(RERANKERS._registered, "named", lambda parameters: named)
        for reranker in (passed, "named"):
            await context_of_chunks(QUESTION, chunks, embedder=HashEmbedder(), reranker=reranker)
        assert (len(passed.calls), len(named.calls)) == (1, 1)
        assert (passed.closed, named.closed) == (0, 1)

    async def test_no_chunks(self) -> None:
        """`all_chunks=[]`, as in the design's example, gives an empty pack."""
        pack = await context_of_chunks(QUESTION, [], embedder=HashEmbedder())
        assert (pack.context_pack, pack.selected_chunks) == ("", ())

    async def test_chunks_that_contradict_each_other(self, base: AsyncKnowledgeBase) -> None:
        chunk = (await base.chunks("doc_1"))[0]
        wrong = chunk.model_copy(update={"text": "x" + chunk.text[1:], "id": "other"})
        with pytest.raises(ConfigError, match="has another text than its offsets"):
            await context_of_chunks(QUESTION, [chunk, wrong], embedder=HashEmbedder())
