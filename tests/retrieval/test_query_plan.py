"""From a question to the query of each leg: what the store and the settings decide."""

from __future__ import annotations

from typing import Any

import pytest

from lagotto.documents import Document
from lagotto.embedders import create_embedder
from lagotto.errors import QueryError
from lagotto.filters import And
from lagotto.indexes.text_query import NativeQuery
from lagotto.prefs import Mode, RetrievalPrefs
from lagotto.retrieval.diagnostics import Diagnostics
from lagotto.retrieval.query_plan import (
    NativeText,
    QueryPlanner,
    content_words,
    correct,
    native_query,
    query_languages,
)
from lagotto.stores.base import Capabilities
from lagotto.stores.memory import MemoryStore
from lagotto.testing.stores import entry

SERVER = Capabilities(rank_functions=("bm25", "ts_rank", "ts_rank_cd"))


@pytest.mark.parametrize(
    ("config", "languages", "expected", "noted"),
    [
        (None, ["en", "de"], ["en", "de"], False),
        ("english", ["en", "de"], ["en"], False),
        ("de", ["en", "de", None], ["de"], False),
        ("english", ["de"], ["de"], True),
        ("german", [None], [None], True),
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
    store, diagnostics = MemoryStore(), Diagnostics()
    await store.write([await entry(Document(text="A dog.", language="en"))])
    async with store.view(And()) as view:
        QueryPlanner(
            view,
            prefs,
            embedder=create_embedder("minilm"),
            capabilities=Capabilities(),
            diagnostics=diagnostics,
        )
    assert bool(diagnostics.notes) == noted


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


def test_a_query_that_only_the_server_may_understand() -> None:
    """Its words are asked for in the other legs; without a server it is an error."""
    prefs = RetrievalPrefs(query_text="dogs & (", fts={"mode": "strict", "rank_func": "ts_rank"})
    parsed = NativeText(prefs, SERVER, ["en"]).parsed
    assert [term.text for word in parsed.words for term in word] == ["dog"]
    assert parsed.where is None
    with pytest.raises(QueryError):
        NativeText(prefs, Capabilities(), ["en"])


async def test_only_words_that_the_embedder_breaks_up_are_corrected() -> None:
    """`cart` is a word, though no document has it; of two words, half of the query is misspelt."""
    tokenizer = create_embedder("minilm").tokenizer
    store = MemoryStore()
    await store.write([await entry(Document(text="A carp swims past the truffle.", language="en"))])
    words = content_words("cart truffel", ["en"])
    async with store.view(And()) as view:
        assert await view.corrections(["cart"]) != [()]
        corrected, share = await correct(view, words, tokenizer)
    assert [word.word for word in corrected] == ["truffel"]
    (terms,) = corrected.values()
    assert share == pytest.approx(max(term.weight for term in terms) / 2)
