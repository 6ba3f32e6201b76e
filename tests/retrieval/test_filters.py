"""Filters hold in every leg, every mode and in late chunking, on every kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.filters import Filter, matches
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.stores.base import Store
from lagotto.stores.registry import create_store
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.strategies import FILTERS
from lagotto.testing.strategies import filterable_documents as filterable

pytestmark = pytest.mark.slow

WORDS = ["oak", "hazel", "truffle", "dog", "lake"]
STORES = ["memory", "tantivy", "fts5"]
STRATEGIES = st.sampled_from(["late", "precomputed", "mixed"])
QUERIES = st.lists(st.sampled_from([*WORDS, "trufle", '"oak hazel"']), min_size=1, max_size=3)


@st.composite
def corpora(draw: st.DrawFn) -> list[Document]:
    bare = draw(st.lists(filterable(), min_size=1, max_size=8))
    return [
        Document(
            id=f"d{number}",
            text=". ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30))),
            title=item.title,
            created_at=item.created_at,
            metadata=item.metadata,
        )
        for number, item in enumerate(bare)
    ]


def at(kind: str, folder: Path) -> Store:
    if kind == "memory":
        return create_store(":memory:")
    return create_store(folder / f"{uuid4().hex}.db", text_index=kind)


@asynccontextmanager
async def filled(
    place: str | Store, corpus: Sequence[Document]
) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base with a corpus in it."""
    base = AsyncKnowledgeBase(place, embedder=HashEmbedder(dimension=16), chunker="recursive:16/0")
    async with base:
        await base.add(*corpus)
        yield base


def allowed(corpus: Sequence[Document], where: Filter) -> set[str]:
    return {document.id for document in corpus if matches(where, document)}


async def check_lists(
    base: AsyncKnowledgeBase, corpus: Sequence[Document], where: Filter, query: str
) -> None:
    """What comes back is what would come back of everything, less what the filter rejects."""
    for mode in ("semantic", "keyword", "hybrid"):
        prefs = RetrievalPrefs(mode=mode, top_k=500, candidates=500)
        whole = await base.retrieve(query, prefs=prefs)
        found = await base.retrieve(query, prefs=prefs, filters=where)
        few = await base.retrieve(query, prefs=prefs, filters=where, top_k=3)
        expected = {hit.chunk_id for hit in whole if hit.document_id in allowed(corpus, where)}
        assert {hit.chunk_id for hit in found} == expected
        assert len(few) == min(3, len(expected))


async def check_bundles(
    base: AsyncKnowledgeBase,
    corpus: Sequence[Document],
    where: Filter,
    query: str,
    strategy: str,
) -> None:
    """Every allowed document has a vector, so as many as asked for come back, and no other."""
    for most in (2, 50):
        prefs = RetrievalPrefs(
            query_text=query,
            filters=where,
            candidates=1,
            top_k_items=most,
            top_k_chunks=50,
            chunking={"strategy": strategy, "chunker_id": "sentence:8/0"},
        )
        bundle = await base.retriever.search(RequestContext(), prefs)
        right = allowed(corpus, where)
        items = [item.item_id for item in bundle.candidates]
        assert len(items) == len(set(items)) == min(most, len(right))
        assert set(items) <= right
        assert {item.item_id for item in bundle.evidence} <= set(items)
        assert bool(bundle.evidence) == bool(items)
        texts = {document.id: document.text for document in corpus}
        for item in bundle.evidence:
            assert item.text == texts[item.item_id][item.start_idx : item.end_idx]


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpus=corpora(), where=FILTERS, words=QUERIES, strategy=STRATEGIES)
async def test_lists_and_bundles(
    tmp_path: Path,
    kind: str,
    corpus: list[Document],
    where: Filter,
    words: list[str],
    strategy: str,
) -> None:
    async with filled(at(kind, tmp_path), corpus) as base:
        await check_lists(base, corpus, where, " ".join(words))
        await check_bundles(base, corpus, where, " ".join(words), strategy)
