from __future__ import annotations

import asyncio
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Span
from lagotto.filters import And, Contains, Eq, Exists, Filter, Gte, Not, matches
from lagotto.prefs import Blend, Mode, RetrievalPrefs
from lagotto.rerankers import Candidate, Verdict
from lagotto.results import Results, RetrievalResult
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.base import Capabilities, Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import DOCUMENTS, EMBEDDER, entry
from tests.bases import base_of
from tests.closeness import are_close
from tests.rerankers.doubles import Scripted

MODES: tuple[Mode, ...] = ("hybrid", "semantic", "keyword")
BLENDS: tuple[Blend, ...] = ("linear", "rrf")
QUERIES = ("truffle dog", "which lake is the deepest", "озеро нерпы", "SQLITE_BUSY", "romagnollo")
WORDS = ["oak", "hazel", "truffle", "dog", "water", "lake", "root", "smell", "marsh"]


def corpus(count: int = 60) -> list[Document]:
    """Documents with many ties: few words, some texts twice."""
    chance = random.Random(5)
    return [
        Document(
            id=f"d{number:03}",
            text=" ".join(chance.choices(WORDS, k=chance.randint(3, 30))) + ".",
            metadata={"number": number, "even": number % 2 == 0},
        )
        for number in range(count)
    ] + [Document(id=f"twin{name}", text="A truffle and an oak.") for name in "cab"]


async def fill(store: Store, documents: Sequence[Document], *, chunker: str = "") -> Store:
    for start in range(0, len(documents), 7):
        some = documents[start : start + 7]
        if chunker:
            await store.write([await entry(item, chunker_id=chunker) for item in some])
        else:
            await store.write([await entry(item) for item in some])
    return store


@asynccontextmanager
async def sqlite(path: Path, documents: Sequence[Document]) -> AsyncIterator[Store]:
    store = SqliteStore(path)
    await store.open()
    try:
        yield await fill(store, documents)
    finally:
        await store.close()


async def ask(store: Store, query: str, **settings: Any) -> Results:
    prefs = RetrievalPrefs(query_text=query, **settings)
    return await HybridRetriever(store=store, embedder=EMBEDDER).retrieve(prefs)


def places(results: Sequence[RetrievalResult]) -> list[tuple[str, int, float]]:
    return [(hit.document_id, hit.start, round(hit.score, 5)) for hit in results]


class TestOrder:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("blend", BLENDS)
    async def test_the_first_n_do_not_depend_on_the_limit(self, mode: Mode, blend: Blend) -> None:
        store = await fill(MemoryStore(), corpus())
        for query in ("truffle oak", "lake", "smell of water"):
            most = await ask(store, query, top_k=50, mode=mode, scoring={"blend": blend})
            for count in (1, 2, 3, 7, 20):
                some = await ask(store, query, top_k=count, mode=mode, scoring={"blend": blend})
                assert some == most[:count]

    @pytest.mark.parametrize("blend", BLENDS)
    async def test_it_does_not_matter_in_which_order_documents_came(
        self, tmp_path: Path, blend: Blend
    ) -> None:
        documents = corpus()
        shuffled = documents.copy()
        random.Random(1).shuffle(shuffled)
        one = await fill(MemoryStore(), documents)
        two = await fill(MemoryStore(), shuffled)
        async with (
            sqlite(tmp_path / "one.db", documents) as three,
            sqlite(tmp_path / "two.db", shuffled) as four,
        ):
            for query in ("truffle oak", "lake", "hazle marsh"):
                rankings = [
                    places(await ask(store, query, top_k=30, scoring={"blend": blend}))
                    for store in (one, two, three, four)
                ]
                assert rankings[1] == rankings[0]
                assert rankings[3] == rankings[2]
                names = [[name for name, _, _ in ranking] for ranking in rankings]
                assert names[2] == names[0]

    async def test_equal_hits_come_in_order_of_their_ids(self) -> None:
        store = await fill(MemoryStore(), corpus())
        results = await ask(store, "a truffle and an oak", top_k=3)
        assert [hit.document_id for hit in results] == ["twina", "twinb", "twinc"]
        assert len({hit.score for hit in results}) == 1
        assert [hit.rank for hit in results] == [1, 2, 3]

    async def test_scores_fall_from_hit_to_hit(self) -> None:
        store = await fill(MemoryStore(), corpus())
        for mode in MODES:
            scores = [hit.score for hit in await ask(store, "oak lake", mode=mode)]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)


