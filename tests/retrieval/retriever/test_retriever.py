from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Vectors
from lagotto.embedders.base import EmbedderInfo, Role
from lagotto.errors import (
    ConfigError,
    DegradedError,
    EmbeddingServiceError,
    ModelMismatchError,
    RebuiltError,
    RetrievalError,
    SearchCancelled,
    StoreError,
)
from lagotto.indexes.base import Hits
from lagotto.indexes.text_query import Phrase, Term, TextQuery
from lagotto.prefs import RetrievalPrefs, SearchRequest
from lagotto.request_context import CancellationToken, RequestContext
from lagotto.results import RetrievalResult
from lagotto.retrieval.query.expansion import Expansion
from lagotto.retrieval.recall import exact_query
from lagotto.retrieval.retriever import HybridRetriever, as_list
from lagotto.stores.memory import MemoryStore, MemoryView
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import EMBEDDER as STORED
from lagotto.testing.stores import entry
from tests.bases import base_of, view_of
from tests.closeness import are_close
from tests.counting import CountingEmbedder

WORDS = ["oak", "hazel", "truffle", "dog", "water", "lake", "root", "smell", "marsh"]
EMBEDDER = HashEmbedder(dimension=64)


def documents(count: int = 40) -> list[Document]:
    chance = np.random.default_rng(3)
    return [
        Document(
            id=f"d{number:02}",
            title=f"Note {number}",
            text=" ".join(chance.choice(WORDS, 12)) + f" KX-{number:04}b.",
            metadata={"number": number},
        )
        for number in range(count)
    ]


@pytest.fixture
async def base(tmp_path: Path) -> AsyncIterator[AsyncKnowledgeBase]:
    async with base_of(*documents(), location=tmp_path / "kb.db", embedder=EMBEDDER) as base:
        yield base


def ids(hits: Sequence[RetrievalResult]) -> list[str]:
    return [hit.document_id for hit in hits]


class TestExplanation:
    @pytest.mark.parametrize(
        "scoring",
        [
            {},
            {"blend": "rrf"},
            {"normalize": "minmax"},
            {"normalize": "zscore", "fill": False},
            {"normalize": "sigmoid", "w_text": 2.0},
            {"normalize": "theoretical"},
            {"normalize": "none"},
        ],
    )
    async def test_contributions_add_up_to_the_score(
        self, base: AsyncKnowledgeBase, scoring: dict[str, object]
    ) -> None:
        for query in ("truffle dog", "trufle dgo of the marsh", 'lake "oak hazel"', "KX-0007b"):
            for hit in await base.retrieve(query, scoring=scoring):
                legs = hit.breakdown.legs()
                assert sum(said.contribution for said in legs.values()) == pytest.approx(hit.score)
                for said in legs.values():
                    if scoring.get("normalize") != "none":
                        expected = said.weight * said.normalised
                        assert said.contribution == pytest.approx(expected)

    async def test_text_shows_every_number(self, base: AsyncKnowledgeBase) -> None:
        hit = (await base.retrieve("truffle dog", rerank={"reranker": "overlap"}))[0]
        told = hit.explain()
        for leg, said in hit.breakdown.legs().items():
            assert leg in told
            assert f"{said.contribution:.4f}" in told
        assert f"fused {hit.breakdown.fused_score:.4f}" in told
        assert f"reranked {hit.score:.4f}" in told


