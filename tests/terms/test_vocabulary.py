from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.terms import (
    SimilarWords,
    Vocabulary,
    analyze,
    edit_distance,
    similarity,
    trigrams,
    word_similarity,
)
from lagotto.terms.vocabulary import LONGEST_DELETED, word_trigrams
from lagotto.terms.words import runs
from lagotto.testing.strategies import texts

WORDS = st.text("abcé", min_size=1, max_size=7)
TEXT = """
When was Stargate Atlantis cancelled? The series was produced in Vancouver and broadcast by the
network for five seasons. The word of the captain was the law: nobody questioned the orders that
he gave, and the connection between the stations was lost in 2009.
"""


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(analyze(TEXT))


def test_a_vocabulary_is_a_set_of_terms(vocabulary: Vocabulary) -> None:
    assert "atlantis" in vocabulary
    assert "atlantic" not in vocabulary
    assert "zzz" not in vocabulary
    assert len(vocabulary) == len(set(analyze(TEXT)))
    assert list(vocabulary.terms) == sorted(set(analyze(TEXT)))


def test_similar(vocabulary: Vocabulary) -> None:
    (best, likeness), *others = vocabulary.similar("stargates")
    assert best == "stargate"
    assert likeness == similarity("stargates", "stargate")
    assert len(vocabulary.similar("stargates", threshold=0, limit=2)) == 2
    assert all(value >= 0.3 for _, value in others)


@given(words=st.lists(WORDS, max_size=25), word=WORDS, threshold=st.floats(0, 1))
def test_similar_agrees_with_comparing_each_term(
    words: list[str], word: str, threshold: float
) -> None:
    compared = [(term, similarity(word, term)) for term in set(words)]
    expected = [(term, value) for term, value in compared if value >= threshold and value > 0]
    found = Vocabulary(words).similar(word, threshold=threshold, limit=len(words))
    assert found == sorted(expected, key=lambda pair: (-pair[1], pair[0]))


@given(text=texts(max_words=30), word=texts(max_words=1))
def test_any_terms_can_be_compared(text: str, word: str) -> None:
    terms = analyze(text)
    vocabulary = Vocabulary(terms)
    for query in analyze(word):
        expected = max((similarity(query, term) for term in terms), default=0.0)
        found = vocabulary.similar(query, threshold=0, limit=1)
        assert [value for _, value in found] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("atlanits", "atlantis"),
        ("tsargate", "stargate"),
        ("xtargate", "stargate"),
        ("wrod", "word"),
        ("owrd", "word"),
        ("qord", "word"),
        ("wod", "word"),
        ("vancuover", "vancouver"),
        ("conection", "connection"),
        ("qestoned", "questioned"),
    ],
)
def test_corrections_find_what_was_meant(vocabulary: Vocabulary, typo: str, meant: str) -> None:
    (first, weight), *_ = vocabulary.corrections(typo)
    assert first == meant
    assert 0 < weight < 1


@pytest.mark.parametrize("word", ["2008", "wd", "東京", "xylophone", ""])
def test_nothing_like_it(vocabulary: Vocabulary, word: str) -> None:
    assert vocabulary.corrections(word) == []


def test_a_known_word_does_not_correct_itself(vocabulary: Vocabulary) -> None:
    assert "atlantis" in vocabulary
    assert "atlantis" not in {term for term, _ in vocabulary.corrections("atlantis")}


def test_frequent_terms_come_first() -> None:
    assert Vocabulary({"cart": 1, "card": 100}).corrections("carx")[0][0] == "card"
    assert Vocabulary({"cart": 100, "card": 1}).corrections("carx")[0][0] == "cart"
    assert [term for term, _ in Vocabulary(["cart", "card"]).corrections("carx")] == [
        "card",
        "cart",
    ]
    assert Vocabulary({"cart": 0}).corrections("carx")[0][0] == "cart"


@given(words=st.lists(WORDS, min_size=1, max_size=25), word=st.text("abc", min_size=4, max_size=7))
def test_whatever_is_one_edit_away_is_found(words: list[str], word: str) -> None:
    assert len(word) <= LONGEST_DELETED
    vocabulary = Vocabulary(words)
    corrections = vocabulary.corrections(word, limit=len(words))
    assert all(0 < weight <= 1 for _, weight in corrections)
    assert corrections == sorted(corrections, key=lambda pair: (-pair[1], pair[0]))
    near = {term for term in words if edit_distance(word, term) == 1}
    assert near <= {term for term, _ in corrections}


def test_an_empty_vocabulary() -> None:
    for nothing in (Vocabulary([]), Vocabulary({})):
        assert len(nothing) == 0
        assert "word" not in nothing
        assert nothing.similar("word", threshold=0) == []
        assert nothing.corrections("word") == []


def test_it_can_be_pickled(vocabulary: Vocabulary) -> None:
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert copy.corrections("atlanits") == vocabulary.corrections("atlanits")


@pytest.mark.parametrize("word", ["fy21", "fy2", "fy", "q42023", "2021fy", "covid18"])
def test_a_correction_never_changes_a_digit(word: str) -> None:
    vocabulary = Vocabulary(["fy23", "fy22", "fy2021", "q32023", "covid19", "fyi"])
    digits = [char for char in word if char.isdigit()]
    for term, _ in vocabulary.corrections(word):
        assert [char for char in term if char.isdigit()] == digits


def test_letters_beside_digits_are_corrected() -> None:
    assert Vocabulary(["covid19", "cvi18"]).corrections("covd19")[0][0] == "covid19"


@given(
    st.sets(st.text("abcß1", min_size=1, max_size=12), max_size=8),
    st.text("abcß1", min_size=1, max_size=12),
    st.sampled_from([0.5, 0.72, 0.9]),
)
def test_similar_words_are_those_that_a_vocabulary_would_correct(
    words: set[str], term: str, threshold: float
) -> None:
    found = dict(SimilarWords(words - {term}, threshold=threshold).to(term))
    corrected = {word: dict(Vocabulary([term]).corrections(word)) for word in words - {term}}
    expected = {word: said[term] for word, said in corrected.items() if term in said}
    assert found == pytest.approx(
        {word: likeness for word, likeness in expected.items() if likeness >= threshold}
    )


def test_corrections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Vocabulary(["truffle", "lake"])
    assert not known.is_corrected("trufle", limit=3)
    first = known.corrections("trufle", limit=3)
    assert [term for term, _ in first] == ["truffle"]
    assert known.is_corrected("trufle", limit=3)
    assert not known.is_corrected("trufle", limit=1)
    first.clear()  # the caller's own
    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, "_correct", None)
        assert len(known.corrections("trufle", limit=3)) == 1
    monkeypatch.setattr("lagotto.terms.vocabulary.MOST_CORRECTED", 2)
    for word in ("laek", "lakke", "lakes"):
        known.corrections(word)
    assert len(known._corrected) <= 2


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
