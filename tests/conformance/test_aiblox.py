"""The protocol design: documents as sources, chunks made late as evidence. Preset `aiblox`."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psycopg
import pytest

import lagotto
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS, ChunkerRegistry
from lagotto.documents import Document
from lagotto.embedders.base import Embedder, Role
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import ConfigError, DeadlineExceeded, DegradedError, QueryError, SearchCancelled
from lagotto.filters import Eq
from lagotto.prefs import RetrievalPrefs, ScoringPrefs
from lagotto.request_context import CancellationToken, RequestContext
from lagotto.rerankers.base import UNIT
from lagotto.results import CandidateItem, EvidenceChunk, Leg, RetrievalBundle, RetrievalStats
from lagotto.retrieval.fusion import Candidates, Fused, fuse
from lagotto.retrieval.retriever import HybridRetriever, Retriever
from lagotto.server.events import PlainOrchestrator
from lagotto.stores.base import CachedChunks, CacheKey, ChunkCacheRepo, Entry, ItemRepo
from lagotto.stores.memory import MemoryStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import EMBEDDER as ENTRIES
from lagotto.testing.stores import entry
from tests.bases import base_of
from tests.closeness import are_close
from tests.conformance.lists import DOCUMENTS, LONG, Angles, candidates, named, spread
from tests.counting import CountingEmbedder

AIBLOX = RetrievalPrefs.preset("aiblox")
BOOK = Document(
    id="book", title="Book", kind="book", source="book.txt", summary="On truffles.", text=LONG
)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
async def base(tmp_path: Path, embedder: CountingEmbedder) -> AsyncIterator[AsyncKnowledgeBase]:
    """Documents only: one vector and the full text of each; chunks are made at query time."""
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=embedder, chunker="document", prefs="aiblox"
    ) as base:
        await base.add(BOOK, *DOCUMENTS)
        yield base


def asked(query: str, **settings: object) -> RetrievalPrefs:
    small = {"chunker_id": "recursive:32/0"}
    return AIBLOX.replace(query_text=query, chunking=small).replace(**settings)


async def bundle_of(base: AsyncKnowledgeBase, query: str, **settings: Any) -> RetrievalBundle:
    return await base.retriever.search(RequestContext(), asked(query, **settings))


@pytest.fixture
async def on_server(location: str) -> AsyncIterator[AsyncKnowledgeBase]:
    """The same on PostgreSQL, the reference backend."""
    async with AsyncKnowledgeBase(
        location, embedder=HashEmbedder(), chunker="document", prefs="aiblox"
    ) as base:
        await base.add(BOOK, *DOCUMENTS)
        yield base


DEFAULTS: dict[str, dict[str, object]] = {
    "fts": {"mode": "web", "config": None, "rank_func": "ts_rank_cd", "min_rank": None},
    "vector": {"embed_query": True, "distance": "cosine", "min_score": None},
    "scoring": {"blend": "rrf", "w_text": 0.35, "w_vec": 0.65, "normalize": "sigmoid"},
    "chunking": {
        "strategy": "late",
        "include_headers": True,
        "max_chunk_tokens": None,
        "overlap_tokens": None,
    },
    "cache": {"use_chunk_cache": True, "write_chunk_cache": True, "ttl_seconds": None},
}


@pytest.mark.parametrize("part", DEFAULTS)
def test_defaults(part: str) -> None:
    """aiblox 5, 6, 7, 8 and 9: full text, vectors, scores, late chunking and its cache."""
    assert DEFAULTS[part].items() <= getattr(AIBLOX, part).model_dump().items()


@pytest.mark.parametrize("settings", [{}, {"debug": True}, {"fts": {"rank_func": "bm25"}}])
async def test_retriever_emits_nothing(
    base: AsyncKnowledgeBase,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    recwarn: pytest.WarningsRecorder,
    settings: dict[str, object],
) -> None:
    """aiblox 1 and 20: a bundle, and nothing printed, warned of or left running.

    What would be a message elsewhere, a rank function that this store lacks, is in the bundle.
    """
    caplog.set_level(logging.WARNING)  # what is logged below is for who asks for it
    before = asyncio.all_tasks()
    bundle = await bundle_of(base, "truffles", **settings)
    assert asyncio.all_tasks() == before
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert recwarn.list == []
    assert set(bundle.model_dump()) == {"candidates", "evidence", "stats"}
    lacking = settings.get("fts") is None
    assert any("ts_rank_cd" in note for note in bundle.stats.degraded) == lacking


@pytest.mark.parametrize("debug", [False, True])
async def test_event_mapping(base: AsyncKnowledgeBase, debug: bool) -> None:
    """aiblox 20: candidates are rag.sources, stats rag.debug if asked for, evidence is no event."""
    given: list[EvidenceChunk] = []

    async def synthesis(query: str, evidence: Sequence[EvidenceChunk]) -> AsyncIterator[str]:
        given.extend(evidence)
        yield "an answer"

    prefs = asked("truffles", debug=debug)
    orchestrator = PlainOrchestrator(base.retriever, synthesis=synthesis)
    events = [event async for event in orchestrator.events(RequestContext(), prefs)]
    bundle = await base.retriever.search(RequestContext(), prefs)
    names = ["rag.sources", *(["rag.debug"] if debug else []), "rag.answer"]
    assert [event.name for event in events] == names
    assert events[0].data["candidates"] == bundle.candidates
    assert given == bundle.evidence != []
    chunks = {str(chunk.chunk_id) for chunk in bundle.evidence}
    assert not [event for event in events if any(chunk in str(event.data) for chunk in chunks)]


async def test_protocol(base: AsyncKnowledgeBase, tmp_path: Path) -> None:
    """aiblox 2: async search(ctx, prefs) -> RetrievalBundle, the same for the same inputs.

    Also from a base that got its documents in another order, and for fewer results.
    """
    for search in (Retriever.search, base.retriever.search, HybridRetriever.search):
        assert inspect.iscoroutinefunction(search)
        parameters = inspect.signature(search).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty]
        assert [name for name in needed if name != "self"] == ["ctx", "prefs"]
    prefs = asked("truffles and logging")
    bundle = await base.retriever.search(RequestContext(), prefs)
    assert isinstance(bundle, RetrievalBundle)
    assert await base.retriever.search(prefs=prefs, ctx=RequestContext()) == bundle
    async with AsyncKnowledgeBase(
        tmp_path / "other.db", embedder=HashEmbedder(), chunker="document", prefs="aiblox"
    ) as other:
        for document in (*reversed(DOCUMENTS), BOOK):
            await other.add(document)
        assert await other.retriever.search(RequestContext(), prefs) == bundle
    few = await base.retriever.search(RequestContext(), prefs.replace(top_k_chunks=2))
    assert few.evidence == bundle.evidence[:2]
    assert [item.item_id for item in few.candidates] == [item.item_id for item in bundle.candidates]


class TestCancellation:
    """aiblox 2: cancellable through the context."""

    async def test_while_embedding(
        self, base: AsyncKnowledgeBase, embedder: CountingEmbedder
    ) -> None:
        token = CancellationToken()

        async def slow(texts, *, role):  # type: ignore[no-untyped-def]
            asyncio.get_running_loop().call_later(0.05, token.fire)
            await asyncio.sleep(60)

        embedder.embed = slow  # type: ignore[method-assign]
        started = asyncio.get_running_loop().time()
        with pytest.raises(SearchCancelled):
            await base.retriever.search(RequestContext(cancellation=token), asked("truffles"))
        assert asyncio.get_running_loop().time() - started < 5

    @pytest.mark.parametrize("waiting", ["chunks", "reranker", "expander"])
    async def test_wherever_it_waits(
        self, tmp_path: Path, embedder: CountingEmbedder, waiting: str
    ) -> None:
        """While chunks are embedded, the reranker judges, or the query is expanded."""
        token = CancellationToken()

        async def wait(*_: Any, **__: Any) -> Any:
            token.fire()
            await asyncio.sleep(60)

        class Waiting:
            id, scale, reads_only_text = "waiting", UNIT, True
            rerank = expand = wait

            async def close(self) -> None:
                pass

        part = Waiting()
        parts: dict[str, Any] = {waiting: part} if waiting != "chunks" else {}
        async with AsyncKnowledgeBase(
            tmp_path / "kb.db", embedder=embedder, chunker="document", prefs="aiblox", **parts
        ) as base:
            await base.add(BOOK)
            (vector,) = await embedder.embed(["truffles"], role="query")
            if waiting == "chunks":
                embedder.embed = wait  # type: ignore[method-assign]
            with pytest.raises(SearchCancelled):
                await base.search(
                    "truffles",
                    chunking={"chunker_id": "recursive:32/0"},
                    query_vector=vector,
                    request=RequestContext(cancellation=token),
                )

    async def test_deadline(self, base: AsyncKnowledgeBase, embedder: CountingEmbedder) -> None:
        async def slow(texts, *, role):  # type: ignore[no-untyped-def]
            await asyncio.sleep(60)

        embedder.embed = slow  # type: ignore[method-assign]
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
            await base.retriever.search(RequestContext(timeout=0.05), asked("truffles"))


def test_principles() -> None:
    """aiblox 3 and 21: hybrid, late chunking, nothing but the ORM's tables, no user interface."""
    assert AIBLOX.mode == "hybrid"
    assert AIBLOX.chunking.strategy == "late"
    imported = {
        alias.name.partition(".")[0]
        for path in (Path(lagotto.__file__).parent / "retrieval").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (
            [ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names
        )
    }
    assert imported.isdisjoint({"dspy", "rich", "typer", "sqlite3", "sqlalchemy"})


async def test_sizes(base: AsyncKnowledgeBase) -> None:
    """aiblox 4: 20 items, 12 chunks, at most 3 of one item."""
    assert (AIBLOX.top_k_items, AIBLOX.top_k_chunks, AIBLOX.per_item_chunk_cap) == (20, 12, 3)
    bundle = await bundle_of(base, "truffles oaks dogs lakes roots")
    of_book = [item for item in bundle.evidence if item.item_id == "book"]
    assert len(of_book) == 3
    two = await bundle_of(base, "truffles", top_k_items=2, top_k_chunks=1)
    assert (len(two.candidates), len(two.evidence)) == (2, 1)
    one = await bundle_of(base, "truffles", per_item_chunk_cap=1)
    items = [item.item_id for item in one.evidence]
    assert len(items) == len(set(items)) > 1


async def test_default_sizes(tmp_path: Path) -> None:
    """aiblox 4: of 30 documents each leg brings 20, 20 are candidates, and 12 chunks evidence."""
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=HashEmbedder(), chunker="document", prefs="aiblox"
    ) as base:
        await base.add(*(Document(id=f"d{n:02}", text=f"Truffle number {n}.") for n in range(30)))
        for mode in ("semantic", "keyword"):
            bundle = await base.retriever.search(
                RequestContext(), AIBLOX.replace(query_text="truffle", mode=mode, debug=True)
            )
            assert bundle.stats.counts["candidate_chunks"] == 20
            assert (len(bundle.candidates), len(bundle.evidence)) == (20, 12)


