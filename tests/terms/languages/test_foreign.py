from __future__ import annotations

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.terms.languages import foreign_language
from lagotto.testing.hash_embedder import HashEmbedder


@pytest.mark.parametrize(
    ("query", "languages", "found"),
    [
        ("What is the capital of France?", ["en"], None),
        ("Wie heißt die Hauptstadt von Frankreich?", ["en"], "German"),
        ("¿Dónde está la casa de mi madre?", ["en", "de"], "Spanish"),
        ("What is in the box?", ["de"], "English"),
        ("Какой город столица?", ["en"], "Cyrillic"),
        ("Какой город столица?", ["en", "ru"], None),
        ("東京はどこですか", ["en"], "Hiragana"),
        ("Où est la gare de Lyon ?", ["en", "fr"], None),
        ("CVE-2024-1234", ["de"], None),
        ("die cast aluminium", ["en"], None),
        ("Juan de la Cruz", ["en"], None),
        ("ST-1777 µm", ["en"], None),
        ("", ["en"], None),
        ("Wie heißt die Hauptstadt von Frankreich?", ["de-AT"], None),
    ],
)
def test_a_query_in_a_language_of_no_document(
    query: str, languages: list[str], found: str | None
) -> None:
    assert foreign_language(query, languages) == found


@pytest.mark.parametrize("strict", [False, True])
def test_a_search_says_that_no_document_is_in_its_language(strict: bool) -> None:
    with KnowledgeBase(":memory:", embedder=HashEmbedder()) as kb:
        kb.add(Document(text="The dog finds truffles in the woods.", language="en"))
        found = kb.retrieve("Где собака ищет трюфели?", strict=strict)
        assert found.degraded == ("query: it seems to be Cyrillic, and documents are in en",)
        assert kb.retrieve("Where are truffles?", strict=strict).degraded == ()
        kb.add(Document(text="???"))
        assert kb.retrieve("Где собака ищет трюфели?").degraded == (), "its language is unknown"
