from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lagotto.indexes.base import FilterKeys, Hits
from lagotto.indexes.tantivy.index import TantivyWriter
from lagotto.indexes.text_query import Prefix, Term, TextQuery, Word, single_words
from tests.indexes.tantivy.written import search, write

Corpus = Mapping[int, Sequence[str]]


def words(*terms: str) -> TextQuery:
    return TextQuery(tuple((Term(term),) for term in terms))


def keys(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def made(folder: Path, corpus: Corpus) -> TantivyWriter:
    index = TantivyWriter(folder)
    write(index, 0, 1, added=corpus.items())
    return index


def pairs(hits: Hits) -> list[tuple[int, float]]:
    return list(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True))


def word_score(corpus: Corpus, word: Sequence[Term], key: int) -> float:
    having = sum(any(term.text in terms for term in word) for terms in corpus.values())
    idf = math.log(1 + (len(corpus) - having + 0.5) / (having + 0.5))
    mean = sum(map(len, corpus.values())) / len(corpus)
    length = 1 - 0.75 + 0.75 * len(corpus[key]) / mean if mean else 1.0
    counted = [(term.weight, corpus[key].count(term.text)) for term in word]
    best = max(
        (weight * times * 2.2 / (times + 1.2 * length) for weight, times in counted), default=0
    )
    return idf * best


def score(corpus: Corpus, query: TextQuery, key: int) -> float:
    return sum(word_score(corpus, word, key) for word in query.words)


PETS = {
    1: ["cat", "sat", "mat"],
    2: ["cat", "cat"],
    3: ["dog"],
    4: ["hund", "и", "кошка", "cat_1"],
}


@pytest.fixture
def index(tmp_path: Path) -> TantivyWriter:
    """An index of PETS."""
    return made(tmp_path, PETS)


def found(index: TantivyWriter, *terms: str) -> list[int]:
    return [int(key) for key in search(index.snapshot, words(*terms), 5).keys]


def test_worked_example(index: TantivyWriter) -> None:
    # 4 chunks, 10 terms, mean length 2.5; "cat" is in 2 chunks: idf = ln(1 + 2.5 / 2.5) = ln 2
    # key 1: once in 3 terms, 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 2.5)) = 2.2 / 2.38
    # key 2: twice in 2 terms, 4.4 / (2 + 1.2 * (0.25 + 0.75 * 2 / 2.5)) = 4.4 / 3.02
    hits = search(index.snapshot, words("cat"), 10)
    assert hits.keys.tolist() == [2, 1]
    expected = [math.log(2) * 4.4 / 3.02, math.log(2) * 2.2 / 2.38]
    assert hits.scores == pytest.approx(expected, rel=1e-6)
    assert hits.keys.dtype == np.int64
    assert hits.scores.dtype == np.float32


def test_terms_are_taken_as_they_are(index: TantivyWriter) -> None:
    assert sorted(index.snapshot.vocabulary()) == sorted(
        {term for each in PETS.values() for term in each}
    )
    assert found(index, "кошка") == [4]
    assert found(index, "cat_1") == [4]
    assert found(index, "Cat", "1", "\ud800") == []


def test_a_repeated_word_counts_again(index: TantivyWriter) -> None:
    once = search(index.snapshot, words("dog"), 1).scores[0]
    assert search(index.snapshot, words("dog", "dog"), 1).scores[0] == pytest.approx(2 * once)


def test_nothing_is_asked_for(index: TantivyWriter, tmp_path: Path) -> None:
    assert len(search(index.snapshot, TextQuery(()), 5)) == 0
    assert len(search(index.snapshot, TextQuery(((),)), 5)) == 0
    assert len(search(index.snapshot, words("cat"), 0)) == 0
    assert len(search(index.snapshot, words("cat"), 5, allowed=FilterKeys(keys()))) == 0
    assert index.snapshot.scores(TextQuery(()), keys(1, 2)).tolist() == [0, 0]
    assert index.snapshot.scores(words("cat"), keys()).tolist() == []
    assert found(TantivyWriter(tmp_path / "empty"), "cat") == []


