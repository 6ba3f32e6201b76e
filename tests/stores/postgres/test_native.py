"""One statement gives what the legs give one by one."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Vector
from lagotto.filters import And, Eq, Filter, Gte
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.prefs import RetrievalPrefs, ScoringPrefs
from lagotto.request_context import RequestContext
from lagotto.results import Leg, RetrievalResult
from lagotto.retrieval.fusion import Candidates, LegScores, fuse
from lagotto.retrieval.recall import listed
from lagotto.stores.base import HybridQuery, Scale
from lagotto.stores.postgres import vector_index
from lagotto.stores.postgres.native import PostgresNative
from lagotto.testing.hash_embedder import HashEmbedder
from tests.stores.postgres.schemas import native_of

WORDS = (
    "truffle", "dog", "oak", "hazel", "water", "smell", "root", "lake", "deep", "old", "trained",
    "find", "soil", "forest", "nose", "tree", "river", "puppy", "acorn", "mushroom",
)  # fmt: skip
EMBEDDER = HashEmbedder(dimension=32)


def documents(count: int) -> list[Document]:
    chance = random.Random(7)
    return [
        Document(
            id=f"d{number:03}",
            title=chance.choice(WORDS) if number % 4 else None,
            language=("en", "de", None)[number % 3],
            metadata={"number": number, "even": number % 2 == 0},
            text=" ".join(chance.choices(WORDS, k=chance.randint(3, 40))) + ".",
        )
        for number in range(count)
    ]


def queries(count: int) -> list[str]:
    chance = random.Random(8)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 4))) for _ in range(count)]


@pytest.fixture
async def base(location: str) -> AsyncIterator[AsyncKnowledgeBase]:
    """A few hundred chunks, some of which are gone."""
    prefs = RetrievalPrefs(fuzzy={"mode": "off"}, candidates=40)
    async with AsyncKnowledgeBase(
        location, embedder=EMBEDDER, chunker="recursive:24/4", prefs=prefs
    ) as base:
        await base.add(*documents(220))
        await base.remove(filters=Gte("number", 200))
        yield base


def seen(hits: Sequence[RetrievalResult]) -> list[tuple[Any, ...]]:
    """All that there is to a hit, with scores to a few digits."""
    return [
        (
            hit.chunk_id,
            hit.content,
            hit.metadata,
            round(hit.score, 5),
            [
                (leg, said.rank, round(said.score, 4), round(said.contribution or 0, 5))
                for leg, said in hit.breakdown.legs().items()
            ],
        )
        for hit in hits
    ]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"scoring": {"fill": False}},
    {"scoring": {"normalize": "theoretical"}},
    {"scoring": {"normalize": "theoretical", "fill": False}},
    {"scoring": {"blend": "rrf"}},
    {"scoring": {"blend": "rrf", "fill": False}, "candidates": 7},
    {"scoring": {"w_text": 3.0}, "vector": {"min_score": 0.3}, "fts": {"min_rank": 0.05}},
    {"filters": Eq("even", True)},
    {"filters": Gte("number", 190), "scoring": {"blend": "rrf"}},
    {"filters": Eq("number", 5_000)},
    {"top_k": 60},
    {"diversity": {"per_document": 1}},
    {"parents": {"mode": "none"}, "min_score": 0.4},
]
FUNCTIONS = ("bm25", "ts_rank", "ts_rank_cd")


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each question could be asked in one statement."""
    ask, said = PostgresNative.hybrid, []

    async def noted(self: PostgresNative, asked: HybridQuery) -> Any:
        answer = await ask(self, asked)
        said.append(answer is not None)
        return answer

    monkeypatch.setattr(PostgresNative, "hybrid", noted)
    return said


@pytest.mark.parametrize("function", FUNCTIONS)
async def test_both_ways_find_the_same(
    base: AsyncKnowledgeBase, function: str, answered: list[bool]
) -> None:
    await base.retrieve("dog", fts={"rank_func": function})  # which makes the index
    answered.clear()
    found = 0
    for settings in SETTINGS:
        for query in queries(12):
            fts = {**settings.get("fts", {}), "rank_func": function}
            legs, statement = [
                await base.retrieve(query, **{**settings, "fts": fts, "strategy": strategy})
                for strategy in ("legs", "statement")
            ]
            assert seen(legs) == seen(statement), (settings, query)
            assert legs.degraded == statement.degraded == ()
            found += len(legs)
    assert found > 500
    assert answered == [True] * len(SETTINGS) * 12