class TestWhyNot:
    async def test_where_it_would_be(self, base: AsyncKnowledgeBase) -> None:
        everything = await base.retrieve("truffle dog", top_k=40)
        for hit in (everything[5], everything[-1]):
            why = await base.why_not("truffle dog", hit.document_id, top_k=3)
            assert why.rank is not None
            better = sum(other.score > hit.score + 1e-9 for other in everything)
            assert why.rank == better + 1
            assert why.breakdown is not None
            assert why.breakdown.fused_score == pytest.approx(hit.score)
            assert f"{everything[2].score:.4f}" in why.reason

    async def test_it_is_there(self, base: AsyncKnowledgeBase) -> None:
        hit = (await base.retrieve("truffle dog"))[1]
        why = await base.why_not("truffle dog", hit.document_id)
        assert (why.rank, why.reason) == (2, "it was found, at rank 2")

    async def test_other_reasons(self, base: AsyncKnowledgeBase) -> None:
        assert "no document" in (await base.why_not("truffle", "nobody")).reason
        why = await base.why_not("truffle", "d05", filters={"number": {"$gt": 10}})
        assert "the filter" in why.reason
        last = (await base.retrieve("truffle dog", top_k=40))[-1]
        for settings in ({"min_score": 0.9}, {"scoring": {"min_score": 0.9}}):
            why = await base.why_not("truffle dog", last.document_id, **settings)
            assert "least score asked for is 0.9" in why.reason

    async def test_beyond_the_depth_of_every_leg(self, base: AsyncKnowledgeBase) -> None:
        everything = await base.retrieve("truffle dog", top_k=40)
        why = await base.why_not("truffle dog", everything[-1].document_id, candidates=3, top_k=3)
        assert "semantic gives it" in why.reason


class TestManyQueries:
    async def test_the_same_as_one_by_one(self, base: AsyncKnowledgeBase) -> None:
        queries = ["truffle", "dog and lake", "", "KX-0007b", "maarsh", "oak root smell"]
        for settings in ({}, {"mode": "keyword"}, {"filters": {"number": {"$lt": 20}}, "top_k": 3}):
            many = await base.retrieve_many(queries, **settings)
            single = [await base.retrieve(query, **settings) for query in queries]
            assert are_close(
                [[hit.model_dump() for hit in hits] for hits in many],
                [[hit.model_dump() for hit in hits] for hits in single],
            )

    async def test_one_call_of_the_embedder(self, tmp_path: Path) -> None:
        embedder = CountingEmbedder()
        async with base_of(*documents(3), embedder=embedder) as base:
            embedder.calls.clear()
            await base.retrieve_many(["oak", "lake", "dog"])
        assert embedder.calls == [3]

    async def test_none(self, base: AsyncKnowledgeBase) -> None:
        assert await base.retrieve_many([]) == []


class BrokenEmbedder(HashEmbedder):
    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if role == "query":
            raise EmbeddingServiceError("the service is down")
        return await super().embed(texts, role=role)


class TestDegradation:
    async def test_without_vectors_words_go_on(self) -> None:
        async with base_of(*documents(), embedder=BrokenEmbedder()) as base:
            found = await base.retrieve("truffle dog")
            assert found == await base.retrieve("truffle dog", mode="keyword")
            assert len(found.degraded) == 1
            assert "the service is down" in found.degraded[0]
            (many,) = await base.retrieve_many(["truffle dog"])
            assert (many, many.degraded) == (found, found.degraded)
            with pytest.raises(EmbeddingServiceError):
                await base.retrieve("truffle dog", mode="semantic")
            with pytest.raises(DegradedError, match="the service is down"):
                await base.retrieve("truffle dog", strict=True)

    async def test_without_words_vectors_go_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def broken(self: MemoryView, query: TextQuery, *, k: int) -> Hits:
            raise StoreError("the index is gone")

        async with base_of(*documents(), embedder=EMBEDDER) as base:
            semantic = await base.retrieve("truffle dog", mode="semantic")
            monkeypatch.setattr(MemoryView, "text", broken)
            found = await base.retrieve("truffle dog")
            assert ids(found) == ids(semantic)
            assert found.degraded == ("text: the leg failed and is left out (the index is gone)",)
            with pytest.raises(StoreError, match="the index is gone"):
                await base.retrieve("truffle dog", mode="keyword")
            with pytest.raises(DegradedError):
                await base.retrieve("truffle dog", strict=True)


class TestOwnVector:
    async def test_of_another_dimension(self, base: AsyncKnowledgeBase) -> None:
        with pytest.raises(ModelMismatchError, match="dimension 64"):
            await base.retrieve("oak", query_vector=np.ones(3, np.float32))

    @pytest.mark.parametrize("bad", [np.zeros(64, np.float32), np.full(64, np.nan, np.float32)])
    async def test_without_direction(self, base: AsyncKnowledgeBase, bad: Vectors) -> None:
        with pytest.raises(ConfigError, match="norm of the query vector"):
            await base.retrieve("oak", query_vector=bad)