def test_scores_follow_the_keys(index: TantivyWriter) -> None:
    found = dict(pairs(search(index.snapshot, words("cat", "dog"), 5)))
    asked = keys(3, 99, 1, 4, 3, 2)
    assert index.snapshot.scores(words("cat", "dog"), asked).tolist() == [
        found[3], 0, found[1], 0, found[3], found[2]
    ]  # fmt: skip


def test_ties_go_by_key_also_at_the_cut(tmp_path: Path) -> None:
    index = TantivyWriter(tmp_path)
    for seq, first in enumerate((400, 0, 200), start=1):
        batch = {key: ["same"] for key in range(first + 200, first, -1)}
        write(index, seq - 1, seq, added=batch.items())
    for k in (1, 7, 250, 600, 10_000_000):
        assert search(index.snapshot, words("same"), k).keys.tolist() == list(
            range(1, min(k, 600) + 1)
        )
    even = np.arange(0, 600, 2)
    assert search(index.snapshot, words("same"), 9, allowed=FilterKeys(even)).keys.tolist() == list(
        range(2, 20, 2)
    )


corpora = st.dictionaries(
    st.integers(1, 2**62),
    st.lists(st.sampled_from("abcdeж"), max_size=40),
    min_size=1,
    max_size=60,
)
terms = st.builds(Term, st.sampled_from("abcdeжz"), st.sampled_from([0.5, 1.0, 2.0]))
queries = st.builds(TextQuery, st.lists(st.lists(terms, max_size=3).map(tuple)).map(tuple))