async def test_bundles_are_the_same(base: AsyncKnowledgeBase, answered: list[bool]) -> None:
    prefs = RetrievalPrefs.preset("aiblox", top_k_items=8, chunking={"strategy": "precomputed"})
    await base.retriever.search(RequestContext(), prefs.replace(query_text="dog"))
    for query in queries(12):
        legs, statement, auto = [
            await base.retriever.search(
                RequestContext(), prefs.replace(query_text=query, strategy=strategy)
            )
            for strategy in ("legs", "statement", "auto")
        ]
        assert legs == statement == auto
    assert answered.count(True) >= 24


@pytest.mark.parametrize("where", [And(), Gte("number", 100), Eq("number", 7)])
async def test_with_a_graph(
    location: str, answered: list[bool], monkeypatch: pytest.MonkeyPatch, where: Filter
) -> None:
    """A filter that leaves so many that the graph is better is for the legs."""
    monkeypatch.setattr(vector_index, "GRAPH_FROM", 10)
    monkeypatch.setattr(vector_index, "COST", 0.1)
    prefs = RetrievalPrefs(fuzzy={"mode": "off"}, candidates=20, filters=where)
    async with AsyncKnowledgeBase(location, embedder=EMBEDDER, prefs=prefs) as base:
        await base.add(*documents(200))
    async with AsyncKnowledgeBase(location, embedder=EMBEDDER, prefs=prefs) as base:
        for query in queries(20):
            legs = await base.retrieve(query, strategy="legs")
            assert seen(legs) == seen(await base.retrieve(query, strategy="statement"))
    assert set(answered) == {where != Gte("number", 100)}


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("scale", ["rrf", "absolute", "theoretical"])
async def test_scores_are_fused_as_everywhere(
    base: AsyncKnowledgeBase, scale: Scale, fill: bool
) -> None:
    blend = {"blend": "rrf"} if scale == "rrf" else {"normalize": scale}
    scoring = ScoringPrefs(**blend, fill=fill, w_vec=0.65, w_text=0.35)
    for query in queries(20):
        (vector,) = await EMBEDDER.embed([query], role="query")
        words = tuple((Term(word, 1.0), Term(word[:-1], 0.5)) for word in query.split())
        asked = both_legs(vector, TextQuery(words), scale=scale, fill=fill)
        async with base.store.view(And()) as view:
            found = await native_of(view).hybrid(asked)
        assert found is not None
        legs: dict[Leg, LegScores] = {
            "semantic": listed(found.semantic, found.keys, rest=found.semantic_scores),
            "text": listed(found.text, found.keys, rest=found.text_scores),
        }
        right = fuse(Candidates(found.keys, legs), scoring.weights(), scoring, floor=0.1)
        np.testing.assert_allclose(found.fused, right.scores, atol=1e-6)
        assert len(found.keys) > 10


async def test_the_best_passages_come_along(base: AsyncKnowledgeBase) -> None:
    (vector,) = await EMBEDDER.embed(["dog lake"], role="query")
    text = TextQuery(((Term("dog"),), (Term("lake"),)))
    async with base.store.view(And()) as view:
        found = await native_of(view).hybrid(both_legs(vector, text, scale="absolute", fill=True))
        assert found is not None
        best = found.keys[np.argsort(-found.fused)[:5]]
        prefetched = native_of(view).prefetched
        assert set(best.tolist()) <= prefetched.keys()
        assert len(prefetched) < len(found.keys)
        brought = await view.passages(best)
    async with base.store.view(And()) as view:
        assert brought == await view.passages(best)


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("dog lake", {"strategy": "auto"}),  # BM25 takes longer in SQL
        ("dog lake", {"fts": {"mode": "plain"}}),  # a condition that SQL does not have
        ("dog lake", {"scoring": {"normalize": "zscore"}}),
        ("dog lake", {"vector": {"distance": "l2"}}),
        ("dog lake", {"fuzzy": {"mode": "always"}}),
        ('"oak lake" dog', {}),  # the exact leg runs as well
        ("dog", {"mode": "keyword"}),
    ],
)
async def test_what_is_for_the_legs(
    base: AsyncKnowledgeBase, answered: list[bool], query: str, settings: dict[str, Any]
) -> None:
    await base.retrieve(query, **{"strategy": "statement", **settings})
    assert not any(answered)


def both_legs(vector: Vector, text: TextQuery, *, scale: Scale, fill: bool) -> HybridQuery:
    return HybridQuery(
        vector=vector,
        text=text,
        depth=20,
        fill=fill,
        least=(None, None),
        scale=scale,
        weights=(0.65, 0.35),
        rrf_k=60,
        floor=0.1,
        passages=5,
        anyway=True,
    )
