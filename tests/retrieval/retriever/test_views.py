"""retrieve, search and context are views of one search: every setting counts in every view."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Page
from lagotto.errors import ConfigError, DegradedError
from lagotto.filters import Filter
from lagotto.prefs import Preferences, RetrievalPrefs
from lagotto.rerankers import RERANKERS, UNIT, BlendedReranker, Candidate, create_reranker
from lagotto.rerankers.lexical import LocalReranker, overlap_shares
from lagotto.retrieval import explain
from lagotto.stores.base import HybridHits, HybridQuery
from lagotto.stores.memory import MemoryStore, MemoryView
from lagotto.testing.hash_embedder import HashEmbedder
from tests.bases import base_of
from tests.counting import CountingEmbedder
from tests.rerankers.doubles import Scripted

VIEWS = ("retrieve", "search", "context")
UNTOLD = {"timing_ms", "trace_id", "params"}
"""What differs between two equal searches, or repeats the settings."""


async def slow_shares(query: str, candidates: Sequence[Candidate]) -> list[float]:
    await asyncio.sleep(0.2)
    return overlap_shares(query, candidates)


RERANKERS.register("slow-overlap", lambda _: LocalReranker("overlap", slow_shares, UNIT))


def leaves(kind: type[Preferences] = RetrievalPrefs, path: str = "") -> list[str]:
    """The names of all settings, such as `scoring.blend`."""
    names = []
    for name, info in kind.model_fields.items():
        group = info.annotation
        if isinstance(group, type) and issubclass(group, Preferences):
            names += leaves(group, f"{path}{name}.")
        else:
            names.append(path + name)
    return names


@dataclass(frozen=True)
class Trial:
    """A setting's new value, the query and the other settings with which it must make a difference.

    `errors` are the views for which it is a ConfigError.
    """

    value: Any
    query: str = "truffle oak"
    given: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


LATE: dict[str, Any] = {"chunking": {"strategy": "late", "chunker_id": "recursive:16/0"}}
OVERLAP: dict[str, Any] = {"rerank": {"reranker": "overlap"}}
FEEDBACK: dict[str, Any] = {"expansion": {"feedback": True}}
RRF: dict[str, Any] = {"scoring": {"blend": "rrf"}}
SHALLOW = {"candidates": 2, "top_k": 2, "top_k_items": 2}
MISSPELT = "truffel roots"
ONLY_SEARCH, ONLY_CONTEXT = ("retrieve", "context"), ("retrieve", "search")

TRIALS: dict[str, Trial] = {
    "query_text": Trial("deep lake"),
    "filters": Trial({"number": {"$gte": 3}}),
    "boost": Trial([{"where": {"number": {"$gte": 3}}, "factor": 2.0}]),
    "collection": Trial("other"),
    "mode": Trial("keyword"),
    "strict": Trial(True, given={"fts": {"rank_func": "ts_rank"}}),
    "top_k": Trial(1),
    "top_k_items": Trial(1, given=LATE),
    "top_k_chunks": Trial(1, errors=ONLY_SEARCH),
    "per_item_chunk_cap": Trial(1, errors=ONLY_SEARCH),
    "candidates": Trial(1, given={"top_k": 1}),
    "overfetch": Trial(1.0, given={"top_k": 1}),
    "strategy": Trial("statement"),
    "min_score": Trial(0.6),
    "fts.mode": Trial("web", query="truffle -oak"),
    "fts.config": Trial("ru", query="leaves feeds"),
    "fts.rank_func": Trial("ts_rank"),
    "fts.min_rank": Trial(2.0, given={"mode": "keyword"}),
    "vector.embed_query": Trial(False, errors=VIEWS),
    "vector.distance": Trial("l2"),
    "vector.min_score": Trial(0.3),
    "fuzzy.mode": Trial("off", query=MISSPELT),
    "fuzzy.threshold": Trial(0.9, query=MISSPELT, given={"fuzzy": {"mode": "always"}}),
    "fuzzy.over": Trial("chunks", query=MISSPELT, given={"fuzzy": {"mode": "always"}}),
    "expansion.answers": Trial(True, query="When was the oak planted?"),
    "expansion.feedback": Trial(True),
    "expansion.feedback_passages": Trial(1, given=FEEDBACK),
    "expansion.feedback_terms": Trial(1, given=FEEDBACK),
    "scoring.blend": Trial("rrf"),
    "scoring.normalize": Trial("minmax"),
    "scoring.w_vec": Trial(0.2),
    "scoring.w_text": Trial(0.1),
    "scoring.w_fuzzy": Trial(0.1, query=MISSPELT),
    "scoring.w_exact": Trial(0.1, query='"oak and hazel" truffle'),
    "scoring.keyword_weight": Trial(0.9),
    "scoring.rrf_k": Trial(5, given=RRF),
    "scoring.rrf_weighted": Trial(False, given=RRF),
    "scoring.fill": Trial(False, query="deep city noon smell", given=SHALLOW),
    "scoring.adapt": Trial(False, query=MISSPELT),
    "scoring.min_score": Trial(0.6),
    "scoring.by_type": Trial({"keywords": {"w_vec": 0.1}}),
    "rerank.reranker": Trial("overlap"),
    "rerank.enabled": Trial(False, given=OVERLAP),
    "rerank.candidates": Trial(1, given={**OVERLAP, "top_k": 1, "top_k_chunks": 1}),
    "rerank.keep": Trial(1, given=OVERLAP),
    "rerank.max_text_chars": Trial(3, given=OVERLAP),
    "rerank.min_score": Trial(0.9, given=OVERLAP),
    "rerank.max_ms": Trial(1, given={"rerank": {"reranker": "slow-overlap"}}),
    "parents.mode": Trial("none"),
    "parents.stage": Trial("before_rerank", given=OVERLAP),
    "parents.section_chars": Trial(5, given={"parents": {"mode": "section"}}, errors=("context",)),
    "diversity.per_document": Trial(1),
    "diversity.mmr": Trial(0.1),
    "diversity.copies": Trial("once", given={"parents": {"mode": "none"}}),
    "chunking.strategy": Trial("late"),
    "chunking.chunker_id": Trial("sentence:8/0", given=LATE),
    "chunking.include_headers": Trial(False, given=LATE),
    "chunking.max_chunk_tokens": Trial(8, given=LATE),
    "chunking.overlap_tokens": Trial(4, given=LATE),
    "cache.use_chunk_cache": Trial(False, given=LATE),
    "cache.write_chunk_cache": Trial(False, given=LATE),
    "cache.ttl_seconds": Trial(1e-9, given=LATE),
    "snippet.max_chars": Trial(20, errors=ONLY_SEARCH),
    "snippet.prefer_chunk_snippet": Trial(False, errors=ONLY_SEARCH),
    "context.max_tokens": Trial(30, errors=ONLY_CONTEXT),
    "context.select": Trial("roles", given={"top_k": 1}, errors=ONLY_CONTEXT),
    "context.fill": Trial(True, errors=ONLY_CONTEXT),
    "context.neighbor_same_page": Trial(0, given={"top_k": 1}, errors=ONLY_CONTEXT),
    "context.neighbor_cross_page": Trial(0, given={"top_k": 1}, errors=ONLY_CONTEXT),
    "context.include_parents": Trial(False, errors=ONLY_CONTEXT),
    "context.min_primary_hits_to_keep": Trial(
        1, given={"context": {"max_tokens": 40}}, errors=ONLY_CONTEXT
    ),
    "context.cite_by": Trial("id", errors=ONLY_CONTEXT),
    "explain": Trial("candidates"),
    "debug": Trial(True, given={"debug": False}),
}


def test_every_setting_has_a_trial() -> None:
    assert sorted(TRIALS) == sorted(leaves())


def test_the_verbs_take_the_same_arguments() -> None:
    def arguments(verb: str) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(getattr(AsyncKnowledgeBase, verb)).parameters)

    common = arguments("retrieve")
    assert arguments("search") == common
    own = {"queries", "max_tokens", "fill", "format", "counter"}
    own.add("query")  # which several queries take the place of
    packed = {name: it for name, it in arguments("context").items() if name not in own}
    assert packed == {name: it for name, it in common.items() if name != "query"}
    why_not = arguments("why_not")
    assert why_not.pop("document_id")
    assert why_not == common
    many = arguments("retrieve_many")
    assert many.pop("queries")
    assert many == {
        name: it for name, it in common.items() if name not in ("query", "query_vector")
    }


class RecordingView(MemoryView):
    """Notes whether both legs were asked for in a single query."""

    asked: list[bool]

    @property
    def native(self) -> RecordingView:  # type: ignore[override]
        return self

    async def comparable(self) -> bool:
        return False

    async def hybrid(self, asked: HybridQuery) -> HybridHits | None:
        self.asked.append(asked.anyway)
        return None


class RecordingStore(MemoryStore):
    """Counts views and reads of single documents."""

    def __init__(self) -> None:
        super().__init__()
        self.views = 0
        self.asked: list[bool] = []
        self.read: list[int] = []

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[MemoryView]:
        self.views += 1
        view = RecordingView(self._entries, dict(self._items), where)
        view.asked = self.asked
        passages = view.passages

        async def read(keys: Any) -> Any:
            self.read += keys.tolist()
            return await passages(keys)

        view.passages = read  # type: ignore[method-assign]
        yield view

    async def chunks(self, collection: str, document_id: str, **options: Any) -> Any:
        raise AssertionError("a search reads chunks through its view")


def paged(name: str, sentences: list[str], number: int) -> Document:
    text, pages = "", []
    for page, sentence in enumerate(sentences, 1):
        pages.append(Page(start=len(text), end=len(text) + len(sentence) + 1, number=page))
        text += sentence + " "
    return Document(
        id=name,
        title=f"Note {number}",
        language="en",
        summary=f"Summary {number}.",
        text=text,
        pages=tuple(pages),
        metadata={"number": number},
    )


SENTENCES = [
    "The truffle grows on the roots of oak and hazel trees in the wood.",
    "A trained dog finds the truffle by its smell near an old oak.",
    "The oak was planted in june of the year 1990 near the city.",
    "Seals live in the deep lake, and people run along its shore.",
    "Every root of the hazel feeds a truffle, said the author in may.",
    "Trains leave at noon for the lake, the wood and the oak.",
]


def corpus() -> list[Document]:
    """Notes of some pages each, every one with the sentences in another order."""
    notes = []
    for number in range(6):
        order = SENTENCES[number:] + SENTENCES[:number]
        notes.append(paged(f"note{number}", order[: 3 + number % 3], number))
    return notes


@pytest.fixture
async def base() -> AsyncIterator[AsyncKnowledgeBase]:
    async with AsyncKnowledgeBase(
        RecordingStore(), embedder=HashEmbedder(), chunker="parent-child:32/12/0"
    ) as base:
        await base.add(*corpus())
        yield base


def plain(value: Any) -> Any:
    """A result as data, without what differs between two equal searches."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items() if name not in UNTOLD}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


