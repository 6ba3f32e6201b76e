"""docs/ranking.md, Order: where a shorter list is the beginning of a longer one, and where not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.prefs import RetrievalPrefs
from lagotto.testing.hash_embedder import HashEmbedder

WORDS = [f"{first}{second}o" for first in "bdfgklmn" for second in "aeiou"]
LONGEST = 400


@pytest.fixture(scope="module")
def base() -> Iterator[KnowledgeBase]:
    """More passages with common words than a leg brings, many of them with equal scores."""
    chance = random.Random(1)
    with KnowledgeBase(":memory:", embedder=HashEmbedder(), chunker="sentence:8/0") as base:
        base.add(
            *(
                Document(
                    id=f"d{n}",
                    text=". ".join(" ".join(chance.choices(WORDS, k=4)) for _ in range(3)),
                )
                for n in range(250)
            )
        )
        yield base


QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
HELD: dict[str, tuple[RetrievalPrefs, int]] = {
    "default": (RetrievalPrefs(), 100),
    "a number of candidates": (RetrievalPrefs(candidates=30), LONGEST),
    "local-rag": (RetrievalPrefs.preset("local-rag"), LONGEST),
    "aiblox": (RetrievalPrefs.preset("aiblox"), LONGEST),
    "contextpack": (RetrievalPrefs.preset("contextpack", rerank={"reranker": None}), LONGEST),
}
"""Settings, and the length of a list up to which they keep the promise."""


@pytest.mark.parametrize("name", HELD)
@settings(max_examples=20)
@given(query=QUERIES, data=st.data())
def test_a_shorter_list_is_a_prefix(base: KnowledgeBase, name: str, query: str, data: Any) -> None:
    prefs, most = HELD[name]
    top_k = data.draw(st.integers(1, most))
    longest = base.retrieve(query, prefs=prefs, top_k=most)
    assert base.retrieve(query, prefs=prefs, top_k=top_k) == longest[:top_k]


@pytest.mark.parametrize(
    ("preset", "shorter", "longer"),
    [(None, 100, LONGEST), ("oasis", 5, 30), ("kotlin-rag", 5, 30)],
)
def test_where_the_number_of_candidates_follows_top_k(
    base: KnowledgeBase, preset: str | None, shorter: int, longer: int
) -> None:
    """Beyond 100 results, and in designs that fetch a multiple of topK, or topK of each leg."""
    prefs = RetrievalPrefs.preset(preset) if preset else RetrievalPrefs()
    chance = random.Random(2)
    queries = [" ".join(chance.choices(WORDS, k=3)) for _ in range(15)]
    short, long = [
        [
            [hit.chunk_id for hit in base.retrieve(query, prefs=prefs, top_k=top_k)[:shorter]]
            for query in queries
        ]
        for top_k in (shorter, longer)
    ]
    assert short != long