MODES = [
    ("web", '"Stargate Atlantis" cancelled', {"series"}),
    ("web", "atlantis -stargate", {"other"}),
    ("web", "plato or seasons", {"series", "other"}),
    ("plain", "atlantis, sea!", {"other"}),
    ("phrase", "island that Plato", {"other"}),
    ("phrase", "Plato island", set()),
    ("strict", "atlantis & (plato | seasons)", {"series", "other"}),
    ("strict", "atlantis & !plato", {"series"}),
    ("strict", "nowhere | plat:*", {"other"}),
]
"""Modes and queries, with the documents that they find."""


class TestFullText:
    """aiblox 5: web, plain, phrase, strict; ts_rank_cd where the server has it."""

    @pytest.mark.parametrize(("mode", "query", "expected"), MODES)
    async def test_modes(
        self, base: AsyncKnowledgeBase, mode: str, query: str, expected: set[str]
    ) -> None:
        found = await base.retrieve(query, mode="keyword", fts={"mode": mode})
        assert {hit.document_id for hit in found} == expected

    async def test_on_the_reference_backend(self, on_server: AsyncKnowledgeBase) -> None:
        """PostgreSQL's functions of these names, and ts_rank_cd."""
        for mode, query, expected in MODES:
            found = await on_server.retrieve(query, mode="keyword", fts={"mode": mode})
            assert {hit.document_id for hit in found} == expected
            assert found.degraded == ()
        stored = {"strategy": "precomputed"}
        (hit,) = await on_server.retrieve("seasons", mode="keyword", chunking=stored)
        assert hit.breakdown.text is not None
        assert hit.breakdown.text.score == pytest.approx(0.1)  # ts_rank_cd of one occurrence

    async def test_other_rank_functions_are_said_to_be_missing(
        self, base: AsyncKnowledgeBase
    ) -> None:
        found = await base.retrieve("atlantis")
        (note,) = found.degraded
        assert note == "text: words are ranked by bm25 in this store, not by ts_rank_cd"

    async def test_syntax_error(self, base: AsyncKnowledgeBase) -> None:
        with pytest.raises(QueryError) as caught:
            await base.retrieve("atlantis & ( plato", fts={"mode": "strict"})
        assert 0 < caught.value.position <= len("atlantis & ( plato")

    async def test_excluded_words_are_in_no_result(self, base: AsyncKnowledgeBase) -> None:
        bundle = await bundle_of(base, "atlantis -stargate")
        assert "series" not in {item.item_id for item in bundle.candidates}

    async def test_ranks_of_the_server(self, location: str) -> None:
        """ts_rank_cd: 0.1 for each occurrence; ts_rank is another; min_rank is on their scale."""
        three = Document(id="three", text="zebra one two three zebra one two three zebra")
        one = Document(id="one", text="a zebra")
        async with AsyncKnowledgeBase(
            location, embedder=HashEmbedder(), chunker="document", prefs="aiblox"
        ) as base:
            await base.add(three, one)
            by: dict[str, dict[str, float | None]] = {}
            for name, fts in (
                ("cd", {}),
                ("plain", {"rank_func": "ts_rank"}),
                ("least", {"min_rank": 0.2}),
            ):
                bundle = await base.search("zebra", fts=fts)
                by[name] = {item.item_id: item.score_text for item in bundle.candidates}
        assert by["cd"] == pytest.approx({"three": 0.3, "one": 0.1})
        assert by["plain"] != pytest.approx(by["cd"])
        assert by["least"] == pytest.approx({"three": 0.3, "one": None})

    async def test_every_configuration_of_the_server(
        self, on_server: AsyncKnowledgeBase, location: str
    ) -> None:
        with psycopg.connect(location) as server:
            configs = [row[0] for row in server.execute("SELECT cfgname FROM pg_ts_config")]
        assert len(configs) > 20
        for config in configs:
            assert await on_server.retrieve("island", fts={"config": config})

    async def test_min_rank(self, base: AsyncKnowledgeBase) -> None:
        found = await base.retrieve("atlantis", mode="keyword")
        best = max(hit.breakdown.text.score for hit in found if hit.breakdown.text)
        few = await base.retrieve("atlantis", mode="keyword", fts={"min_rank": best})
        assert 0 < len(few) < len(found)