class TestModes:
    async def test_which_legs_run(self) -> None:
        store = await fill(MemoryStore(), DOCUMENTS)
        for mode, legs in (
            ("hybrid", (True, True)),
            ("semantic", (True, False)),
            ("keyword", (False, True)),
        ):
            for hit in await ask(store, "truffle dog", mode=mode):
                ran = (hit.breakdown.semantic is not None, hit.breakdown.text is not None)
                assert ran == legs

    async def test_keywords_only_find_what_holds_them(self) -> None:
        store = await fill(MemoryStore(), DOCUMENTS)
        results = await ask(store, "ECONNREFUSED", mode="keyword")
        assert {hit.document_id for hit in results} == {"code"}
        assert await ask(store, "", mode="keyword") == []

    async def test_misspelt_words_are_found(self) -> None:
        store = await fill(MemoryStore(), DOCUMENTS)
        found = await ask(store, "romagnollo", mode="keyword")
        assert found[0].document_id == "dog"
        weights = {leg: said.weight for leg, said in found[0].breakdown.legs().items()}
        assert (weights.get("text", 0.0), weights["fuzzy"]) == (0.0, 1.0)
        assert await ask(store, "romagnollo", mode="keyword", fuzzy={"mode": "off"}) == []

    async def test_without_corrections_both_legs_keep_their_weights(self) -> None:
        """1 and 0.5, damped where the match is weak, also for words that no document has."""
        store = await fill(MemoryStore(), DOCUMENTS)
        for query in ("truffle dog", "truffle romagnollo"):
            (first, *_) = await ask(store, query, fuzzy={"mode": "off"})
            legs = first.breakdown.legs()
            share = 0.5 * legs["text"].damping
            assert legs["text"].weight == pytest.approx(share / (1 + share))
            assert legs["semantic"].weight == pytest.approx(1 / (1 + share))

    async def test_a_store_without_full_text_says_so(self) -> None:
        class Vectors(MemoryStore):
            capabilities = Capabilities(text=False, fuzzy=False)

        store = await fill(Vectors(), DOCUMENTS)
        whole = await fill(MemoryStore(), DOCUMENTS)
        right = await ask(whole, "truffle dog", mode="semantic")
        assert right.degraded == ()
        for mode in ("hybrid", "keyword"):
            answer = await ask(store, "truffle dog", mode=mode)
            assert places(answer) == places(right)
            assert len(answer.degraded) == 1
            assert answer.degraded[0].startswith("text: ")


FILTERS: tuple[Filter, ...] = (
    Gte("year", 2021),
    Contains("tags", "food"),
    Not(Exists("year")),
    Eq("collection", "other"),
    Eq("language", "ru") | Eq("draft", True),
    Eq("title", "nothing like it"),
)


@pytest.mark.parametrize("mode", MODES)
async def test_filters_leave_exactly_what_they_allow(tmp_path: Path, mode: Mode) -> None:
    """As if everything had been found and the rest left out; the scores stay the same."""
    async with sqlite(tmp_path / "kb.db", DOCUMENTS) as store:
        by_name = {(item.collection, item.id): item for item in DOCUMENTS}
        for query in QUERIES:
            whole = await ask(store, query, top_k=50, mode=mode)
            for where in FILTERS:
                allowed = [
                    hit for hit in whole if matches(where, by_name[hit.collection, hit.document_id])
                ]
                found = await ask(store, query, top_k=50, mode=mode, filters=where)
                assert {hit.chunk_id for hit in found} == {hit.chunk_id for hit in allowed}
                raw = {hit.chunk_id: hit.breakdown for hit in whole}
                for hit in found:
                    before = raw[hit.chunk_id]
                    if mode != "keyword":
                        assert hit.breakdown.semantic is not None
                        assert before.semantic is not None
                        assert hit.breakdown.semantic.score == pytest.approx(before.semantic.score)
                    if mode != "semantic":
                        assert hit.breakdown.text is not None
                        assert before.text is not None
                        assert hit.breakdown.text.score == pytest.approx(before.text.score)


