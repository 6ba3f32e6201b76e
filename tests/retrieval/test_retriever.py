from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from lagotto.documents import Document, Vectors
from lagotto.embedders.base import Role
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
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import TextQuery
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import CancellationToken, RequestContext
from lagotto.results import RetrievalResult
from lagotto.retrieval.query.expansion import Expansion
from lagotto.retrieval.retriever import HybridRetriever
from lagotto.stores.memory import MemoryStore, MemoryView
from lagotto.testing.hash_embedder import HashEmbedder
from tests.closeness import are_close

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
    async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=EMBEDDER) as base:
        await base.add(*documents())
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
        why = await base.why_not("truffle dog", last.document_id, min_score=0.9)
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
        calls: list[int] = []

        class Counting(HashEmbedder):
            async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
                calls.append(len(texts))
                return await super().embed(texts, role=role)

        async with AsyncKnowledgeBase(":memory:", embedder=Counting()) as base:
            await base.add(*documents(3))
            calls.clear()
            await base.retrieve_many(["oak", "lake", "dog"])
        assert calls == [3]

    async def test_none(self, base: AsyncKnowledgeBase) -> None:
        assert await base.retrieve_many([]) == []


class BrokenEmbedder(HashEmbedder):
    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if role == "query":
            raise EmbeddingServiceError("the service is down")
        return await super().embed(texts, role=role)


class TestDegradation:
    async def test_without_vectors_words_go_on(self) -> None:
        async with AsyncKnowledgeBase(":memory:", embedder=BrokenEmbedder()) as base:
            await base.add(*documents())
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

        async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER) as base:
            await base.add(*documents())
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


class TestDiversity:
    async def test_cap(self) -> None:
        long = Document(id="long", text=" ".join(f"The oak number {n} is old." for n in range(200)))
        short = Document(id="short", text="An oak.")
        async with AsyncKnowledgeBase(
            ":memory:", embedder=EMBEDDER, chunker="recursive:32/0"
        ) as base:
            await base.add(long, short)
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
        assert ids(varied) != ids(plain)


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
        async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, expander=expander) as base:
            await base.add(*documents(), weevil)
            assert "weevil" in ids(await base.retrieve("truffle", top_k=5))

    async def test_failure_is_noted(self) -> None:
        async with AsyncKnowledgeBase(
            ":memory:", embedder=EMBEDDER, expander=Expander(None)
        ) as base:
            await base.add(*documents())
            found = await base.retrieve("truffle")
            assert found
            assert found.degraded == ("expansion: left out (no model today)",)

    async def test_feedback_brings_words_of_the_best(self, base: AsyncKnowledgeBase) -> None:
        plain = await base.retrieve("truffle", mode="keyword", top_k=40)
        more = await base.retrieve(
            "truffle", mode="keyword", top_k=40, expansion={"feedback": True}
        )
        assert len(more) > len(plain)


class SlowEmbedder(HashEmbedder):
    """Takes a while per batch, in a thread, like a real one."""

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        for _ in texts:
            await asyncio.to_thread(time.sleep, 0.02)
        return await super().embed(texts, role=role)


@pytest.mark.slow
async def test_cancelled_from_another_thread_while_chunks_are_embedded(tmp_path: Path) -> None:
    text = " ".join(f"The oak number {n} is old and stands alone." for n in range(2_000))
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=SlowEmbedder(), chunker="document", prefs="aiblox"
    ) as base:
        await base.add(Document(id="long", text=text))
        token = CancellationToken()
        fired: list[float] = []

        def fire() -> None:
            fired.append(time.monotonic())
            token.fire()

        timer = threading.Timer(0.3, fire)
        timer.start()
        prefs = RetrievalPrefs.preset(
            "aiblox", query_text="oak", chunking={"chunker_id": "recursive:16/0"}
        )
        with pytest.raises(SearchCancelled):
            await base.retriever.search(RequestContext(cancellation=token), prefs)
        timer.join()
        assert time.monotonic() - fired[0] < 2  # a tenth of a second on a quiet machine
        assert await base.retrieve("oak")


async def test_a_retriever_of_another_generation_is_refused() -> None:
    store, prefs = MemoryStore(), RetrievalPrefs(query_text="oak")
    await HybridRetriever(store=store, embedder=EMBEDDER, generation=0).retrieve(prefs)
    old = HybridRetriever(store=store, embedder=EMBEDDER, generation=1)
    with pytest.raises(RebuiltError):
        await old.retrieve(prefs)
    with pytest.raises(RebuiltError):
        await old.retrieve_many([prefs])
    with pytest.raises(RebuiltError):
        await old.search(RequestContext(), prefs)