class TestExactWording:
    """What is quoted or names one thing is never buried by what merely means the same."""

    @pytest.mark.parametrize("blend", ["linear", "rrf"])
    async def test_comes_first_if_asked_for(self, base: AsyncKnowledgeBase, blend: str) -> None:
        for number in range(0, 40, 7):
            for query in (f"KX-{number:04}b", f"KX-{number:04}b truffle dog"):
                found = await base.retrieve(query, scoring={"blend": blend})
                assert found[0].document_id == f"d{number:02}"
                assert found[0].breakdown.exact is not None
                assert found[0].breakdown.exact.score == 1

    @pytest.mark.parametrize("blend", ["linear", "rrf"])
    async def test_is_among_the_first_if_mentioned(
        self, base: AsyncKnowledgeBase, blend: str
    ) -> None:
        for number in range(0, 40, 7):
            query = f"Which dog smells the truffle by the root of the oak near KX-{number:04}b?"
            found = await base.retrieve(query, scoring={"blend": blend})
            assert f"d{number:02}" in ids(found)[:3]

    async def test_a_mention_in_a_base_of_two(self) -> None:
        """There is no third rank to lift its holder to."""
        async with base_of(*documents(2), embedder=EMBEDDER) as base:
            found = await base.retrieve("Which dog smells the truffle near KX-0001b?")
        assert sorted(ids(found)) == ["d00", "d01"]

    async def test_a_mention_changes_nothing_where_its_holder_is_found_anyway(
        self, base: AsyncKnowledgeBase
    ) -> None:
        text = documents()[7].text.split(" KX")[0]
        query = f"Who wrote {text} KX-0007b, and when was that?"
        plain = await base.retrieve(query, scoring={"w_exact": 0})
        found = await base.retrieve(query)
        assert plain[0].document_id == "d07"
        assert ids(found) == ids(plain)
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in plain])

    async def test_every_holder_of_a_quotation_before_the_rest(
        self, base: AsyncKnowledgeBase
    ) -> None:
        held = {item.id for item in documents() if "oak hazel" in item.text}
        assert held
        found = await base.retrieve('smell of water "oak hazel"', top_k=40)
        assert set(ids(found)[: len(held)]) == held

    async def test_nothing_changes_where_nobody_holds_it(self, base: AsyncKnowledgeBase) -> None:
        plain = await base.retrieve("truffle dog")
        quoted = await base.retrieve('"truffle dog unicorn"')
        assert quoted[0].breakdown.exact is None
        assert set(ids(quoted)) & set(ids(plain))

    async def test_the_first_four_wordings_of_a_query_count(self) -> None:
        names = ["oak moss", "lake shore", "root rot", "marsh gas", "smell test"]
        query = " ".join(f'"{name}"' for name in names)
        async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER) as base:
            await base.add(*(Document(id=name, text=f"Of {name}.") for name in names))
            found = await base.retrieve(query, top_k=5)
        exact = {hit.document_id: hit.breakdown.exact for hit in found}
        shares = {name: leg.score for name, leg in exact.items() if leg}
        assert shares == {**dict.fromkeys(names[:4], 1 / 4), names[4]: 0.0}

    @pytest.mark.parametrize(("holders", "rare"), [(20, True), (21, False), (30, False)])
    async def test_an_identifier_of_many_passages_is_a_plain_word(
        self, holders: int, rare: bool
    ) -> None:
        async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER) as base:
            texts = [f"Part {number} of KX-0007b." for number in range(holders)]
            await base.add(*(Document(id=f"d{at:02}", text=text) for at, text in enumerate(texts)))
            (first, *_) = await base.retrieve("KX-0007b")
            quoted = await base.retrieve('"of KX-0007b"', top_k=holders)
        assert (first.breakdown.exact is not None) == rare
        exact = [hit.breakdown.exact for hit in quoted]
        assert [leg and leg.score for leg in exact] == [1.0] * holders