class TestVector:
    """aiblox 6: embed the query or take the caller's vector; cosine, l2, ip; min_score."""

    async def test_own_vector(self, base: AsyncKnowledgeBase, embedder: CountingEmbedder) -> None:
        (vector,) = await embedder.embed(["Atlantis the island"], role="query")
        prefs = AIBLOX.replace(mode="semantic", vector={"embed_query": False})
        own = await base.retrieve("anything", prefs=prefs, query_vector=3 * vector)
        embedded = await base.retrieve("Atlantis the island", mode="semantic")
        assert embedder.queries == ["Atlantis the island"] * 2  # "anything" is not embedded
        assert [hit.chunk_id for hit in own] == [hit.chunk_id for hit in embedded]
        with pytest.raises(ConfigError, match="query_vector="):
            await base.retrieve("anything", prefs=prefs)

    async def test_distances(self, base: AsyncKnowledgeBase, embedder: CountingEmbedder) -> None:
        (vector,) = await embedder.embed(["Atlantis"], role="query")
        by = {}
        for scale in ("cosine", "l2", "ip"):
            prefs = AIBLOX.replace(mode="semantic", vector={"distance": scale})
            by[scale] = await base.retrieve("Atlantis", prefs=prefs, query_vector=2 * vector)
        orders = {tuple(hit.chunk_id for hit in found) for found in by.values()}
        assert len(orders) == 1
        cosine = by["cosine"][0].breakdown.semantic
        inner = by["ip"][0].breakdown.semantic
        l2 = by["l2"][0].breakdown.semantic
        assert cosine is not None
        assert inner is not None
        assert l2 is not None
        assert inner.score == pytest.approx(2 * cosine.score, abs=1e-5)
        distance = (4 + 1 - 4 * cosine.score) ** 0.5
        assert l2.score == pytest.approx(1 / (1 + distance), abs=1e-5)

    async def test_min_score(self, base: AsyncKnowledgeBase) -> None:
        found = await base.retrieve("Atlantis", mode="semantic")
        least = found[1].breakdown.semantic
        assert least is not None
        prefs = AIBLOX.replace(mode="semantic", vector={"min_score": least.score})
        few = await base.retrieve("Atlantis", prefs=prefs)
        assert len(few) == 2


def test_reciprocal_ranks() -> None:
    """aiblox 7 and 16: 1 / (k + rank_text) + 1 / (k + rank_vec); weights are the linear blend's."""
    scoring = AIBLOX.scoring
    found = candidates(text="ab", semantic="bca")
    raw = named(fuse(found, scoring.weights(), scoring).raw, found)
    assert raw["a"] == pytest.approx(1 / 61 + 1 / 63)
    assert raw["b"] == pytest.approx(1 / 62 + 1 / 61)
    assert raw["c"] == pytest.approx(1 / 62)