async def observed(base: AsyncKnowledgeBase, view: str, trial: Trial, **settings: Any) -> Any:
    """What a view shows, twice in a row, so that a cache has its effect; or how it fails."""
    store = base.store
    assert isinstance(store, RecordingStore)
    await store.chunk_cache.clear()
    store.asked.clear()
    prefs = RetrievalPrefs(debug=True).replace(**trial.given)
    query = settings.pop("query_text", trial.query)
    shown = []
    for _ in range(2):
        try:
            result = await getattr(base, view)(query, prefs=prefs, **settings)
        except (ConfigError, DegradedError) as error:
            return type(error)
        if view == "retrieve":
            stats = result.stats.model_dump()
            shown.append(plain([[hit.model_dump() for hit in result], stats]))
            shown.append(bool(stats["timing_ms"]))
        else:
            dumped = result.model_dump()
            shown.append(plain({**dumped, "query": None}))
            stats = dumped["stats"] if view == "search" else dumped["trace"]["stats"]
            shown.append(bool(stats["timing_ms"]))
    return shown, list(store.asked)


def nested(name: str, value: Any) -> dict[str, Any]:
    group, _, inner = name.rpartition(".")
    return {group: {inner: value}} if group else {inner: value}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", TRIALS)
async def test_every_setting_counts_in_every_view(
    base: AsyncKnowledgeBase, name: str, view: str
) -> None:
    trial = TRIALS[name]
    before = await observed(base, view, trial)
    after = await observed(base, view, trial, **nested(name, trial.value))
    assert not isinstance(before, type)
    if view in trial.errors:
        assert after is ConfigError
    elif name == "strict":
        assert after is DegradedError
    else:
        assert not isinstance(after, type)
        assert after != before