async def test_wordings_of_two_languages_may_differ_in_length() -> None:
    phrase = Phrase((("oak", "moss"), ("oak",)))
    async with view_of(Document(id="a", text="Oak moss.", language="en")) as view:
        found = await exact_query(view, [phrase], [], mentioned=False)
    assert found is not None
    assert found.wordings[0][0].words == ((Term("oak"),), (Term("moss"),))


class TestScope:
    """A search finds nothing outside of the collections of its preferences and its context."""

    @pytest.fixture
    async def store(self) -> MemoryStore:
        store = MemoryStore()
        for collection in ("a", "b"):
            document = Document(id=f"oak-{collection}", collection=collection, text="An old oak.")
            await store.write([await entry(document)])
        return store

    async def test_the_collection_of_a_request(self, store: MemoryStore) -> None:
        retriever = HybridRetriever(store=store, embedder=STORED)
        prefs, ctx = RetrievalPrefs(query_text="oak"), RequestContext(collection="b")
        assert ids(await retriever.retrieve(prefs)) == ["oak-a", "oak-b"]
        assert ids(await retriever.retrieve(prefs, ctx=ctx)) == ["oak-b"]
        (many,) = await retriever.run_many([SearchRequest.of(prefs, "retrieve", ctx=ctx)])
        assert ids(await as_list(many)) == ["oak-b"]
        bundle = await retriever.search(ctx, prefs)
        assert [item.item_id for item in bundle.candidates] == ["oak-b"]
        both = await retriever.retrieve(prefs.replace(collection="a"), ctx=ctx)
        assert both == []  # no document is in two collections

    async def test_many_queries_each_in_its_collection(self, store: MemoryStore) -> None:
        retriever = HybridRetriever(store=store, embedder=STORED)
        queries = [
            RetrievalPrefs(query_text="oak", collection=collection)
            for collection in ("a", "b", None)
        ]
        requests = [SearchRequest.of(prefs, "retrieve") for prefs in queries]
        found = [await as_list(outcome) for outcome in await retriever.run_many(requests)]
        assert list(map(ids, found)) == [["oak-a"], ["oak-b"], ["oak-a", "oak-b"]]


class FlooredEmbedder(HashEmbedder):
    """Unrelated texts have a cosine of 0.6."""

    @property
    def info(self) -> EmbedderInfo:
        return super().info.model_copy(update={"cosine_floor": 0.6})


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
async def test_the_floor_is_one_of_cosines(distance: str) -> None:
    """An inner product or a similarity by distance counts from 0, whatever the model."""
    async with AsyncKnowledgeBase(":memory:", embedder=FlooredEmbedder()) as base:
        await base.add(Document(id="oak", text="An oak by the lake."))
        (hit,) = await base.retrieve("oak lake", mode="semantic", vector={"distance": distance})
    leg = hit.breakdown.semantic
    assert leg is not None
    expected = max(0.0, (leg.score - 0.6) / 0.4) if distance == "cosine" else leg.score
    assert 0 < leg.score < 1
    assert leg.normalised == pytest.approx(expected)


class TestDiversity:
    async def test_cap(self) -> None:
        long = Document(id="long", text=" ".join(f"The oak number {n} is old." for n in range(200)))
        short = Document(id="short", text="An oak.")
        async with base_of(long, short, embedder=EMBEDDER, chunker="recursive:32/0") as base:
            plain = await base.retrieve("oak number", top_k=5)
            capped = await base.retrieve("oak number", top_k=5, diversity={"per_document": 2})
        assert ids(plain).count("long") > 2
        assert sorted(ids(capped)) == ["long", "long", "short"]

    async def test_mmr(self, base: AsyncKnowledgeBase) -> None:
        plain = await base.retrieve("truffle dog", top_k=10)
        same = await base.retrieve("truffle dog", top_k=10, diversity={"mmr": 1.0})
        varied = await base.retrieve("truffle dog", top_k=10, diversity={"mmr": 0.3})
        assert same == plain
        assert varied[0] == plain[0]
        assert set(ids(varied)) != set(ids(plain))  # others come from further down