@pytest.mark.parametrize("strategy", ["late", "precomputed"])
@pytest.mark.parametrize("store", ["memory", "postgresql"])
async def test_neither_signal_alone_is_enough(
    store: str, strategy: str, request: pytest.FixtureRequest
) -> None:
    """aiblox 3, 7 and 12: of 60 documents the one with the word is farthest by its vector.

    It is first by full text and not among the 20 nearest: 1/61, as the nearest one has. What a leg
    did not return has no score and no rank in it.
    """
    where = ":memory:" if store == "memory" else request.getfixturevalue("location")
    chunking = {"strategy": strategy}
    async with AsyncKnowledgeBase(
        where, embedder=Angles(), chunker="document", prefs="aiblox"
    ) as base:
        await base.add(*spread(60, worded=1))
        bundle = await base.search("zebra", chunking=chunking, top_k_chunks=20)
    items = {item.item_id: item for item in bundle.candidates}
    assert set(items) == {"s059", *(f"s{n:03}" for n in range(19))}
    assert {item.item_id for item in bundle.candidates[:2]} == {"s000", "s059"}
    word, near = items["s059"], items["s000"]
    assert (word.rank_text, word.rank_vec, word.score_vec) == (1, None, None)
    assert (near.rank_vec, near.rank_text, near.score_text) == (1, None, None)
    low, high = 1 / 80, 2 / 61
    assert word.score == near.score == pytest.approx((1 / 61 - low) / (high - low))
    evidence = {item.item_id: item for item in bundle.evidence}
    cosine = pytest.approx(np.cos(np.radians(29.5)), abs=1e-5)
    assert evidence["s059"].score_vec == (cosine if strategy == "late" else None)


async def test_single_query(on_server: AsyncKnowledgeBase) -> None:
    """aiblox 16: a single statement on PostgreSQL gives what two queries give."""
    for query in ("truffles", "atlantis -stargate", "logging or oaks", "nothing like it"):
        for blend in ({}, {"blend": "linear", "normalize": "absolute", "fill": True}):
            two, single = [
                await bundle_of(on_server, query, strategy=strategy, scoring=blend)
                for strategy in ("legs", "statement")
            ]
            assert two == single
            assert two.candidates


def test_linear_blend() -> None:
    """aiblox 7: sigmoid of standardised scores; two equal scores are 0.5 each."""
    scoring = AIBLOX.replace(scoring={"blend": "linear"}).scoring
    found = candidates(text={"a": 3.0, "b": 1.0}, semantic={"a": 0.5, "b": 0.5})
    scores = named(fuse(found, scoring.weights(), scoring).scores, found)
    # Standardised text scores are 1 and -1: 1 / (1 + e^-1) = 0.731059 and 0.268941.
    assert scores["a"] == pytest.approx(0.35 * 0.731059 + 0.65 * 0.5, abs=1e-6)
    assert scores["b"] == pytest.approx(0.35 * 0.268941 + 0.65 * 0.5, abs=1e-6)
    minmax = scoring.model_copy(update={"normalize": "minmax"})
    spread_out = candidates(
        text={"a": 3.0, "b": 1.0, "c": 2.5}, semantic={"a": 0.5, "b": 0.5, "c": 0.5}
    )
    # From the least, 1, to the greatest, 3: 1, 0 and 0.75; three equal scores are 1 each.
    shares = named(fuse(spread_out, minmax.weights(), minmax).scores, spread_out)
    assert shares == pytest.approx({"a": 1.0, "b": 0.65, "c": 0.35 * 0.75 + 0.65})
    # One standard deviation of the six that count, and scores as they are.
    zscore, none = (scoring.model_copy(update={"normalize": it}) for it in ("zscore", "none"))
    shares = named(fuse(found, zscore.weights(), zscore).scores, found)
    assert shares == pytest.approx({"a": 0.35 * 4 / 6 + 0.325, "b": 0.35 * 2 / 6 + 0.325})
    sums = named(fuse(found, none.weights(), none).raw, found)
    assert sums == pytest.approx({"a": 0.35 * 3 + 0.325, "b": 0.35 + 0.325})