@pytest.mark.parametrize("view", ["retrieve", "context"])
async def test_documents_are_not_counted_where_nothing_is_cut(
    base: AsyncKnowledgeBase, view: str
) -> None:
    with pytest.raises(ConfigError, match=r"top_k_items: .* has no use for it"):
        await getattr(base, view)("truffle", top_k_items=1)
    shared = RetrievalPrefs(top_k_items=1, snippet={"max_chars": 9}, context={"max_tokens": 9})
    assert await base.retrieve("truffle", prefs=shared)  # preferences serve all views


class Clock:
    """A clock that only goes on where a part says that it takes time, not with the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def slow(self, part: Any, name: str, seconds: float) -> None:
        """Let a method of an object take its time."""
        method = getattr(part, name)

        async def slowly(*args: Any, **named: Any) -> Any:
            self.now += seconds
            return await method(*args, **named)

        setattr(part, name, slowly)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    stopped = SimpleNamespace(perf_counter=lambda: clock.now)
    monkeypatch.setattr(explain, "time", stopped)
    return clock


class SlowStore(MemoryStore):
    """Whatever is read of a view takes a millisecond."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[MemoryView]:
        self._clock.now += 0.001
        async with super().view(where) as view:
            for name, _ in inspect.getmembers(view, inspect.iscoroutinefunction):
                self._clock.slow(view, name, 0.001)
            yield view


