from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.terms import edit_distance, similarity, trigrams, word_similarity
from lagotto.terms.vocabulary import word_trigrams
from lagotto.terms.words import runs

SHORT_TEXTS = st.text("abcé ,", max_size=14)
SHORT_WORDS = st.text("abc", max_size=6)


def test_trigrams() -> None:
    assert trigrams("cat") == {"  c", " ca", "cat", "at "}
    assert trigrams("foo|bar") == {"  f", " fo", "foo", "oo ", "  b", " ba", "bar", "ar "}
    assert trigrams("CAT") == trigrams("cat")
    assert trigrams(" ,!") == set()


def test_the_figures_of_the_postgresql_manual() -> None:
    assert similarity("word", "two words") == pytest.approx(0.363636, abs=1e-6)
    assert word_similarity("word", "two words") == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("word", "a word in a sentence", 1.0),
        ("word", "", 0.0),
        ("", "word", 0.0),
        ("xyz", "word", 0.0),
        ("two words", "one two words three", 1.0),
    ],
)
def test_word_similarity(query: str, text: str, expected: float) -> None:
    assert word_similarity(query, text) == pytest.approx(expected)


@given(first=SHORT_TEXTS, second=SHORT_TEXTS)
def test_similarity_is_symmetric_and_1_for_equal_trigrams_only(first: str, second: str) -> None:
    value = similarity(first, second)
    assert value == similarity(second, first)
    assert 0 <= value <= 1
    assert (value == 1) == (trigrams(first) == trigrams(second) != set())


@given(query=SHORT_TEXTS, text=SHORT_TEXTS)
def test_word_similarity_is_that_of_the_best_stretch(query: str, text: str) -> None:
    wanted = trigrams(query)
    stream = [trigram for run in runs(text) for trigram in word_trigrams(run)]
    stretches = [
        set(stream[start:end])
        for start in range(len(stream))
        for end in range(start + 1, len(stream) + 1)
    ]
    best = max((len(wanted & part) / len(wanted | part) for part in stretches), default=0.0)
    assert word_similarity(query, text) == pytest.approx(best)
    assert word_similarity(query, text) >= similarity(query, text)


@pytest.mark.slow
def test_word_similarity_takes_linear_time() -> None:
    assert 0 < word_similarity("aaa bbb ccc", "aab bbc " * 20_000 + "ccc") < 1


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [
        ("word", "word", 0),
        ("word", "wrod", 1),
        ("word", "owrd", 1),
        ("word", "wor", 1),
        ("word", "sword", 1),
        ("word", "ward", 1),
        ("kitten", "sitting", 3),
        ("ca", "abc", 3),
        ("", "abc", 3),
        ("abab", "baba", 2),
    ],
)
def test_edit_distance(first: str, second: str, edits: int) -> None:
    assert edit_distance(first, second) == edit_distance(second, first) == edits


def neighbours(word: str) -> set[str]:
    """All words one edit away, over three letters."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    deleted = {left + right[1:] for left, right in cuts if right}
    inserted = {left + letter + right for left, right in cuts for letter in "abc"}
    replaced = {left + letter + right[1:] for left, right in cuts if right for letter in "abc"}
    swapped = {
        left[:-1] + right[0] + left[-1] + right[1:] for left, right in cuts if left and right
    }
    return (deleted | inserted | replaced | swapped) - {word}


@given(word=SHORT_WORDS, other=SHORT_WORDS)
def test_a_distance_of_one_is_one_edit(word: str, other: str) -> None:
    assert (edit_distance(word, other) == 1) == (other in neighbours(word))


@given(words=st.lists(SHORT_WORDS, min_size=2, max_size=5))
def test_edits_of_a_path_bound_the_lengths(words: list[str]) -> None:
    for one, other in pairwise(words):
        distance = edit_distance(one, other)
        assert abs(len(one) - len(other)) <= distance <= max(len(one), len(other))
        assert (distance == 0) == (one == other)