class TestLateChunking:
    """aiblox 8 and 17: chunks are made at query time, by any registered chunker."""

    async def test_evidence_is_cut_from_the_document(self, base: AsyncKnowledgeBase) -> None:
        bundle = await bundle_of(base, "who looks for truffles")
        assert len(bundle.evidence) > 3
        texts = {document.id: document.text for document in (BOOK, *DOCUMENTS)}
        for item in bundle.evidence:
            assert item.text == texts[item.item_id][item.start_idx : item.end_idx]
            assert item.token_count is not None
            assert item.token_count <= 32

    async def test_sizes_can_be_set(self, base: AsyncKnowledgeBase) -> None:
        sizes = {"max_chunk_tokens": 16, "overlap_tokens": 4}
        bundle = await bundle_of(base, "truffles", chunking=sizes)
        assert max(item.token_count or 0 for item in bundle.evidence) <= 16

    @pytest.mark.parametrize("overlap", [0, 8])
    async def test_overlap_can_be_set(self, base: AsyncKnowledgeBase, overlap: int) -> None:
        """Chunks of 16 tokens share text with the one before, or none do."""
        sizes = {"max_chunk_tokens": 16, "overlap_tokens": overlap}
        prefs = asked("truffles", chunking=sizes, top_k_chunks=500, per_item_chunk_cap=500)
        bundle = await base.retriever.search(RequestContext(), prefs)
        spans = sorted(
            (item.start_idx or 0, item.end_idx or 0)
            for item in bundle.evidence
            if item.item_id == "book"
        )
        assert len(spans) > 30
        shared = [one[1] > other[0] for one, other in pairwise(spans)]
        assert any(shared) == (overlap > 0)

    async def test_headers(self, base: AsyncKnowledgeBase, embedder: CountingEmbedder) -> None:
        """Chunks are embedded under their title, or alone; one is never taken for the other."""
        (query,) = await embedder.embed(["truffles"], role="query")
        for include in (True, False, True):
            prefs = asked("truffles", chunking={"include_headers": include})
            bundle = await base.retriever.search(RequestContext(), prefs)
            found = [item for item in bundle.evidence if item.item_id == "book"]
            assert found
            texts = [f"Book\n\n{item.text}" if include else item.text for item in found]
            rows = await embedder.embed(texts, role="document")
            assert [item.score_vec for item in found] == pytest.approx(rows @ query, abs=1e-5)

    async def test_chunker_registry(self, base: AsyncKnowledgeBase) -> None:
        assert isinstance(CHUNKERS, ChunkerRegistry)
        by_sentence = await bundle_of(base, "truffles", chunking={"chunker_id": "sentence:64/0"})
        assert all(item.text.rstrip().endswith(".") for item in by_sentence.evidence)
        with pytest.raises(ConfigError, match="nonsense"):
            await bundle_of(base, "x", chunking={"chunker_id": "nonsense"})

    async def test_pooled_and_ranked_globally(self, base: AsyncKnowledgeBase) -> None:
        bundle = await bundle_of(base, "truffles and logging")
        scores = [item.score for item in bundle.evidence]
        assert scores == sorted(scores, reverse=True)
        assert len({item.item_id for item in bundle.evidence}) > 1

    async def test_vectors_dominate(self, tmp_path: Path) -> None:
        """Of two chunks, one first by its vector, one by its words, that of the vector is first."""
        near = Document(id="near", text="truffle, and then a good many words about other things")
        word = Document(id="word", text="truffle truffle")

        class Fixed(HashEmbedder):
            async def embed(self, texts, *, role: Role):  # type: ignore[no-untyped-def]
                rows = np.zeros((len(texts), 64), np.float32)
                for row, text in zip(rows, texts, strict=True):
                    row[:2] = (0.6, 0.8) if text == word.text else (1.0, 0.0)
                return rows

        async with AsyncKnowledgeBase(
            tmp_path / "kb.db", embedder=Fixed(), chunker="document", prefs="aiblox"
        ) as base:
            await base.add(near, word)
            bundles = {
                w_text: await base.retriever.search(
                    RequestContext(),
                    asked("truffle", scoring={"w_text": w_text, "w_vec": 1 - w_text}),
                )
                for w_text in (0.35, 0.65)
            }
        by_vector, by_words = bundles[0.35].evidence
        assert (by_vector.item_id, by_words.item_id) == ("near", "word")
        assert (by_vector.score_vec, by_words.score_vec) == pytest.approx((1.0, 0.6))
        assert by_vector.score_text is not None
        assert by_words.score_text is not None
        assert by_vector.score_text < by_words.score_text
        assert [item.item_id for item in bundles[0.65].evidence] == ["word", "near"]

    @pytest.mark.parametrize(
        ("strategy", "chunker", "made", "longest"),
        [
            ("precomputed", "recursive:32/0", 0, 32),
            ("precomputed", "recursive:16/0", 0, 32),
            ("mixed", "recursive:32/0", 0, 32),
            ("mixed", "recursive:16/0", 42, 16),
            ("late", "recursive:32/0", 30, 32),
            ("late", "recursive:16/0", 42, 16),
        ],
    )
    async def test_strategies(
        self, tmp_path: Path, strategy: str, chunker: str, made: int, longest: int
    ) -> None:
        """Stored chunks, chunks made now, or the stored ones if the same chunker has made them."""
        embedder = CountingEmbedder()
        async with AsyncKnowledgeBase(
            tmp_path / "kb.db", embedder=embedder, chunker="recursive:32/0", prefs="aiblox"
        ) as base:
            await base.add(BOOK)
            stored = await base.chunks("book")
            embedder.texts.clear()
            chunking = {"strategy": strategy, "chunker_id": chunker}
            bundle = await bundle_of(base, "truffles", chunking=chunking)
        assert len(bundle.evidence) == 3
        assert len(embedder.texts) == made
        by_id = {chunk.id: chunk.text for chunk in stored}
        shown = {item.chunk_id: item.text for item in bundle.evidence}
        assert (shown.items() <= by_id.items()) == (longest == 32)
        sizes = [item.token_count or 0 for item in bundle.evidence]
        assert longest / 2 < max(sizes) <= longest


class TestCache:
    """aiblox 9 and 18: optional, keyed by item, content, chunker and model, never authoritative."""

    def test_key(self) -> None:
        assert set(CacheKey._fields) >= {"document_id", "content_hash", "chunker_id", "model_id"}

    async def test_second_query_embeds_no_chunk(
        self, base: AsyncKnowledgeBase, embedder: CountingEmbedder
    ) -> None:
        first = await bundle_of(base, "truffles")
        before = len(embedder.texts)
        second = await bundle_of(base, "truffles")
        assert len(embedder.texts) == before
        assert are_close(second.model_dump(), first.model_dump())

    @pytest.mark.parametrize(
        ("use", "write", "embedded_again"),
        [(True, True, False), (True, False, True), (False, True, True), (False, False, True)],
    )
    async def test_not_used_unless_asked_for(
        self,
        base: AsyncKnowledgeBase,
        embedder: CountingEmbedder,
        use: bool,
        write: bool,
        embedded_again: bool,
    ) -> None:
        """A second search embeds nothing only if the first may write and it may read."""
        cache = {"use_chunk_cache": use, "write_chunk_cache": write}
        counts = []
        for settings in (cache, cache, {}):
            embedder.texts.clear()
            await bundle_of(base, "truffles", cache=settings)
            counts.append(len(embedder.texts))
        first, second, with_cache = counts
        assert first > 30
        assert second == (first if embedded_again else 0)
        assert with_cache == (0 if write else first)

    async def test_time_to_live(self, base: AsyncKnowledgeBase, embedder: CountingEmbedder) -> None:
        """What was written for a shorter time than has passed is made again."""
        for ttl, expected in ((1e-6, True), (1e-6, True), (1000.0, True), (1000.0, False)):
            embedder.texts.clear()
            prefs = asked("truffles", cache={"ttl_seconds": ttl})
            await base.retriever.search(RequestContext(), prefs)
            assert (len(embedder.texts) > 0) == expected

    @pytest.mark.parametrize(
        "damage",
        [
            "vectors = zeroblob(length(vectors))",
            "chunks = substr(chunks, 1, 20)",
            "content_hash = 'other'",
        ],
    )
    async def test_never_authoritative(
        self, base: AsyncKnowledgeBase, embedder: CountingEmbedder, tmp_path: Path, damage: str
    ) -> None:
        """Damaged entries, and those of another content, are made again; the result is the same."""
        first = await bundle_of(base, "truffles")
        with closing(sqlite3.connect(tmp_path / "kb.db")) as file:
            file.execute(f"UPDATE chunk_cache SET {damage}")
            file.commit()
        embedder.texts.clear()
        again = await bundle_of(base, "truffles")
        assert len(embedder.texts) > 30
        assert are_close(again.model_dump(), first.model_dump())
        await base.remove("book", *(document.id for document in DOCUMENTS))
        with closing(sqlite3.connect(tmp_path / "kb.db")) as file:
            assert file.execute("SELECT count(*) FROM chunk_cache").fetchone() == (0,)

    async def test_other_content_is_another_key(
        self, base: AsyncKnowledgeBase, embedder: CountingEmbedder
    ) -> None:
        await bundle_of(base, "truffles")
        changed = LONG.replace("truffles", "boletes")
        await base.add(BOOK.model_copy(update={"text": changed, "content_hash": "other"}))
        bundle = await bundle_of(base, "boletes")
        assert any("boletes" in item.text for item in bundle.evidence)
        assert not any("truffles" in item.text for item in bundle.evidence)


