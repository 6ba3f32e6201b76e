"""Synonyms of a collection: stored in the base, seen by its searches, copied with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lagotto import AsyncClient, ConfigError, Document, KnowledgeBase
from lagotto.base.copy import copy_base
from lagotto.stores.registry import create_store
from lagotto.testing.hash_embedder import HashEmbedder

DOCUMENTS = (
    Document(id="leave", language="en", text="Paid time off: employees get 25 days each year."),
    Document(id="pto", language="en", text="PTO is granted by the head of the team."),
    Document(id="car", language="en", text="The car must be returned clean."),
    Document(id="cars", language="en", text="Cars, a car, cars: all of them are company cars."),
    Document(id="else", language="en", text="Nothing of it is said here."),
)
GROUPS = "PTO, paid time off\ncar, automobile"


@pytest.fixture(params=["tantivy", "fts5"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeBase]:
    place = tmp_path / "kb.db"
    with KnowledgeBase(place, embedder=HashEmbedder(), text_index=request.param) as base:
        base.add(*DOCUMENTS)
        yield base


def found(kb: KnowledgeBase, query: str, **settings: Any) -> dict[str, float]:
    """The text score of each document that has one."""
    hits = kb.retrieve(query, mode="keyword", fuzzy={"mode": "off"}, **settings)
    legs = {hit.document_id: hit.breakdown.text for hit in hits}
    return {name: leg.score for name, leg in legs.items() if leg and leg.score > 0}


def test_a_search_sees_them_at_once_until_they_are_cleared(kb: KnowledgeBase) -> None:
    assert found(kb, "automobiles") == {}
    assert kb.set_synonyms(GROUPS) == 2
    assert found(kb, "automobiles").keys() == {"car", "cars"}
    assert kb.retrieve("my automobile").stats.synonyms == {"automobile": ("car",)}
    assert kb.synonyms() == {"default": [("PTO", "paid time off"), ("car", "automobile")]}
    assert kb.set_synonyms([]) == 0
    assert found(kb, "automobiles") == {}
    assert kb.synonyms() == {}
    assert kb.retrieve("my automobile").stats.synonyms == {}


def test_a_synonym_has_the_idf_of_the_word(kb: KnowledgeBase) -> None:
    """As variants of one word: what the synonym finds scores as if the query had said it."""
    plain = found(kb, "car clean")
    kb.set_synonyms(GROUPS)
    assert found(kb, "automobile clean") == plain
    assert found(kb, "car clean") == plain
    kb.add(
        *(Document(id=f"w{n}", language="en", text="Here waits a car today.") for n in range(3)),
        Document(id="rare", language="en", text="Here waits an automobile today."),
        Document(id="both", language="en", text="Car waits, automobile waits."),
    )
    scores = found(kb, "car")
    assert scores["rare"] == pytest.approx(scores["w0"], rel=1e-4)
    assert scores["both"] == pytest.approx(found(kb, "automobile")["both"], rel=1e-4)


def test_a_phrase_of_a_word_and_a_word_of_a_phrase(kb: KnowledgeBase) -> None:
    kb.set_synonyms(GROUPS)
    assert found(kb, "PTO").keys() == {"pto", "leave"}
    assert found(kb, "paid time off").keys() == {"pto", "leave"}


def test_conditions_are_met_by_a_synonym_and_by_a_whole_phrase(kb: KnowledgeBase) -> None:
    kb.add(Document(id="split", language="en", text="Time is paid by employees, off and on."))
    kb.set_synonyms(GROUPS)
    for mode in ("plain", "web"):
        assert found(kb, "PTO employees", fts={"mode": mode}).keys() == {"leave"}
        assert found(kb, "automobile clean", fts={"mode": mode}).keys() == {"car"}
    assert found(kb, "car -automobile", fts={"mode": "web"}).keys() == {"car", "cars"}


def test_a_word_that_has_synonyms_is_not_corrected(kb: KnowledgeBase) -> None:
    kb.add(Document(id="truffles", language="en", text="A dog finds truffles."))
    assert "trufles" in kb.retrieve("trufles").stats.corrections
    kb.set_synonyms("trufles, automobile\nautomobile, car")
    assert not kb.retrieve("trufles").stats.corrections
    answer = kb.retrieve("automobile truffels")  # the other word is, and the leg has the synonyms
    assert answer.stats.corrections.keys() == {"truffels"}
    assert {hit.document_id for hit in answer if (leg := hit.breakdown.fuzzy) and leg.score} == {
        "truffles", "car", "cars",
    }  # fmt: skip


def test_they_are_those_of_the_collection(kb: KnowledgeBase) -> None:
    kb.add(Document(id="other", collection="other", language="en", text="A car."))
    kb.set_synonyms(GROUPS, collection="other")
    assert found(kb, "automobile", collection="default") == {}
    assert found(kb, "automobile", collection="other").keys() == {"other"}
    assert found(kb, "automobile").keys() == {"car", "cars", "other"}


async def test_they_are_copied(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "a.db", embedder=HashEmbedder()) as kb:
        kb.add(*DOCUMENTS)
        kb.set_synonyms(GROUPS)
    source, copy = create_store(tmp_path / "a.db"), create_store(tmp_path / "b.db")
    for store in (source, copy):
        await store.open()
    await copy_base(source, copy)
    for store in (source, copy):
        await store.close()
    with KnowledgeBase(tmp_path / "b.db", embedder=HashEmbedder()) as kb:
        assert len(kb.synonyms()["default"]) == 2
        assert found(kb, "automobile").keys() == {"car", "cars"}


async def test_a_server_has_its_own() -> None:
    with pytest.raises(ConfigError, match="where its base is"):
        await AsyncClient("http://localhost:1").set_synonyms("a, b")
