"""Work that grows with what a caller asks for: in threads, cheap, and ended by a cancellation."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lagotto._internal import concurrency
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.context import pack
from lagotto.documents import Document, Heading
from lagotto.errors import SearchCancelled
from lagotto.request_context import CancellationToken, RequestContext
from lagotto.rerankers import lexical
from lagotto.retrieval import documents, explain, late, retriever, stages
from lagotto.retrieval.documents import Highlighter
from lagotto.terms import edit_distance, vocabulary
from lagotto.testing.hash_embedder import HashEmbedder

HITS = 40
MANY: dict[str, Any] = {"top_k_items": HITS, "top_k_chunks": HITS}
LONG: dict[str, Any] = {"top_k": HITS}
LATE: dict[str, Any] = {"chunking": {"strategy": "late", "chunker_id": "recursive:100/0"}}
LEXICAL: dict[str, Any] = {"rerank": {"reranker": "lexical", "candidates": HITS}}
STAGES = [
    ("search", MANY, documents, "leg_scores"),
    ("search", {**MANY, **LATE}, late, "index_text"),
    ("search", MANY, Highlighter, "snippet"),
    ("search", MANY, retriever, "_evidence"),
    ("retrieve", LONG, retriever, "_as_result"),
    ("retrieve", LONG, stages, "cited_section"),
    ("retrieve", {**LONG, "diversity": {"mmr": 0.5}}, stages, "checkpoint"),
    ("retrieve", {**LONG, "explain": "candidates"}, explain, "breakdown_fields"),
    ("retrieve", {**LONG, **LEXICAL}, lexical, "_features"),
    ("retrieve", {**LONG, **LEXICAL}, lexical, "_matches"),
    ("context", {**LONG, "context": {"max_tokens": 10_000}}, pack, "block"),
]
"""A verb, its settings, and a function that it calls once for each hit."""


def misspelt(word: str) -> str:
    return f"{word[:2]}q{word[3:]}"


def sample(count: int) -> tuple[list[str], list[Document]]:
    """Words of random letters, and documents of them."""
    chosen = random.Random(4)
    words = ["".join(chosen.choices("aeioumnrstl", k=8)) for _ in range(400)]
    texts = [" ".join(chosen.sample(words, 60)) for _ in range(count)]
    documents = [
        Document(id=f"{n:03}", text=text, language="en", headings=two_sections(text))
        for n, text in enumerate(texts)
    ]
    return words, documents


def two_sections(text: str) -> tuple[Heading, Heading]:
    """So that hits have a section to be cited by."""
    middle = text.index(" ", len(text) // 2)
    return (
        Heading(start=0, end=middle, level=1, title="one"),
        Heading(start=middle, end=len(text), level=1, title="two"),
    )


@pytest.mark.parametrize(("verb", "settings", "owner", "name"), STAGES)
async def test_a_cancellation_ends_every_stage_at_the_next_hit(
    verb: str, settings: dict[str, Any], owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadline does the same: it cancels the task of the search."""
    token, calls = CancellationToken(), list[threading.Thread]()
    inner: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(threading.current_thread())
        if len(calls) == 1:
            token.fire()
            stop = concurrency._stop.get()
            assert stop is not None, "this runs in the event loop"
            assert stop.wait(60)
        return inner(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        words, documents = sample(HITS)
        await base.add(*documents)
        with pytest.raises(SearchCancelled):
            await getattr(base, verb)(
                " ".join(words[:30]), request=RequestContext(cancellation=token), **settings
            )
    assert len(calls) == 1
    assert calls[0] is not threading.main_thread()


async def test_misspelt_words_cost_an_edit_distance_only_where_it_may_be_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Words x hits x terms of a hit would be 60 x 40 x 60."""
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder()) as base:
        words, documents = sample(HITS)
        await base.add(*documents)
        query = " ".join(map(misspelt, words[:60]))
        found = await base.search(query, fuzzy={"mode": "off"}, **MANY)
        compared: list[tuple[str, str]] = []

        def counted(first: str, second: str) -> int:
            compared.append((first, second))
            return edit_distance(first, second)

        monkeypatch.setattr(vocabulary, "edit_distance", counted)
        again = await base.search(query, fuzzy={"mode": "off"}, **MANY)
    assert again.candidates == found.candidates
    assert any(item.snippet_highlights for item in again.candidates)
    assert len(compared) < 1_000
    assert len(compared) == len(set(compared))
