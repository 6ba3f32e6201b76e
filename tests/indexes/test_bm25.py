from __future__ import annotations

import math

import pytest

from lagotto.indexes.base import LogPosition
from lagotto.indexes.bm25 import AtPosition, CountedTerms, idf, repeated, term_weight
from lagotto.indexes.text_query import Term, TextQuery


def test_a_repeated_word_counts_more_and_less_each_time() -> None:
    # (8 + 1) * n / (8 + n)
    assert [repeated(times) for times in (1, 2, 4)] == [1.0, 1.8, 3.0]
    assert repeated(10**6) < 9


def test_idf() -> None:
    assert idf(2, count=4) == pytest.approx(math.log(2))
    assert idf(0, count=4) == pytest.approx(math.log(10))
    assert idf(4, count=4) > 0


def test_score_of_a_chunk() -> None:
    # 4 terms, mean 4: a term that occurs n times scores IDF * 2.2 n / (n + 1.2)
    words = ((Term("pot"), Term("pots", 0.5)), (Term("tea", 2.0),), (Term("milk"),))
    chunk = CountedTerms(["pot", "pots", "tea", "pots"], {"pot": 1, "pots": 2, "tea": 1})
    score = chunk.score(TextQuery(words), [3.0, 1.0, 9.0], mean=4.0)
    assert score == pytest.approx(max(3.0, 0.5 * 3.0 * 4.4 / 3.2) + 2.0)
    assert term_weight(1.0, 4.0, mean=4.0, idf=3.0) == pytest.approx(3.0)


def test_what_was_made_of_a_state_is_made_once() -> None:
    known, made = AtPosition[int](), iter(range(9))
    here, there = LogPosition(1, 7), LogPosition(2, 8)
    assert known.ready(here) is None
    assert [known.at(here, lambda: next(made)) for _ in range(2)] == [0, 0]
    assert (known.ready(here), known.ready(there)) == (0, None)
    assert known.at(there, lambda: next(made)) == 1