@pytest.mark.parametrize("settings", [{}, FEEDBACK, LATE, {"diversity": {"mmr": 0.5}}])
@pytest.mark.parametrize("view", VIEWS)
async def test_stages_add_up_to_the_total(
    clock: Clock, view: str, settings: dict[str, Any]
) -> None:
    """Whatever the embedder, the reranker and the store take is part of a stage."""
    embedder, reranker = HashEmbedder(), BlendedReranker(create_reranker("overlap"))
    store = SlowStore(clock)
    base = AsyncKnowledgeBase(store, embedder=embedder, chunker="recursive:16/0", reranker=reranker)
    async with base:
        await base.add(*corpus())
        clock.slow(embedder, "embed", 0.03)
        clock.slow(reranker, "rerank", 0.05)
        started = clock.now
        result = await getattr(base, view)("truffle oak", debug=True, **settings)
    stats = result.trace.stats if view == "context" else result.stats
    times = dict(stats.timing_ms)
    total = times.pop("total")
    assert total == pytest.approx(1000 * (clock.now - started))
    assert total == pytest.approx(sum(times.values()))
    assert times["other"] == 0
    assert times["view"] == pytest.approx(1)
    assert times["plan"] >= 30
    assert times["rerank"] == pytest.approx(50)
    assert stats.trace_id


async def test_a_pack_is_read_from_one_view(base: AsyncKnowledgeBase) -> None:
    store = base.store
    assert isinstance(store, RecordingStore)
    store.views = 0
    pack = await base.context("truffle oak", top_k=2)
    assert store.views == 1
    roles = pack.trace.expansion_stats
    assert roles["parent"].found
    assert roles["cross_page"].found + roles["sibling"].found


@pytest.mark.parametrize("settings", [{}, {"diversity": {"per_document": 1}}, FEEDBACK, OVERLAP])
@pytest.mark.parametrize("view", VIEWS)
async def test_every_passage_is_read_once(
    base: AsyncKnowledgeBase, view: str, settings: dict[str, Any]
) -> None:
    store = base.store
    assert isinstance(store, RecordingStore)
    store.read.clear()
    await getattr(base, view)("truffle oak", **settings)
    assert store.read
    assert len(store.read) == len(set(store.read))


async def test_why_not_runs_the_query_once() -> None:
    embedder = CountingEmbedder()
    async with base_of(*corpus(), embedder=embedder) as base:
        expected = await base.retrieve("truffle oak", top_k=1)
        embedder.queries.clear()
        reason = await base.why_not("truffle oak", "note3", top_k=1)
    assert len(embedder.queries) == 1
    assert reason.results == expected
    assert reason.rank is not None
    assert "results" not in reason.model_dump()


