"""Passages whose texts are the same, in lists that show each text once."""

from __future__ import annotations

from typing import Any

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.results import Results
from lagotto.testing.hash_embedder import HashEmbedder

WORDS = ("ash", "beech", "cedar", "elm", "fir")
ONCE: dict[str, Any] = {"diversity": {"copies": "once"}}


@pytest.fixture(name="kb", scope="module")
def _kb() -> Any:
    """More copies of one text than a leg brings candidates, and other texts that match less."""
    copies = [
        Document(id=f"copy{number:03}", title="Oak", text="The oak grows by the river. " * 2)
        for number in range(130)
    ]
    others = [
        Document(id=word, text=f"The {word} grows far away, where an oak once grew. {word}")
        for word in WORDS
    ]
    with KnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
        kb.add(*copies, *others)
        yield kb


def ids(found: Results) -> list[str]:
    return [hit.document_id for hit in found]


def test_a_text_is_one_hit_that_names_its_other_documents(kb: KnowledgeBase) -> None:
    """The list is filled with other texts, also with those that copies crowd out of the legs."""
    found = kb.retrieve("Which oak grows by the river?", top_k=6, **ONCE)
    assert len(found) == 6
    assert {*ids(found)[1:]} == {*WORDS}
    assert len(found[0].also_in) == 129
    assert "Also in: copy" in found[0].citation
    assert not any(hit.also_in for hit in found[1:])
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("k", range(1, 6))
def test_a_shorter_list_is_the_beginning_of_a_longer_one(kb: KnowledgeBase, k: int) -> None:
    question = "Which oak grows by the river?"
    shorter = kb.retrieve(question, top_k=k, **ONCE)
    assert ids(shorter) == ids(kb.retrieve(question, top_k=6, **ONCE))[:k]


def test_each_passage_is_a_hit_unless_asked_otherwise(kb: KnowledgeBase) -> None:
    found = kb.retrieve("Which oak grows by the river?", top_k=20)
    assert len(found) == 20
    assert not any(hit.also_in for hit in found)


def test_a_text_that_a_document_repeats_is_no_copy() -> None:
    text = "\n\n".join(["The oak grows by the river."] * 3)
    with KnowledgeBase(":memory:", embedder=HashEmbedder(), chunker="recursive:8/0") as kb:
        kb.add(Document(id="one", text=text), Document(id="two", text=text))
        found = kb.retrieve("oak", **ONCE)
    assert ids(found) == ["one"] * 3
    assert {hit.also_in for hit in found} == {("two",), ()}


def test_a_pack_names_the_copies_of_its_hits(kb: KnowledgeBase) -> None:
    pack = kb.context("Which oak grows by the river?", max_tokens=400, **ONCE)
    first = pack.citations[0]
    assert len(first.also_in) == 129
    assert first.label.endswith(", copy005 and 124 more")