async def test_if_k_match_k_come_back(tmp_path: Path) -> None:
    """However rare the matches are among what scores best."""
    async with sqlite(tmp_path / "kb.db", corpus(400)) as store:
        where = And(Gte("number", 390), Eq("even", True))
        found = await ask(store, "truffle oak", top_k=5, filters=where, mode="semantic")
        assert len(found) == 5
        assert all(hit.metadata["number"] >= 390 for hit in found)


class TestContent:
    @pytest.mark.parametrize("chunker", ["", "parent-child:64/16/0"])
    async def test_a_hit_is_a_span_of_its_document(self, chunker: str) -> None:
        store = await fill(MemoryStore(), [*DOCUMENTS, *corpus()], chunker=chunker)
        for query in QUERIES:
            for hit in await ask(store, query, top_k=20):
                document = await store.get(hit.collection, hit.document_id)
                assert document is not None
                assert hit.content == document.text[hit.start : hit.end]

    async def test_children_become_their_parents(self) -> None:
        text = " ".join(f"Sentence {number} on the {WORDS[number % 9]}." for number in range(60))
        store = await fill(
            MemoryStore(), [Document(id="long", text=text)], chunker="parent-child:64/16/0"
        )
        children = await ask(store, "the marsh", top_k=50, parents={"mode": "none"})
        parents = await ask(store, "the marsh", top_k=50)
        chunks = await store.chunks("default", "long")
        assert {hit.chunk_id for hit in parents} <= {c.id for c in chunks if c.level == "parent"}
        assert len({hit.chunk_id for hit in parents}) == len(parents) < len(children)
        assert [hit.rank for hit in parents] == list(range(1, len(parents) + 1))
        parent_of = {chunk.id: chunk.parent_id for chunk in chunks}
        best: dict[str | None, float] = {}
        for child in children:
            best.setdefault(parent_of[child.chunk_id], child.score)
        assert [(hit.chunk_id, hit.score) for hit in parents] == list(best.items())

    async def test_the_breakdown_explains_the_score(self) -> None:
        store = await fill(MemoryStore(), DOCUMENTS)
        for hit in await ask(store, "truffle dog"):
            assert hit.breakdown.fused_score == hit.score
            assert hit.breakdown.semantic is not None
            assert hit.breakdown.text is not None
            assert hit.breakdown.rerank is None


async def test_parents_do_not_depend_on_top_k() -> None:
    """Several children of one parent must not take the places of other parents."""
    embedder = HashEmbedder(dimension=32)
    text = " ".join(f"Truffle number {number} is round." for number in range(200))
    base = AsyncKnowledgeBase(":memory:", embedder=embedder, chunker="parent-child:64/16/0")
    async with base:
        await base.add(Document(id="d", text=text))
        many = await base.retrieve("truffle", top_k=10)
        few = await base.retrieve("truffle", top_k=3)
    assert len(many) == 10
    assert len({hit.chunk_id for hit in many}) == 10
    assert [hit.chunk_id for hit in few] == [hit.chunk_id for hit in many[:3]]


ANOTHER_PROCESS = """
import asyncio, json, sys
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder

async def main():
    async with AsyncKnowledgeBase(sys.argv[1], embedder=HashEmbedder(dimension=32)) as base:
        for query in sys.argv[2:]:
            hits = await base.retrieve(query, top_k=30)
            print(json.dumps([hit.model_dump(mode="json") for hit in hits]))

asyncio.run(main())
"""