class TestRerankedBundle:
    async def test_evidence_in_the_order_of_the_reranker(self, base: AsyncKnowledgeBase) -> None:
        settings: dict[str, Any] = {
            "parents": {"mode": "none"},
            "diversity": {"per_document": 3},
        }
        hits = await base.retrieve("truffle oak", top_k=12, **OVERLAP, **settings)
        bundle = await base.search("truffle oak", **OVERLAP, **settings)
        shown = [(item.chunk_id, item.score) for item in bundle.evidence]
        assert shown == [(hit.chunk_id, hit.score) for hit in hits]
        fused = (await base.search("truffle oak", **settings)).evidence
        assert shown != [(item.chunk_id, item.score) for item in fused]

    async def test_documents_by_their_best_passage(self, base: AsyncKnowledgeBase) -> None:
        rerank = {"reranker": "overlap", "candidates": 4}
        bundle = await base.search("truffle oak", rerank=rerank, top_k_chunks=2)
        judged = await base.retrieve(
            "truffle oak", rerank=rerank, top_k=4, parents={"mode": "none"}
        )
        best: dict[str, float] = {}
        for hit in judged:
            best.setdefault(hit.document_id, hit.score)
        names = [item.item_id for item in bundle.candidates]
        assert 0 < len(best) < len(names)
        assert names[: len(best)] == sorted(best, key=lambda name: -best[name])
        assert [item.score for item in bundle.candidates[: len(best)]] == [
            best[name] for name in names[: len(best)]
        ]
        fused = [item.item_id for item in (await base.search("truffle oak")).candidates]
        assert names[len(best) :] == [name for name in fused if name not in best]

    async def test_a_threshold_leaves_out_what_was_not_judged(
        self, base: AsyncKnowledgeBase
    ) -> None:
        rerank = {"reranker": "overlap", "candidates": 12, "min_score": 0.5}
        bundle = await base.search("truffle oak", rerank=rerank)
        assert bundle.candidates
        scores = [item.score for item in bundle.candidates] + [e.score for e in bundle.evidence]
        assert min(scores) >= 0.5

    async def test_a_failed_reranker_leaves_the_fused_order(self) -> None:
        broken = Scripted(failure="no model today")
        async with base_of(*corpus(), embedder=HashEmbedder(), reranker=broken) as base:
            plain_bundle = await base.search("truffle oak", rerank={"enabled": False})
            bundle = await base.search("truffle oak")
            assert bundle.candidates == plain_bundle.candidates
            assert bundle.evidence == plain_bundle.evidence
            assert bundle.stats.degraded[0].startswith("reranker: failed")
            with pytest.raises(DegradedError, match="no model today"):
                await base.search("truffle oak", strict=True)


class TestLateLists:
    """Lists and packs of chunks made at query time."""

    @pytest.fixture
    async def whole(self) -> AsyncIterator[AsyncKnowledgeBase]:
        async with base_of(*corpus(), embedder=HashEmbedder(), chunker="document") as base:
            yield base

    async def test_the_same_passages_as_in_a_bundle(self, whole: AsyncKnowledgeBase) -> None:
        for query in ("truffle oak", "truffel", '"oak and hazel"', "deep lake -seals"):
            settings: dict[str, Any] = {**LATE, "fts": {"mode": "web" if "-" in query else "any"}}
            hits = await whole.retrieve(query, top_k=50, diversity={"per_document": 3}, **settings)
            bundle = await whole.search(query, top_k=50, **settings)
            shown = [(item.chunk_id, item.score) for item in bundle.evidence]
            assert shown == [(hit.chunk_id, hit.score) for hit in hits]
            texts = {item.id: item.text for item in corpus()}
            assert all(hit.content == texts[hit.document_id][hit.start : hit.end] for hit in hits)

    async def test_exact_wording_comes_first(self, whole: AsyncKnowledgeBase) -> None:
        for hit in (await whole.retrieve('"leave at noon"', **LATE))[:2]:
            assert "leave at noon" in hit.content
            assert hit.breakdown.exact is not None

    async def test_misspelt_words_are_corrected(self, whole: AsyncKnowledgeBase) -> None:
        hit = (await whole.retrieve(MISSPELT, **LATE))[0]
        assert "truffle" in hit.content
        assert hit.breakdown.fuzzy is not None

    async def test_parents_neighbours_and_variety(self, whole: AsyncKnowledgeBase) -> None:
        chunking = {"strategy": "late", "chunker_id": "parent-child:32/12/0"}
        hits = await whole.retrieve("truffle oak", chunking=chunking, diversity={"mmr": 0.5})
        assert all(hit.child_id for hit in hits)
        bundle = await whole.search("truffle oak", chunking=chunking)
        children = {(item.anchors or {})["child_id"] for item in bundle.evidence}
        assert children & {hit.child_id for hit in hits}
        pack = await whole.context("truffle oak", chunking=chunking, top_k=2)
        roles = pack.trace.expansion_stats
        assert roles["parent"].found
        assert roles["sibling"].found + roles["cross_page"].found

    async def test_words_alone_can_be_made_various(self, whole: AsyncKnowledgeBase) -> None:
        varied: dict[str, Any] = {"mode": "keyword", "diversity": {"mmr": 0.2}}
        hits = await whole.retrieve("truffle oak", **LATE, **varied)
        assert len(hits) > 3
        assert all(hit.breakdown.semantic is None for hit in hits)
