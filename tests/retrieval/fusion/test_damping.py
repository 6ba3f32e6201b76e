from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.embedders import EmbedderInfo
from lagotto.indexes.bm25 import idf
from lagotto.retrieval.fusion import LegScores, damping, match_strength, semantic_lead
from lagotto.testing.hash_embedder import HashEmbedder


def cosines(*scores: float) -> LegScores:
    return LegScores(np.array(scores), np.arange(1, len(scores) + 1))


class TestMatchStrength:
    def test_share_of_half_of_what_three_words_could_score(self) -> None:
        # 2.2 * (5 + 4 + 3) = 26.4; half of it is a full match
        assert match_strength(6.6, [3, 1, 5, 4]) == pytest.approx(0.5)
        assert match_strength(13.2, [3, 1, 5, 4]) == pytest.approx(1.0)
        assert match_strength(20.0, [3, 1, 5, 4]) == 1.0

    def test_fewer_words(self) -> None:
        assert match_strength(2.2, [4.0]) == pytest.approx(0.5)

    def test_nothing_found(self) -> None:
        assert match_strength(0.0, [5.0]) == 0.0

    def test_no_words(self) -> None:
        assert match_strength(0.0, []) == 1.0


class TestFavourite:
    @pytest.mark.parametrize(
        ("first", "expected"), [(0.5, 0.0), (0.6, 0.0), (0.65, 0.5), (0.7, 1.0), (0.9, 1.0)]
    )
    def test_lead_over_the_tenth(self, first: float, expected: float) -> None:
        found = cosines(first, *[0.5] * 9, 0.1)
        assert semantic_lead(found, floor=0.0) == pytest.approx(expected)

    def test_the_tenth_counts_not_the_ninth(self) -> None:
        assert semantic_lead(cosines(0.7, *[0.7] * 8, 0.5), floor=0.0) == pytest.approx(1.0)

    def test_cosines_count_from_the_floor(self) -> None:
        # (0.80 - 0.75) / 0.25 = 0.2, and 0 for what is below the floor
        assert semantic_lead(cosines(0.80, *[0.70] * 9), floor=0.75) == pytest.approx(1.0)
        assert semantic_lead(cosines(0.7875, *[0.70] * 9), floor=0.75) == pytest.approx(0.5)

    def test_too_few_to_compare(self) -> None:
        assert semantic_lead(cosines(0.9, *[0.0] * 8), floor=0.0) == 0.0

    def test_only_its_own_list_counts(self) -> None:
        found = cosines(0.9, *[0.85] * 9, *[0.0] * 5)
        found.ranks[10:] = 0
        assert semantic_lead(found, floor=0.0) == 0.0


def test_damping() -> None:
    # A match of 0.25: half the favourite takes half of what is missing.
    assert damping(3.3, [5, 4, 3], semantic_lead=0.0) == 1.0
    assert damping(3.3, [5, 4, 3], semantic_lead=0.5) == pytest.approx(0.625)
    assert damping(3.3, [5, 4, 3], semantic_lead=1.0) == pytest.approx(0.25)
    assert damping(13.2, [5, 4, 3], semantic_lead=1.0) == pytest.approx(1.0)


QUESTION = "harvest unknown1 unknown2"
DOCUMENTS = [
    Document(id="answer", text="Truffles ripen under oaks.", language="en"),
    *(
        Document(id=f"d{number:02}", text=f"The harvest of field number{number}.", language="en")
        for number in range(20)
    ),
]


def base(tmp_path: Path, text_index: str | None) -> AsyncKnowledgeBase:
    location = ":memory:" if text_index is None else tmp_path / "kb.db"
    return AsyncKnowledgeBase(location, embedder=HashEmbedder(), text_index=text_index)


@pytest.mark.parametrize("text_index", [None, "tantivy", "fts5"])
async def test_a_weak_match_is_damped_unless_weights_are_not_adapted(
    tmp_path: Path, text_index: str | None
) -> None:
    (vector,) = await HashEmbedder().embed(["Truffles ripen under oaks."], role="document")
    asked: dict[str, Any] = {"query_vector": vector, "top_k": 30, "fuzzy": {"mode": "off"}}
    async with base(tmp_path, text_index) as kb:
        await kb.add(*DOCUMENTS)
        damped = await kb.retrieve(QUESTION, **asked)
        plain = await kb.retrieve(QUESTION, **asked, scoring={"adapt": False})
        ranked = await kb.retrieve(QUESTION, **asked, scoring={"blend": "rrf"})
    best = max(hit.breakdown.text.score for hit in damped if hit.breakdown.text)
    # Two of the three words are in no chunk of 21; the third is in 20 of them.
    most = 2.2 * (2 * idf(0, count=21) + idf(20, count=21))
    expected = best / (0.5 * most)
    assert expected < 0.1
    for hit in damped:
        assert hit.breakdown.text is not None
        assert hit.breakdown.text.damping == pytest.approx(expected)
        assert hit.breakdown.text.weight == pytest.approx(0.5 * expected / (1 + 0.5 * expected))
        assert hit.breakdown.semantic is not None
        assert hit.breakdown.semantic.damping == 1.0
    assert f"weight damped by {expected:.2f}" in damped[0].explain()
    assert damped[0].document_id == "answer"
    for hit in (*plain, *ranked):
        assert hit.breakdown.text is None or hit.breakdown.text.damping == 1.0
        assert "damped" not in hit.explain()


class EnglishEmbedder(HashEmbedder):
    """An embedder whose model declares that it knows English, and the Latin alphabet."""

    @property
    def info(self) -> EmbedderInfo:
        return EmbedderInfo(
            model_id="hash-en", dimension=64, languages=("en",), alphabets=("LATIN",)
        )


def alike(number: int, language: str | None) -> Document:
    """A document as near to every vector as all others."""
    return Document(id=f"d{number:02}", text="The harvest of the field.", language=language)


@pytest.mark.parametrize(
    ("language", "question", "damped"),
    [
        ("en", "harvest comet violin", True),
        ("en-GB", "harvest comet violin", True),
        ("tr", "harvest comet violin", False),
        ("en", "harvest неизвестно неведомое", False),
        ("en", "harvest trypanosomiasis onchocerciasis", False),
    ],
)
async def test_flat_cosines_are_trusted_only_in_a_language_that_the_embedder_knows(
    language: str | None, question: str, damped: bool
) -> None:
    async with AsyncKnowledgeBase(":memory:", embedder=EnglishEmbedder()) as kb:
        await kb.add_documents([alike(number, language) for number in range(20)])
        hits = await kb.retrieve(question, fuzzy={"mode": "off"})
    factors = {hit.breakdown.text.damping for hit in hits if hit.breakdown.text}
    assert [factor < 1 for factor in factors] == [damped]


async def test_the_language_is_that_of_the_query_where_a_base_has_several() -> None:
    languages = ["en"] * 14 + ["tr"] * 6
    documents = [alike(number, language) for number, language in enumerate(languages)]
    async with AsyncKnowledgeBase(":memory:", embedder=EnglishEmbedder()) as kb:
        await kb.add_documents(documents)
        for question, damped in (
            ("what is the harvest of comet and violin", True),
            ("harvest ve comet için bir violin mi", False),
        ):
            hits = await kb.retrieve(question, fuzzy={"mode": "off"})
            factors = [hit.breakdown.text.damping for hit in hits if hit.breakdown.text]
            assert (min(factors) < 1) is damped, question