@pytest.mark.slow
@settings(max_examples=30)
@given(corpus=corpora, asked=st.lists(queries, min_size=1, max_size=8), data=st.data())
def test_any_search_is_the_full_search_cut_and_filtered(
    corpus: Corpus, asked: list[TextQuery], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = made(Path(folder), corpus)
        for query in asked:
            everything = pairs(search(index.snapshot, query, len(corpus)))
            expected = {key: score(corpus, query, key) for key in corpus}
            assert dict(everything) == pytest.approx(
                {key: value for key, value in expected.items() if value}, rel=1e-5
            )
            assert everything == sorted(everything, key=lambda pair: (-pair[1], pair[0]))
            some = data.draw(st.sets(st.sampled_from(sorted(corpus)) | st.integers(0, 99)))
            k = data.draw(st.integers(1, 70))
            found = search(index.snapshot, query, k, allowed=FilterKeys(keys(*sorted(some))))
            assert pairs(found) == [pair for pair in everything if pair[0] in some][:k]
            filled = index.snapshot.scores(query, keys(*corpus))
            assert filled.tolist() == [dict(everything).get(key, 0.0) for key in corpus]


@pytest.mark.slow
@pytest.mark.parametrize("size", [20, 400, 600, 3000])
def test_a_filter_against_the_ranking_loses_nothing(tmp_path: Path, size: int) -> None:
    # the allowed chunks are the longest ones, hence the last ones of 6000
    index = made(tmp_path, {key: ["x"] + ["y"] * (key // 200) for key in range(6000)})
    allowed = np.arange(6000 - size, 6000)
    everything = pairs(search(index.snapshot, words("x"), 6000))
    found = search(index.snapshot, words("x"), 15, allowed=FilterKeys(allowed))
    assert pairs(found) == [pair for pair in everything if pair[0] in allowed][:15]
    assert index.snapshot.scores(words("x"), allowed).tolist() == [
        dict(everything)[key] for key in allowed.tolist()
    ]


@pytest.mark.parametrize("size", [1, 400, 600, 1100])
def test_whole_documents_are_looked_for_instead_of_their_chunks(tmp_path: Path, size: int) -> None:
    index = TantivyWriter(tmp_path)
    corpus = {key: ["x"] + ["y"] * (key // 200) for key in range(6000)}
    owners = {key: 10_000 + key // 5 for key in corpus}
    write(index, 0, 1, added=corpus.items(), owners=owners)
    documents = np.arange(11_200 - size, 11_200)
    allowed = np.arange(6000 - 5 * size, 6000)
    everything = pairs(search(index.snapshot, words("x"), 6000))
    for k in (1, 15, 700):
        found = search(index.snapshot, words("x"), k, allowed=FilterKeys(allowed, documents))
        assert pairs(found) == [pair for pair in everything if pair[0] in allowed][:k]


def test_a_condition_alone_finds_by_key(tmp_path: Path) -> None:
    index = made(tmp_path, {key: ["same"] for key in range(1200, 0, -1)})
    query = TextQuery((), Prefix("s"))
    assert pairs(search(index.snapshot, query, 2)) == [(1, 0), (2, 0)]
    for size in (3, 700):
        allowed = FilterKeys(np.arange(1000 - size, 1000))
        found = search(index.snapshot, query, 2, allowed=allowed)
        assert found.keys.tolist() == [1000 - size, 1001 - size]


@pytest.mark.slow
def test_scores_do_not_depend_on_the_segments(tmp_path: Path) -> None:
    corpus = {key: [f"w{number % (key + 2)}" for number in range(key + 5)] for key in range(20)}
    whole = made(tmp_path / "whole", corpus)
    pieces = TantivyWriter(tmp_path / "pieces")
    for key, each in corpus.items():
        write(pieces, key, key + 1, added=[(key, each)])
    for query in (words("w1"), words("w0", "w3", "w7"), words("w19", "w2")):
        expected = search(whole.snapshot, query, 20)
        found = search(pieces.snapshot, query, 20)
        assert found.keys.tolist() == expected.keys.tolist()
        assert found.scores == pytest.approx(expected.scores, rel=1e-5)


def test_applying_again_changes_nothing(index: TantivyWriter) -> None:
    before = pairs(search(index.snapshot, words("cat", "dog"), 5))
    write(index, 0, 1, added=[(9, ["cat"])], removed=[1])
    assert pairs(search(index.snapshot, words("cat", "dog"), 5)) == before
    write(index, 1, 2, added=PETS.items())
    assert [key for key, _ in pairs(search(index.snapshot, words("cat", "dog"), 5))] == [
        key for key, _ in before
    ]
    assert index.snapshot.position.seq == 2


def test_removed_chunks_are_gone(index: TantivyWriter) -> None:
    write(index, 1, 5, added=[(2, ["bird"])], removed=[1, 77])
    assert found(index, "cat", "bird") == [2]
    assert index.snapshot.scores(words("cat"), keys(1, 2)).tolist() == [0, 0]
    assert sorted(index.snapshot.vocabulary()) == sorted(["bird", *PETS[3], *PETS[4]])
    asked = [*single_words(("cat", "bird", "dog", "z")), Word(("bird", "dog"))]
    assert [index.snapshot.document_frequency(word) for word in asked] == [0, 1, 1, 0, 2]
    assert (index.snapshot.dead, index.snapshot.total) == (2, 5)


@pytest.mark.parametrize(
    ("since", "seq", "hits"), [(2, 1, [2, 1]), (0, 3, [2, 9])], ids=["a gap", "an overlap"]
)
def test_changes_that_do_not_follow_on_are_left_out(
    index: TantivyWriter, since: int, seq: int, hits: list[int]
) -> None:
    write(index, since, 3, added=[(9, ["cat"])], removed=[1])
    assert index.snapshot.position.seq == seq
    assert sorted(found(index, "cat")) == sorted(hits)


def test_the_position_moves_without_changes_too(tmp_path: Path) -> None:
    assert TantivyWriter(tmp_path).snapshot.position.seq == 0
    index = made(tmp_path, PETS)
    for since, seq, removed in ((1, 8, ()), (8, 9, (1,))):
        write(index, since, seq, removed=removed)
        assert index.snapshot.position.seq == TantivyWriter(tmp_path).snapshot.position.seq == seq


def test_a_second_reader_sees_what_was_applied_when_it_looks(tmp_path: Path) -> None:
    reader = TantivyWriter(tmp_path)
    held = reader.snapshot
    made(tmp_path, PETS)
    assert (reader.snapshot.position.seq, len(search(reader.snapshot, words("cat"), 5))) == (0, 0)
    reader.reload_if_changed()
    assert (reader.snapshot.position.seq, len(search(reader.snapshot, words("cat"), 5))) == (1, 2)
    assert reader.snapshot is not held
    assert len(search(held, words("cat"), 5)) == 0
    held = reader.snapshot
    reader.reload_if_changed()
    assert reader.snapshot is held
