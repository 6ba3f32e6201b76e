from __future__ import annotations

import pytest

from lagotto.errors import ConfigError
from lagotto.terms.synonyms import Synonyms, parse_synonyms

LEAVE = """
# leave
PTO, paid  time off, vacation   # three
car, automobile
"""


def test_a_file_has_a_group_in_a_line() -> None:
    groups = Synonyms(parse_synonyms(LEAVE)).groups
    assert groups == (("PTO", "paid time off", "vacation"), ("car", "automobile"))


def test_words_are_found_as_they_are_indexed() -> None:
    synonyms = Synonyms(parse_synonyms(LEAVE))
    assert synonyms.find("Which automobiles?", ["en"]) == {"automobile": ("car",)}
    assert synonyms.find("Which automobiles?", [None]) == {}
    assert synonyms.find("my pto", ["de", "en"]) == {"PTO": ("paid time off", "vacation")}


def test_of_phrases_that_overlap_the_longest_counts() -> None:
    synonyms = Synonyms([("paid time off", "PTO"), ("time", "clock")])
    assert synonyms.find("paid time off", ["en"]) == {"paid time off": ("PTO",)}
    assert synonyms.find("time off, paid", ["en"]) == {"time": ("clock",)}


def test_a_word_of_two_groups_stands_for_both() -> None:
    synonyms = Synonyms([("ml", "machine learning"), ("ml", "millilitre")])
    assert synonyms.find("10 ml", ["en"]) == {"ml": ("machine learning", "millilitre")}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("PTO", "has no synonym"),
        ("PTO, PTO", "has no synonym"),
        ("PTO, ?", "has no synonym"),
        ("PTO => leave", "write a comma"),
        ("x, a b c d e f g h i", "more than 8 words"),
    ],
)
def test_what_says_nothing_is_refused(line: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Synonyms(parse_synonyms(line))