class TestSnippets:
    """aiblox 10: at most 360 characters, of the best chunk if possible."""

    async def test_from_the_chunk(self, base: AsyncKnowledgeBase) -> None:
        assert AIBLOX.snippet.prefer_chunk_snippet
        bundle = await bundle_of(base, "roots")
        evidence = {item.item_id: item.text for item in reversed(bundle.evidence)}
        for item in bundle.candidates:
            assert item.snippet is not None
            assert item.snippet.strip("… ") in evidence.get(item.item_id, item.snippet)
            assert item.snippet_from == "chunk"
        book = next(item for item in bundle.candidates if item.item_id == "book")
        assert book.snippet is not None
        marked = {book.snippet[start:end] for start, end in book.snippet_highlights}
        assert marked == {"roots"}

    @pytest.mark.parametrize(("most", "least"), [(None, 300), (120, 60), (240, 180)])
    async def test_as_long_as_it_may_be(
        self, base: AsyncKnowledgeBase, most: int | None, least: int
    ) -> None:
        """360 characters by default, or as many as are asked for; the chunk has more."""
        snippet = {} if most is None else {"max_chars": most}
        prefs = asked("roots", snippet=snippet, chunking={"chunker_id": "recursive:512/0"})
        bundle = await base.retriever.search(RequestContext(), prefs)
        book = next(item for item in bundle.candidates if item.item_id == "book")
        assert book.snippet is not None
        assert least < len(book.snippet) <= (most or 360)

    async def test_from_the_document(self, base: AsyncKnowledgeBase) -> None:
        prefs = asked("roots", snippet={"prefer_chunk_snippet": False, "max_chars": 50})
        bundle = await base.retriever.search(RequestContext(), prefs)
        book = next(item for item in bundle.candidates if item.item_id == "book")
        assert (book.snippet, book.snippet_from) == ("On truffles.", "doc")


async def test_stats_only_with_debug(base: AsyncKnowledgeBase) -> None:
    """aiblox 11 and 14: timing, counts, parameters, if asked for."""
    assert AIBLOX.debug is False
    quiet = await bundle_of(base, "truffles")
    assert (quiet.stats.timing_ms, quiet.stats.counts, quiet.stats.params) == ({}, {}, {})
    by_bm25 = asked("truffles", fts={"rank_func": "bm25"})
    assert (await base.retriever.search(RequestContext(), by_bm25)).stats == RetrievalStats()
    loud = await bundle_of(base, "truffles", debug=True)
    assert loud.stats.timing_ms["total"] > 0
    assert loud.stats.counts["items"] == len(loud.candidates)
    assert loud.stats.counts["evidence"] == len(loud.evidence)
    assert loud.stats.counts["candidate_documents"] == len(loud.candidates)
    stages = {"view", "plan", "recall", "fuse", "group", "chunk", "rank", "bundle", "total"}
    assert stages <= set(loud.stats.timing_ms)
    assert loud.stats.params["scoring"]["blend"] == "rrf"
    assert loud.stats.params["query_text"] == "truffles"


async def test_candidate_items(base: AsyncKnowledgeBase) -> None:
    """aiblox 12: a document with all its fields, scores and ranks of both legs."""
    bundle = await bundle_of(base, "truffles")
    first = bundle.candidates[0]
    assert isinstance(first, CandidateItem)
    assert (first.item_id, first.kind, first.source, first.source_ref) == (
        "book", "book", "book.txt", None,
    )  # fmt: skip
    assert (first.title, first.summary, first.metadata) == ("Book", "On truffles.", {})
    assert first.rank_text == 1
    assert first.rank_vec is not None
    assert first.score_text is not None
    assert first.score_vec is not None
    raw = 1 / (60 + first.rank_text) + 1 / (60 + first.rank_vec)
    worst = 1 / (60 + 20)  # the last of 20 in one list, and not in the other
    assert first.score == pytest.approx((raw - worst) / (2 / 61 - worst))
    without_words = [item for item in bundle.candidates if item.rank_text is None]
    for item in without_words:
        assert item.rank_vec is not None
        only = 1 / (60 + item.rank_vec)
        assert item.score == pytest.approx((only - worst) / (2 / 61 - worst))


async def test_ranks_are_those_of_documents(tmp_path: Path) -> None:
    """aiblox 12: the chunks of one document take one rank, however many of them are near."""
    async with AsyncKnowledgeBase(
        tmp_path / "kb.db", embedder=HashEmbedder(), chunker="sentence:8/0", prefs="aiblox"
    ) as base:
        many = Document(id="many", text="A truffle here. " * 5)
        one = Document(id="one", text="A truffle is not here.")
        none = Document(id="none", text="Of lakes and of rivers.")
        await base.add(many, one, none)
        chunks = await base.retrieve("a truffle here", chunking={"strategy": "precomputed"})
        bundle = await bundle_of(base, "a truffle here")
    assert [hit.document_id for hit in chunks] == ["many"] * 5 + ["one", "none"]
    ranks = {item.item_id: (item.rank_vec, item.rank_text) for item in bundle.candidates}
    assert ranks == {"many": (1, 1), "one": (2, 2), "none": (3, None)}


async def test_evidence_chunks(base: AsyncKnowledgeBase) -> None:
    """aiblox 13: text with offsets, tokens, scores, headings and anchors."""
    bundle = await bundle_of(base, "truffles")
    item = bundle.evidence[0]
    assert isinstance(item, EvidenceChunk)
    assert item.chunk_id
    assert item.start_idx is not None
    assert item.end_idx is not None
    assert item.heading_path == []
    assert item.anchors is not None
    assert item.anchors["collection"] == "default"


