from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.terms import SimilarWords, Vocabulary, analyze, edit_distance, similarity
from lagotto.terms.vocabulary import LONGEST_DELETED
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
