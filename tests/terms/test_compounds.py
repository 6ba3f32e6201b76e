from __future__ import annotations

import pytest
from hypothesis import given

from lagotto.terms import Vocabulary, analyze, compounds, index_terms
from lagotto.terms.compounds import JOINER
from lagotto.terms.words import LONGEST_WORD
from lagotto.testing.strategies import texts


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Python 3.7", ["3_7"]),
        ("v3.7", ["3_7"]),
        ("3.8.7", ["3_8_7", "3_8"]),
        ("1,234.50", ["1_234_50"]),
        ("2024-01-31", ["2024_01_31", "2024_01"]),
        ("at 12:30", ["12_30"]),
        ("COVID-19", ["covid_19"]),
        ("part AB-1234/X", ["ab_1234_x", "ab_1234"]),
        ("joe@example.com", ["joe_example_com", "example_com"]),
        ("src/lagotto/base.py", ["src_lagotto_base_py", "base_py"]),
        ("C:\\logs\\error.log", ["logs_error_log", "error_log"]),
        ("SQLITE_BUSY", ["sqlite_busy"]),
        ("Größe.txt", ["grosse_txt"]),
        ("版本3.7版", ["3_7"]),
    ],
)
def test_a_name_is_a_term_of_its_own(text: str, terms: list[str]) -> None:
    assert compounds(text) == terms


@pytest.mark.parametrize(
    "text", ["", "well-known", "and/or", "3, 7", "3 7", "a: b", "It ends. So."]
)
def test_words_beside_each_other_are_no_compound(text: str) -> None:
    assert compounds(text) == []


def test_index_terms_are_the_words_and_then_the_compounds() -> None:
    assert index_terms("Drops Python 3.7.", "en") == ["drop", "python", "3", "7", "3_7"]


def test_versions_with_the_same_parts_differ() -> None:
    assert set(analyze("3.7")) <= set(analyze("3.8.7"))
    assert not set(compounds("3.7")) & set(compounds("3.8.7"))
    assert set(compounds("3.7")) <= set(compounds("3.7.1"))


def test_a_long_path_keeps_its_end() -> None:
    (whole, *_) = compounds("/".join(["folder"] * 40) + "/report.txt")
    assert len(whole) == LONGEST_WORD
    assert whole.endswith("folder_report_txt")


@given(texts())
def test_compounds_are_made_of_the_words(text: str) -> None:
    words = {part for term in index_terms(text) for part in term.split(JOINER)}
    for term in compounds(text):
        assert JOINER in term
        assert set(term.split(JOINER)[1:]) <= words


def test_the_vocabulary_has_no_compounds() -> None:
    vocabulary = Vocabulary(index_terms("Python 3.7, see base.py"))
    assert "3_7" not in vocabulary
    assert vocabulary.corrections("3_8") == vocabulary.corrections("bse_py") == []
    assert vocabulary.corrections("pyhton")[0][0] == "python"
