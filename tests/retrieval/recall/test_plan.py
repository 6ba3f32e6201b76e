"""From a question to the query of each leg: what the store and the settings decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lagotto.documents import Document
from lagotto.embedders import create_embedder
from lagotto.errors import QueryError
from lagotto.filters import And
from lagotto.indexes.text_query import NativeQuery, Phrase
from lagotto.prefs import Mode, RetrievalPrefs, ScoringPrefs, SearchRequest
from lagotto.retrieval.explain import Diagnostics
from lagotto.retrieval.query.expansion import Expansion
from lagotto.retrieval.recall import (
    LegQueries,
    QueryPlan,
    QueryPlanner,
    exact_query,
    native_query,
    query_languages,
)
from lagotto.stores.base import Capabilities, View
from lagotto.stores.memory import MemoryStore
from lagotto.testing.stores import entry
from tests.bases import base_of, view_of
from tests.counting import CountingEmbedder

UNWEIGHTED = {"blend": "rrf", "rrf_weighted": False, "w_text": 0.3}

SERVER = Capabilities(rank_functions=("bm25", "ts_rank", "ts_rank_cd"))


@pytest.mark.parametrize(
    ("config", "languages", "expected", "noted"),
    [
        (None, ["en", "de"], ["en", "de"], False),
        ("english", ["en", "de"], ["en"], False),
        ("de", ["en", "de", None], ["de"], False),
        ("english", ["de"], ["de"], True),
        ("german", [None], [None], True),
        ("simple", ["en", None], ["en", None], True),
        ("simple", [None], [None], False),
        ("english", [], ["en"], False),
    ],
)
def test_languages_of_a_query(
    config: str | None, languages: list[str | None], expected: list[str | None], noted: bool
) -> None:
    """Words are stemmed as the documents are; a configuration that none has is noted."""
    diagnostics = Diagnostics()
    assert query_languages(config, languages, diagnostics) == expected
    assert bool(diagnostics.notes) == noted


@pytest.mark.parametrize(("mode", "noted"), [("semantic", False), ("keyword", True)])
async def test_vectors_need_no_text_configuration(mode: Mode, noted: bool) -> None:
    prefs = RetrievalPrefs(query_text="dogs", mode=mode, fts={"config": "german"})
    diagnostics = Diagnostics()
    async with view_of(Document(text="A dog.", language="en")) as view:
        planner(view, prefs, diagnostics)
    assert bool(diagnostics.notes) == noted


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("any", "this store can't compare words with whole texts"),
        ("web", "whole texts can't be compared under the conditions of fts.mode web"),
    ],
)
async def test_why_whole_texts_are_not_compared(mode: str, problem: str) -> None:
    given: dict[str, Any] = {"fts": {"mode": mode}, "fuzzy": {"mode": "always", "over": "chunks"}}
    diagnostics = Diagnostics()
    async with view_of(Document(text="A dog.", language="en")) as view:
        prefs = RetrievalPrefs(query_text="dgo", mode="keyword", **given)
        await planner(view, prefs, diagnostics).plan()
    assert diagnostics.notes == (f"fuzzy: {problem}; words are compared with index terms",)


def planner(
    view: View,
    prefs: RetrievalPrefs,
    diagnostics: Diagnostics | None = None,
    can: Capabilities | None = None,
    expansion: Expansion | None = None,
) -> QueryPlanner:
    request = SearchRequest.of(prefs, "retrieve", vector=np.ones(384, np.float32))
    can, notes = can or Capabilities(), diagnostics or Diagnostics()
    return QueryPlanner(view, request, create_embedder("minilm"), can, notes, expansion)


async def planned(query: str, *, expansion: Expansion | None = None) -> QueryPlan:
    """The plan of a query for a base with one document."""
    async with view_of(Document(text="A dog finds the truffle.", language="en")) as view:
        return await planner(view, RetrievalPrefs(query_text=query), expansion=expansion).plan()


async def test_exact_wordings_weigh_as_much_as_all_other_legs() -> None:
    plan = await planned('"dog finds" truffel')
    assert plan.legs.exact is not None
    others = [plan.weights[leg] for leg in plan.legs.active() if leg != "exact"]
    assert plan.weights["exact"] == pytest.approx(sum(others))
    assert sum(others) != pytest.approx(1.0)


async def test_operators_mean_nothing_to_an_embedder() -> None:
    embedder = CountingEmbedder()
    async with base_of(Document(text="A dog finds the truffle."), embedder=embedder) as base:
        for query in ("truffle -oak", "-oak"):
            await base.retrieve(query, fts={"mode": "web"})
    assert embedder.queries == [
        "truffle",
        "-oak",
    ]  # the query, if all is rejected


@pytest.mark.parametrize(
    ("query", "factor"), [("truffle", 1.0), ("трюфель truffle", 0.5), ("трюфель", 0.1)]
)
async def test_vectors_of_an_unknown_alphabet_count_for_a_tenth_at_least(
    query: str, factor: float
) -> None:
    plan = await planned(query)
    assert plan.weights["semantic"] == pytest.approx(factor * ScoringPrefs().w_vec)


async def test_words_of_an_expansion_weigh_less() -> None:
    plan = await planned("truffle", expansion=Expansion(queries=("tuber",)))
    assert plan.legs.text is not None
    weights = {term.text: term.weight for word in plan.legs.text.words for term in word}
    assert weights == {"truffl": 1.0, "tuber": 0.3}


async def test_the_fuzzy_leg_weighs_more_the_more_is_misspelt() -> None:
    """Up to twice as much; the text leg, whose words it has too, then counts nothing."""
    usual = ScoringPrefs().weights("keywords")
    for query in ("truffel", "truffel dog"):
        plan = await planned(query)
        assert 0 < plan.legs.misspelt <= 1
        assert plan.weights["fuzzy"] == pytest.approx(usual["fuzzy"] * (1 + plan.legs.misspelt))
        assert plan.weights["text"] == 0


@pytest.mark.parametrize(
    ("fts", "languages", "expected"),
    [
        ({"rank_func": "bm25"}, ["en"], None),
        ({"rank_func": "ts_rank"}, ["en"], NativeQuery("dogs", "any", "ts_rank", None)),
        (
            {"rank_func": "ts_rank_cd", "mode": "web", "config": "english"},
            ["en"],
            NativeQuery("dogs", "web", "ts_rank_cd", "english"),
        ),
        (
            {"rank_func": "ts_rank_cd", "config": "english"},
            ["de"],
            NativeQuery("dogs", "any", "ts_rank_cd", None),
        ),
    ],
)
def test_query_of_a_server(
    fts: dict[str, Any], languages: list[str], expected: NativeQuery | None
) -> None:
    """The server ranks if it is asked for a function that it has, in a language of the base."""
    prefs = RetrievalPrefs(query_text="dogs", fts=fts)
    assert native_query(prefs, SERVER, languages) == expected
    assert native_query(prefs, Capabilities(), languages) is None


async def test_a_query_that_only_the_server_may_understand() -> None:
    """Its words are asked for in the other legs; without a server it is an error."""
    prefs = RetrievalPrefs(query_text="dogs & (", fts={"mode": "strict", "rank_func": "ts_rank"})
    async with view_of(Document(text="A dog.", language="en")) as view:
        parsed = planner(view, prefs, can=SERVER)._parsed
        with pytest.raises(QueryError):
            planner(view, prefs)
    assert [term.text for word in parsed.words for term in word] == ["dog"]
    assert parsed.where is None


@pytest.mark.parametrize(
    ("mode", "can", "analysed"),
    [
        ("hybrid", Capabilities(), True),
        ("semantic", Capabilities(), False),
        ("semantic", Capabilities(semantic=False), True),  # only words count then
    ],
)
async def test_words_are_not_analysed_for_vectors_alone(
    mode: Mode, can: Capabilities, analysed: bool
) -> None:
    prefs = RetrievalPrefs(query_text="dogs -cats", mode=mode, fts={"mode": "web"})
    async with MemoryStore().view(And()) as view:
        parsed = planner(view, prefs, can=can)._parsed
    assert bool(parsed.words) == analysed
    assert parsed.excluded is not None
    assert parsed.text == "dogs"


async def test_only_words_that_the_embedder_breaks_up_are_corrected() -> None:
    """`cart` is a word, though no document has it; of two words, half of the query is misspelt."""
    prefs, diagnostics = RetrievalPrefs(query_text="cart truffel"), Diagnostics()
    async with view_of(Document(text="A carp swims past the truffle.", language="en")) as view:
        assert await view.corrections(["cart"]) != [()]
        ((best, *_),) = await view.corrections(["truffel"])
        plan = await planner(view, prefs, diagnostics).plan()
    assert diagnostics.corrections.keys() == {"truffel"}
    assert plan.legs.misspelt == pytest.approx(best.weight / 2)


@pytest.mark.parametrize(
    ("mode", "capabilities", "notes"),
    [
        ("hybrid", Capabilities(text=False), ("text: this store has no full-text index",)),
        ("semantic", Capabilities(text=False), ()),
        ("hybrid", Capabilities(semantic=False), ("semantic: this store has no vectors",)),
        ("keyword", Capabilities(semantic=False), ()),
    ],
)
async def test_what_is_asked_for_and_the_store_has_not_is_noted(
    mode: Mode, capabilities: Capabilities, notes: tuple[str, ...]
) -> None:
    prefs, diagnostics = RetrievalPrefs(query_text="dog", mode=mode), Diagnostics()
    async with MemoryStore().view(And()) as view:
        planner(view, prefs, diagnostics, capabilities)
    assert tuple(note.partition(";")[0] for note in diagnostics.notes) == notes


async def test_the_mean_of_several_queries_has_the_length_1() -> None:
    plan = await planned("dog", expansion=Expansion(queries=("truffle",)))
    assert plan.legs.semantic is not None
    assert plan.legs.semantic.length == pytest.approx(1.0)  # for other distances


async def test_no_more_holders_of_wordings_than_asked_for() -> None:
    store = MemoryStore()
    texts = ("A dog.", "An oak.", "A dog, an oak.")
    await store.write([await entry(Document(text=text, language="en")) for text in texts])
    async with store.view(And()) as view:
        query = await exact_query(
            view, [Phrase((("dog",),)), Phrase((("oak",),))], [], mentioned=False
        )
        assert query is not None
        assert len(await query.search(view, k=3)) == 3
        (best,) = (await query.search(view, k=1)).scores
    assert best == 1.0


@pytest.mark.parametrize(
    ("scoring", "factor"), [({}, 1), ({"blend": "rrf"}, 1), (UNWEIGHTED, 0.3)], ids=str
)
def test_weights_for_documents_made_now_are_those_given(
    scoring: dict[str, Any], factor: float
) -> None:
    """Where fusion makes all of them 1, they are scaled down to what is given."""
    plan = QueryPlan("keywords", LegQueries(), {"semantic": 0.2, "text": 0.4})
    weights = plan.with_given_weights(ScoringPrefs.model_validate(scoring)).weights
    assert weights["text"] == pytest.approx(0.4 * factor)