@pytest.mark.slow
async def test_every_process_gives_the_same_answer(tmp_path: Path) -> None:
    async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder(dimension=32)) as base:
        await base.add(*corpus())
        queries = ["truffle oak", '"lake dog"', "hazle marsh", "smell of ERR_4012"]
        here = [await base.retrieve(query, top_k=30) for query in queries]
    expected = [[hit.model_dump(mode="json") for hit in hits] for hits in here]
    for seed in ("1", "2"):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path / "kb.db"), *queries],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert are_close([json.loads(line) for line in done.stdout.splitlines()], expected)


class TestLeastScore:
    """`min_score` cuts what a hit scores in the end: with a reranker, what the reranker says."""

    @staticmethod
    def against(query: str, candidate: Candidate) -> Verdict:
        """The worse the fused score, the better."""
        return Verdict(1.0 - candidate.score)

    @pytest.mark.parametrize("judged", [True, False])
    async def test_final_scores_are_cut(self, judged: bool) -> None:
        """Whatever the fused score was: what it would have cut stays, and the other way round."""
        reranker = Scripted(rule=self.against) if judged else None
        async with base_of(*DOCUMENTS, embedder=EMBEDDER, reranker=reranker) as base:
            everything = await base.retrieve("truffle dog", top_k=50)
            fused = {hit.chunk_id: hit.breakdown.fused_score or 0.0 for hit in everything}
            assert min(fused.values()) < 0.5 < max(fused.values())
            found = await base.retrieve("truffle dog", top_k=50, min_score=0.5)
            assert found == [hit for hit in everything if hit.score >= 0.5] != []
            assert all((fused[hit.chunk_id] < 0.5) == judged for hit in found)
            bundle = await base.search("truffle dog", min_score=0.5)
            assert {item.item_id for item in bundle.candidates} == {
                hit.document_id for hit in found
            }


async def test_a_reranker_sees_just_enough_to_fill_the_view() -> None:
    """The chunks of one document come first, and one of them remains: two more are needed.

    A number that was given is the most that it sees.
    """
    many = " ".join("Oak oak oak oak oak oak oak oak." for _ in range(70))
    others = [Document(id=f"d{n}", text=f"An oak, and {n} words more.") for n in range(9)]
    reranker = Scripted(rule=lambda query, candidate: Verdict(candidate.score))
    base = AsyncKnowledgeBase(
        ":memory:", embedder=EMBEDDER, chunker="recursive:16/0", reranker=reranker
    )
    async with base:
        await base.add(Document(id="many", text=many), *others)
        chunks = len(await base.chunks("many"))
        assert 60 < chunks < 90
        settings: dict[str, Any] = {
            "mode": "keyword",
            "top_k": 3,
            "diversity": {"per_document": 1},
            "parents": {"mode": "none", "stage": "before_rerank"},
        }
        hits = await base.retrieve("oak", **settings)
        few = await base.retrieve("oak", **settings, rerank={"candidates": 5})
    assert [hit.document_id for hit in few] == ["many"]
    assert hits[0].document_id == "many"
    assert len({hit.document_id for hit in hits}) == 3
    assert [len(call) for call in reranker.calls] == [chunks + 2, 5]


async def test_stages_have_names() -> None:
    store = await fill(MemoryStore(), DOCUMENTS)
    prefs = RetrievalPrefs(
        query_text="truffle dog",
        debug=True,
        explain="candidates",
        chunking={"strategy": "late", "chunker_id": "recursive:16/0"},
    )
    results = await HybridRetriever(store=store, embedder=EMBEDDER).retrieve(prefs)
    assert {"explain", "chunk", "fuse", "rank", "parents"} <= set(results.stats.timing_ms or ())
    before = prefs.replace(parents={"stage": "before_rerank"}, chunking={"strategy": "precomputed"})
    results = await HybridRetriever(store=store, embedder=EMBEDDER).retrieve(before)
    assert "parents" in results.stats.timing_ms
    assert results.stats.fusion is not None
    assert results.stats.fusion.weights["text"] == before.scoring.w_text


