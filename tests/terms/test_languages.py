from __future__ import annotations

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.terms import stop_words
from lagotto.terms.languages import SAMPLE, alphabet_share, foreign_language, stop_word_lists
from lagotto.terms.words import words
from lagotto.testing.hash_embedder import HashEmbedder

EXPECTED = {
    "en": "the of was did who what when where why how which don t",
    "de": "der die das und ist war wer wie warum fur",
    "fr": "le la les l qu est ou qui pourquoi",
    "es": "el la los es que como donde quien",
    "it": "il lo dell e che dove perche",
    "pt": "o a os e que onde nao",
    "nl": "de het een is wie waarom",
    "sv": "och att ar vem varfor",
    "da": "og at er hvem hvorfor",
    "no": "og at er hvem hvorfor",
    "fi": "ja on kuka miksi",
    "ru": "и в на что кто где еще",
    "uk": "і в на що хто де",
    "pl": "i w na ktory kto gdzie",
    "cs": "a v na kdo kde proc",
    "ro": "si in la cine unde",
    "hu": "a az es ki hol miert",
    "tr": "ve bir bu kim nerede nasil",
    "el": "και το η που ποιος",
    "ar": "في من على هل ماذا",
    "id": "dan yang di siapa mengapa",
}
CONTENT = """
house year time day people man woman work world country city car book school water money war music
new old good great first last long large small high black white red state system program question
use make take come see know find give tell ask need want name number part place case week company
"""


@pytest.mark.parametrize("language", EXPECTED)
def test_function_words_are_listed(language: str) -> None:
    assert set(words(EXPECTED[language])) <= stop_words(language)


def test_every_list_is_of_a_sane_size() -> None:
    assert set(stop_word_lists()) == set(EXPECTED)
    assert all(100 <= len(stop_words(language)) <= 250 for language in stop_word_lists())


def test_english_lists_no_content_words() -> None:
    assert not stop_words("en") & set(words(CONTENT))


def test_tags_and_unknown_languages() -> None:
    assert stop_words("en-GB") == stop_words("en")
    assert stop_words("nb") == stop_words("no")
    assert stop_words("xx") == stop_words(None) == frozenset()


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


@pytest.mark.parametrize(
    ("text", "alphabets", "share"),
    [
        ("naïve café", ("LATIN",), 1.0),
        ("Когда", ("LATIN",), 0.0),
        ("abc где", ("LATIN",), 0.5),
        ("abc где", ("LATIN", "CYRILLIC"), 1.0),
        ("東京 Tokyo", ("CJK",), 2 / 7),
        ("ab 12 ?!", ("LATIN",), 1.0),
    ],
)
def test_share_of_letters(text: str, alphabets: tuple[str, ...], share: float) -> None:
    assert alphabet_share(text, alphabets) == pytest.approx(share)


def test_no_alphabets_mean_all() -> None:
    assert alphabet_share("Когда", ()) == 1.0


@pytest.mark.parametrize("text", ["", "1234", "?!"])
def test_no_letters_fit_any_alphabet(text: str) -> None:
    assert alphabet_share(text, ("LATIN",)) == 1.0


def test_only_the_start_of_a_long_text_counts() -> None:
    assert alphabet_share("a" * SAMPLE + "я" * SAMPLE, ("LATIN",)) == 1.0