async def test_bundle(base: AsyncKnowledgeBase) -> None:
    """aiblox 15: candidates, evidence, stats."""
    assert set(RetrievalBundle.model_fields) == {"candidates", "evidence", "stats"}
    empty = await bundle_of(base, "   ")
    assert (empty.candidates, empty.evidence) == ([], [])
    bundle = await bundle_of(base, "truffles", debug=True)
    assert bundle.candidates[0].item_id == bundle.evidence[0].item_id == "book"
    assert {item.item_id for item in bundle.evidence} <= {
        item.item_id for item in bundle.candidates
    }
    scores = [item.score for item in bundle.evidence]
    assert scores == sorted(scores, reverse=True)
    assert bundle.stats.counts["items"] == len(bundle.candidates)
    assert bundle.stats.counts["evidence"] == len(bundle.evidence)


async def test_filters_hold_for_documents_and_evidence(base: AsyncKnowledgeBase) -> None:
    """aiblox 4: `filters` is a dict or a filter."""
    for where in ({"type": "documentation"}, Eq("type", "documentation")):
        bundle = await bundle_of(base, "logging", filters=where)
        assert {item.item_id for item in bundle.candidates} == {"guide", "api"}
        assert {item.item_id for item in bundle.evidence} <= {"guide", "api"}


async def test_boundaries() -> None:
    """aiblox 19: an embedder that inherits nothing serves; the scorer only reads its input."""

    class Own:
        info, tokenizer = HashEmbedder().info, HashEmbedder().tokenizer
        queries: ClassVar[list[str]] = []

        async def embed(self, texts, *, role: Role):  # type: ignore[no-untyped-def]
            self.queries.extend(texts if role == "query" else [])
            return await HashEmbedder().embed(texts, role=role)

        async def close(self) -> None:
            pass

    assert isinstance(Own(), Embedder)
    async with base_of(*DOCUMENTS, embedder=Own(), prefs="aiblox") as base:
        bundle = await bundle_of(base, "atlantis")
    assert bundle.candidates
    assert Own.queries == ["atlantis"]
    found = candidates(text="ab", semantic="bca")
    before = {leg: (said.scores.copy(), said.ranks.copy()) for leg, said in found.legs.items()}
    once, again = (fuse(found, AIBLOX.scoring.weights(), AIBLOX.scoring) for _ in range(2))
    assert once.scores.tolist() == again.scores.tolist()
    for leg, (scores, ranks) in before.items():
        assert found.legs[leg].scores.tolist() == scores.tolist()
        assert found.legs[leg].ranks.tolist() == ranks.tolist()


async def test_nothing_is_left_to_do(base: AsyncKnowledgeBase, embedder: CountingEmbedder) -> None:
    """aiblox 22: hybrid query, query syntax, embedded chunks and cache, which the design leaves."""
    bundle = await bundle_of(base, "island -stargate")
    by_words = {item.item_id for item in bundle.candidates if item.rank_text is not None}
    by_vectors = {item.item_id for item in bundle.candidates if item.rank_vec is not None}
    assert by_words == {"other"}
    assert by_vectors == {"book", "guide", "api", "blog", "other"}
    (query,) = await embedder.embed(["island"], role="query")
    for item in bundle.evidence:
        title = next(one.title for one in bundle.candidates if one.item_id == item.item_id)
        (row,) = await embedder.embed([f"{title}\n\n{item.text}"], role="document")
        assert item.score_vec == pytest.approx(float(row @ query), abs=1e-5)
    embedder.texts.clear()
    assert await bundle_of(base, "island -stargate") == bundle
    assert len(embedder.texts) == 0


class Reversed:
    """A HybridScorer of somebody else's: the worst first."""

    def __call__(
        self,
        candidates: Candidates,
        weights: Mapping[Leg, float],
        scoring: ScoringPrefs,
        *,
        floor: float = 0.0,
        **more: Any,
    ) -> Fused:
        usual = fuse(candidates, weights, scoring, floor=floor, **more)
        return replace(usual, scores=1 - usual.scores)


class Library:
    """An ItemRepo of somebody else's: documents by collection and id."""

    def __init__(self, *documents: Document) -> None:
        self._documents = {(item.collection, item.id): item for item in documents}
        self.asked: list[tuple[str, str]] = []

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        self.asked += names
        return [self._documents[name] for name in names if name in self._documents]


class Shelf:
    """A ChunkCacheRepo of somebody else's."""

    def __init__(self) -> None:
        self.kept: dict[CacheKey, CachedChunks] = {}

    async def load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        return {key: self.kept[key] for key in keys if key in self.kept}

    async def save(self, entries: Mapping[CacheKey, CachedChunks], *, ttl: float | None) -> None:
        self.kept |= entries

    async def clear(self) -> int:
        count = len(self.kept)
        self.kept.clear()
        return count


class TestRepositoryBoundaries:
    """aiblox 19: the retriever coordinates ItemRepo, ChunkCacheRepo and HybridScorer, owns none."""

    STORED = RetrievalPrefs.preset("aiblox", chunking={"strategy": "precomputed"})

    @pytest.fixture
    async def store(self) -> MemoryStore:
        store = MemoryStore()
        await store.write([await entry(document) for document in (BOOK, *DOCUMENTS)])
        return store

    async def test_scorer(self, store: MemoryStore) -> None:
        usual = HybridRetriever(store=store, embedder=ENTRIES)
        swapped = HybridRetriever(store=store, embedder=ENTRIES, scorer=Reversed())
        prefs = self.STORED.replace(query_text="logging")
        first = (await usual.search(RequestContext(), prefs)).candidates
        last = (await swapped.search(RequestContext(), prefs)).candidates
        assert [item.item_id for item in last] == [item.item_id for item in reversed(first)]
        assert last[0].score == pytest.approx(1 - first[-1].score)

    async def test_items(self, store: MemoryStore) -> None:
        """Texts for late chunking are the repo's; a document that it lacks gives no evidence."""
        newer = DOCUMENTS[0].model_copy(update={"text": "Logging, in the words of another repo."})
        items = Library(newer)
        assert isinstance(items, ItemRepo)
        retriever = HybridRetriever(store=store, embedder=ENTRIES, items=items)
        bundle = await retriever.search(RequestContext(), asked("configure logging"))
        assert {item.item_id for item in bundle.candidates} > {"guide", "blog"}
        assert set(items.asked) == {("default", item.item_id) for item in bundle.candidates}
        assert [item.text for item in bundle.evidence] == [newer.text]

    async def test_chunk_cache(self, store: MemoryStore) -> None:
        """The second search takes chunks and vectors from the repo; the store's own stays empty."""
        shelf = Shelf()
        assert isinstance(shelf, ChunkCacheRepo)
        embedder = CountingEmbedder()
        own = MemoryStore()
        vectors = ChunkEmbedder(embedder)
        chunker = CHUNKERS.create("document", tokenizer=embedder.tokenizer)
        works = [(document, chunker.chunk(document)) for document in DOCUMENTS]
        rows = await vectors.embed(works)
        await own.write(
            [
                Entry(document, chunks, row, vectors.model_id)
                for (document, chunks), row in zip(works, rows, strict=True)
            ]
        )
        retriever = HybridRetriever(store=own, embedder=embedder, chunk_cache=shelf)
        before = len(embedder.texts)
        first = await retriever.search(RequestContext(), asked("logging"))
        made = len(embedder.texts) - before
        assert made > 0
        assert {key.document_id for key in shelf.kept} == {
            item.item_id for item in first.candidates
        }
        assert await retriever.search(RequestContext(), asked("logging")) == first
        assert len(embedder.texts) - before == made
        assert await own.chunk_cache.clear() == 0