async def test_a_rank_function_that_the_store_lacks_is_noted() -> None:
    store = await fill(MemoryStore(), DOCUMENTS)
    results = await ask(store, "truffle dog", fts={"rank_func": "ts_rank"})
    (note,) = results.degraded
    assert note == "text: words are ranked by bm25 in this store, not by ts_rank"


async def test_passages_are_those_of_the_documents_that_are_shown() -> None:
    async with base_of(*corpus(), embedder=EMBEDDER, chunker="recursive:16/0") as base:
        bundle = await base.search("truffle oak", top_k_items=2, top_k_chunks=50)
        assert len(bundle.candidates) == 2
        shown = {item.item_id for item in bundle.candidates}
        every = await base.retrieve("truffle oak", top_k=500, diversity={"per_document": 3})
        expected = [hit.chunk_id for hit in every if hit.document_id in shown]
        assert [item.chunk_id for item in bundle.evidence] == expected
        assert len(expected) > 2


async def test_a_document_without_text_has_no_snippet() -> None:
    async with base_of(Document(id="a", title="On truffles", text=""), embedder=EMBEDDER) as base:
        (found,) = (await base.search("truffles")).candidates
        assert (found.snippet, found.snippet_from) == (None, "unknown")


async def test_a_reranker_reads_the_title_of_what_is_only_a_title() -> None:
    """Once: as the text, not above it."""
    seen: list[tuple[str, str | None]] = []

    def look(query: str, candidate: Candidate) -> Verdict:
        seen.append((candidate.text, candidate.title))
        return Verdict(0.5)

    documents = [
        Document(id="a", title="On truffles", text=""),
        Document(id="b", title="On dogs", text="A dog finds truffles."),
    ]
    reranker = Scripted(rule=look)
    async with base_of(*documents, embedder=EMBEDDER, reranker=reranker) as base:
        await base.retrieve("truffles", rerank={"max_text_chars": 8})
    assert sorted(seen) == [("A dog fi", "On dogs"), ("On truff", None)]


@pytest.mark.parametrize("score", [math.nan, math.inf])
async def test_a_score_that_is_no_number_leaves_the_fused_order(score: float) -> None:
    reranker = Scripted(rule=lambda query, candidate: Verdict(score))
    async with base_of(*DOCUMENTS, embedder=EMBEDDER) as base:
        plain = await base.retrieve("truffle dog")
        retriever = HybridRetriever(store=base.store, embedder=EMBEDDER, reranker=reranker)
        found = await retriever.retrieve(RetrievalPrefs(query_text="truffle dog"))
    assert places(found) == places(plain)
    (note,) = found.degraded
    assert "a score that is not a finite number" in note


async def test_what_a_reranker_quotes_of_a_child_is_no_span_of_its_parent() -> None:
    reranker = Scripted(rule=lambda query, candidate: Verdict(0.9, evidence=Span(2, 5)))
    text = " ".join(f"Sentence {number} on the oak." for number in range(30))
    base = AsyncKnowledgeBase(
        ":memory:", embedder=EMBEDDER, reranker=reranker, chunker="parent-child:64/16/0"
    )
    async with base:
        await base.add(Document(id="a", text=text))
        for mode, kept in (("none", Span(2, 5)), ("attach", Span(2, 5)), ("replace", None)):
            (found, *_) = await base.retrieve("oak", parents={"mode": mode})
            assert found.evidence == kept


async def test_what_a_reranker_quotes_is_an_anchor() -> None:
    reranker = Scripted(rule=lambda query, candidate: Verdict(0.9, evidence=Span(2, 5)))
    async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, reranker=reranker) as base:
        await base.add(Document(id="a", text="An oak and a truffle."))
        (found,) = (await base.search("oak")).evidence
    assert (found.anchors or {})["evidence"] == Span(2, 5)
