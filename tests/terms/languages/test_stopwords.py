from __future__ import annotations

import pytest

from lagotto.terms import stop_words
from lagotto.terms.languages import STOP_WORDS
from lagotto.terms.words import words

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
    assert set(STOP_WORDS) == set(EXPECTED)
    assert all(100 <= len(stop_words(language)) <= 250 for language in STOP_WORDS)


def test_english_lists_no_content_words() -> None:
    assert not stop_words("en") & set(words(CONTENT))


def test_tags_and_unknown_languages() -> None:
    assert stop_words("en-GB") == stop_words("en")
    assert stop_words("nb") == stop_words("no")
    assert stop_words("xx") == stop_words(None) == frozenset()