async def test_search_has_the_preferences_of_the_base(
    base: AsyncKnowledgeBase, embedder: CountingEmbedder
) -> None:
    """aiblox 3: a base with the preset searches by it: chunks are made at query time."""
    before = len(embedder.texts)
    bundle = await base.search("truffles", chunking={"chunker_id": "recursive:32/0"}, debug=True)
    assert len(embedder.texts) > before
    assert bundle.stats.params["chunking"]["strategy"] == "late"
    assert bundle.stats.params["scoring"]["blend"] == "rrf"
    assert len(bundle.evidence) <= 12
    plain = await base.search("truffles", prefs=RetrievalPrefs(), debug=True)
    assert plain.stats.params["chunking"]["strategy"] == "precomputed"


async def test_hybrid_unless_asked_otherwise(base: AsyncKnowledgeBase) -> None:
    """aiblox 3 and 21: every query runs both legs, whatever its kind, until a mode is asked for."""
    for query in ("truffles", "Why does it cost so much?", '"Stargate Atlantis"', "ERR_4012 -x"):
        bundle = await base.search(query, debug=True)
        assert bundle.stats.params["mode"] == "hybrid"
        assert all(item.score_vec is not None for item in bundle.candidates)
        assert all(
            (item.score_text is None) == (item.rank_text is None) for item in bundle.candidates
        )
        if query == "truffles":
            assert any(item.score_text is not None for item in bundle.candidates)
    one = await base.search("truffles", mode="semantic")
    assert {item.score_text for item in one.candidates} == {None}
    assert RetrievalPrefs().mode == "hybrid"


class TestTextConfig:
    """aiblox 5: fts.config is served, or said not to be, on every store."""

    @pytest.mark.parametrize("config", ["english", "en", "en-GB", "pg_catalog.english"])
    async def test_english(self, base: AsyncKnowledgeBase, config: str) -> None:
        """Documents given without a language: they and the query are stemmed as English."""
        found = await base.retrieve(
            "cancellation of a season", mode="keyword", fts={"config": config, "mode": "any"}
        )
        assert [hit.document_id for hit in found] == ["series"]
        assert not [note for note in found.degraded if "config" in note]

    @pytest.mark.parametrize("config", ["simple", "german", "ja"])
    async def test_config_that_the_base_lacks(self, base: AsyncKnowledgeBase, config: str) -> None:
        """It is noted, words are stemmed as the documents are, and `strict` makes it an error."""
        plain = RetrievalPrefs(mode="keyword", fts={"config": config})
        found = await base.retrieve("season", prefs=plain)
        assert [hit.document_id for hit in found] == ["series"]
        assert found.degraded == (
            f"text: no document is indexed as {config}, the fts.config; as en instead",
        )
        with pytest.raises(DegradedError, match=r"fts\.config"):
            await base.retrieve("season", prefs=plain, strict=True)

    async def test_vectors_need_no_config(self, base: AsyncKnowledgeBase) -> None:
        found = await base.retrieve("season", mode="semantic", fts={"config": "german"})
        assert found.degraded == ()

    async def test_unknown_config(self, base: AsyncKnowledgeBase) -> None:
        """Only a server can know a configuration that is no language."""
        for prefs in (AIBLOX, RetrievalPrefs()):
            with pytest.raises(ConfigError, match="'klingon' is no language; name one as english"):
                await base.retrieve("season", prefs=prefs.replace(fts={"config": "klingon"}))
        with pytest.raises(ConfigError, match="'no name!' is no language"):
            RetrievalPrefs(fts={"config": "no name!"})

    @pytest.mark.parametrize("qualified", [False, True])
    async def test_own_configuration(
        self, on_server: AsyncKnowledgeBase, location: str, qualified: bool
    ) -> None:
        """One that the owner of the database made reads the query: this one does not stem it."""
        with psycopg.connect(location, autocommit=True) as connection:
            connection.execute("CREATE TEXT SEARCH CONFIGURATION unstemmed (COPY = simple)")
            (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
        own = {"config": f"{schema}.unstemmed" if qualified else "unstemmed"}
        for query, expected in (("season", ["series"]), ("seasons", [])):
            found = await on_server.search(query, mode="keyword", fts=own, strict=True)
            assert [item.item_id for item in found.candidates] == expected
            stemmed = await on_server.search(query, mode="keyword", strict=True)
            assert [item.item_id for item in stemmed.candidates] == ["series"]
        with pytest.raises(ConfigError, match="'klingon' is neither a language nor a text"):
            await on_server.search("season", fts={"config": "klingon"})
        with pytest.raises(ConfigError, match="ts_rank or ts_rank_cd"):
            await on_server.search("season", fts={**own, "rank_func": "bm25"})

    async def test_on_the_reference_backend(self, on_server: AsyncKnowledgeBase) -> None:
        """The same with PostgreSQL's configurations."""
        for config, notes in (("english", 0), ("simple", 1), ("german", 1)):
            found = await on_server.retrieve("season", mode="keyword", fts={"config": config})
            assert [hit.document_id for hit in found] == ["series"]
            assert len(found.degraded) == notes