class Expander:
    def __init__(self, expansion: Expansion | None) -> None:
        self._expansion = expansion

    async def expand(self, query: str) -> Expansion:
        if self._expansion is None:
            raise RetrievalError("no model today")
        return self._expansion


class TestExpansion:
    async def test_what_is_added_is_found(self) -> None:
        expander = Expander(Expansion(queries=("zyzzyva",), passages=("A zyzzyva is a weevil.",)))
        weevil = Document(id="weevil", text="A zyzzyva is a weevil.")
        async with base_of(*documents(), weevil, embedder=EMBEDDER, expander=expander) as base:
            assert "weevil" in ids(await base.retrieve("truffle", top_k=5))

    async def test_failure_is_noted(self) -> None:
        async with base_of(*documents(), embedder=EMBEDDER, expander=Expander(None)) as base:
            found = await base.retrieve("truffle")
            assert found
            assert found.degraded == ("expansion: left out (no model today)",)

    async def test_feedback_brings_words_of_the_best(self, base: AsyncKnowledgeBase) -> None:
        plain = await base.retrieve("truffle", mode="keyword", top_k=40)
        more = await base.retrieve(
            "truffle", mode="keyword", top_k=40, expansion={"feedback": True}
        )
        assert len(more) > len(plain)

    async def test_feedback_of_documents_without_a_language_is_stemmed_as_the_base(self) -> None:
        """They are indexed in the main language, so their words must be looked up in it too."""
        store = MemoryStore()
        texts = ["A truffle hunting season.", "A truffle hunting guide.", "They hunted elsewhere."]
        for at, text in enumerate([*texts, "An old oak."]):
            language = None if at < 2 else "en"
            await store.write([await entry(Document(id=f"d{at}", text=text, language=language))])
        prefs = RetrievalPrefs(query_text="truffle", mode="keyword", expansion={"feedback": True})
        found = await HybridRetriever(store=store, embedder=STORED).retrieve(prefs)
        assert set(ids(found)) == {"d0", "d1", "d2"}


class StuckEmbedder(HashEmbedder):
    """Embeds chunks in a thread, like a real one, and never ends by itself once it is `stuck`."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck, self.entered = False, threading.Event()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        while self.stuck and role == "document":
            self.entered.set()
            await asyncio.to_thread(time.sleep, 0.001)
        return await super().embed(texts, role=role)


async def test_cancelled_from_another_thread_while_chunks_are_embedded(tmp_path: Path) -> None:
    text = " ".join(f"The oak number {n} is old and stands alone." for n in range(50))
    embedder, token = StuckEmbedder(), CancellationToken()
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=embedder, chunker="document", prefs="aiblox"
    ) as base:
        await base.add(Document(id="long", text=text))

        def fire() -> None:
            if embedder.entered.wait(60):
                token.fire()

        other = threading.Thread(target=fire)
        other.start()
        prefs = RetrievalPrefs.preset(
            "aiblox", query_text="oak", chunking={"chunker_id": "recursive:16/0"}
        )
        embedder.stuck = True
        with pytest.raises(SearchCancelled):
            await base.retriever.search(RequestContext(cancellation=token), prefs)
        other.join()
        embedder.stuck = False
        assert await base.retrieve("oak")


async def test_a_retriever_of_another_generation_is_refused() -> None:
    store, prefs = MemoryStore(), RetrievalPrefs(query_text="oak")
    await HybridRetriever(store=store, embedder=EMBEDDER, generation=0).retrieve(prefs)
    old = HybridRetriever(store=store, embedder=EMBEDDER, generation=1)
    with pytest.raises(RebuiltError):
        await old.retrieve(prefs)
    with pytest.raises(RebuiltError):
        await old.run_many([SearchRequest.of(prefs, "retrieve")])
    with pytest.raises(RebuiltError):
        await old.search(RequestContext(), prefs)
