"""Bundles: which documents and which of their chunks they show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Page
from lagotto.rerankers import Candidate, Verdict
from tests.bases import base_of
from tests.counting import CountingEmbedder
from tests.rerankers.doubles import Scripted

EVERYTHING: dict[str, Any] = {"top_k_chunks": 100, "per_item_chunk_cap": 100}
LATE: dict[str, Any] = {"chunking": {"strategy": "late", "chunker_id": "recursive:8/0"}}
DOCUMENTS = [
    Document(id=name, title=f"Title {name}", text=f"One {word} in the wood. " * 8, language="en")
    for name, word in (("a", "oak"), ("b", "oak and hazel"), ("c", "lake"), ("d", "stone"))
]


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
async def base(embedder: CountingEmbedder) -> AsyncIterator[AsyncKnowledgeBase]:
    async with base_of(*DOCUMENTS, embedder=embedder, chunker="recursive:12/0") as base:
        yield base


async def test_other_documents_take_no_place_of_evidence(base: AsyncKnowledgeBase) -> None:
    text = "One fir by one oak. " + "Grey stones lie here for years. " * 8
    await base.add(Document(id="best", text=text, language="en"))
    size: dict[str, Any] = {"top_k_chunks": 3, "per_item_chunk_cap": 3}
    both = await base.search("fir and oak", top_k_items=2, **size)
    one = await base.search("fir and oak", top_k_items=1, **size)
    assert {item.item_id for item in both.evidence} > {"best"}
    assert [item.item_id for item in one.evidence] == ["best"] * 3


async def test_evidence_says_where_it_is(base: AsyncKnowledgeBase) -> None:
    text = "A fir on page seven."
    pages = (Page(start=0, end=len(text), number=7),)
    await base.add(Document(id="paged", text=text, pages=pages))
    (found, *_) = (await base.search("fir", top_k_items=1)).evidence
    assert found.anchors == {"collection": "default", "pages": (7, 7), "element": "paragraph"}


@pytest.mark.parametrize("setting", ["min_score", "scoring"])
async def test_documents_below_a_threshold_are_left_out(
    base: AsyncKnowledgeBase, setting: str
) -> None:
    everything = (await base.search("oak", **EVERYTHING)).candidates
    least = everything[1].score
    given: dict[str, Any] = {"min_score": least}
    bundle = await base.search(
        "oak", **EVERYTHING, **(given if setting == "min_score" else {"scoring": given})
    )
    assert len(everything) == 4
    assert [item.item_id for item in bundle.candidates] == [
        item.item_id for item in everything if item.score >= least
    ]
    assert len(bundle.candidates) < 4


async def test_chunks_made_at_query_time_are_embedded_under_their_title(
    base: AsyncKnowledgeBase, embedder: CountingEmbedder
) -> None:
    embedder.texts.clear()
    await base.search("oak", **LATE)
    assert embedder.texts
    assert all(text.startswith("Title ") for text in embedder.texts)


async def test_every_chunk_made_at_query_time_is_near_a_vector(
    base: AsyncKnowledgeBase, embedder: CountingEmbedder
) -> None:
    (stone,) = await embedder.embed(["stone"], role="query")
    bundle = await base.search("x", mode="semantic", query_vector=-stone, **LATE, **EVERYTHING)
    farthest = [item for item in bundle.evidence if item.item_id == "d"]
    assert farthest
    assert all((item.score_vec or 0) < 0 for item in farthest)


async def test_a_threshold_of_the_reranker_drops_what_it_did_not_judge(
    embedder: CountingEmbedder,
) -> None:
    def judge(query: str, candidate: Candidate) -> Verdict | None:
        return Verdict(0.9) if "oak" in candidate.text else None

    reranker = Scripted(rule=judge)
    async with base_of(*DOCUMENTS, embedder=embedder, reranker=reranker) as base:
        found = [
            [item.item_id for item in (await base.search("oak wood", rerank=rerank)).candidates]
            for rerank in ({}, {"min_score": 0.5}, {"min_score": 0.95})
        ]
    assert sorted(found[0]) == ["a", "b", "c", "d"]
    assert [sorted(ids) for ids in found[1:]] == [["a", "b"], []]


async def test_documents_below_a_threshold_are_not_split(base: AsyncKnowledgeBase) -> None:
    settings: dict[str, Any] = {**LATE, "cache": {"use_chunk_cache": False}, "debug": True}
    every = await base.search("oak", **settings)
    assert len(every.candidates) == 4
    least = every.candidates[1].score
    few = await base.search("oak", **settings, min_score=least)
    assert every.stats.counts["chunks_made"] == 2 * few.stats.counts["chunks_made"] > 0
