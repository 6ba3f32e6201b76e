from __future__ import annotations

import inspect

import pytest

from lagotto.base.client import AsyncClient
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.protocol import AsyncBase, BaseVerbs, page_of_documents
from lagotto.documents import Document
from lagotto.errors import ConfigError
from lagotto.prefs import RetrievalPrefs, SearchRequest
from lagotto.request_context import RequestContext
from lagotto.server.scoped_base import ScopedBase
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.running import serving

DOCUMENTS = [Document(id=name, text=f"A truffle under the {name}.") for name in ("oak", "hazel")]
ITS_OWN = {"sync", "rebuild", "add_documents"}
"""Verbs that a server refuses, and one that a ScopedBase does under a lease."""


def arguments(kind: type, verb: str) -> list[inspect.Parameter]:
    return list(inspect.signature(getattr(kind, verb)).parameters.values())


@pytest.mark.parametrize("kind", [AsyncKnowledgeBase, AsyncClient, ScopedBase])
def test_every_base_takes_the_same_arguments(kind: type[BaseVerbs]) -> None:
    shared = AsyncBase if issubclass(kind, AsyncBase) else BaseVerbs
    for verb, _ in inspect.getmembers(shared, inspect.isfunction):
        if not verb.startswith("_") and verb not in ITS_OWN:
            assert arguments(kind, verb) == arguments(shared, verb), verb


async def test_a_retriever_starts_from_the_preferences_of_its_base() -> None:
    own = RetrievalPrefs(mode="keyword", top_k_items=1)
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder(), prefs=own) as base:
        await base.add(*DOCUMENTS)
        ctx, query = RequestContext(), RetrievalPrefs(query_text="truffle oak")
        found = await base.retriever.search(ctx, query)
        assert found == await base.search("truffle oak")
        assert [item.score_vec for item in found.candidates] == [None]
        both = await base.retriever.search(ctx, query.replace(top_k_items=2))
        assert [item.score_vec for item in both.candidates] == [None, None]
        changed = await base.retriever.search(ctx, query.replace(mode="hybrid"))
        assert changed.candidates[0].score_vec is not None


async def test_a_retriever_of_a_server_as_well() -> None:
    with serving(documents=DOCUMENTS) as own:
        async with AsyncClient(own.url) as client:
            prefs = RetrievalPrefs(query_text="truffle", top_k_items=1)
            found = await client.retriever.search(RequestContext(), prefs)
            assert len(found.candidates) == 1


async def test_pages_of_documents() -> None:
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        await base.add(*DOCUMENTS, Document(id="ash", collection="b", text="An ash."))
        names, after = list[str](), None
        while page := await page_of_documents(base, after=after, limit=2):
            names += [document.id for document in page]
            after = (page[-1].collection, page[-1].id)
        assert names == ["ash", "hazel", "oak"]


def test_a_setting_is_given_once() -> None:
    for settings in ({"top_k": 1, "top_k_chunks": 2}, {"query_text": "b"}):
        with pytest.raises(ConfigError, match="given twice in one call; give it once"):
            SearchRequest("search", "a", settings=settings).resolve(RetrievalPrefs())
