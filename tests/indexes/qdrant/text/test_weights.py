"""The product of sparse vectors, times the bound, is never below the exact BM25 score."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.bm25 import CountedTerms
from lagotto.indexes.qdrant import text
from lagotto.indexes.qdrant.text import ROUNDING, chunk_weights, query_weights, score_bound
from lagotto.indexes.text_query import Term, TextQuery

CHUNKS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60)
WORDS = st.lists(
    st.lists(
        st.builds(Term, st.sampled_from("abcdefghij"), st.floats(0.01, 2)), min_size=1, max_size=3
    ).map(tuple),
    min_size=1,
    max_size=5,
)
MEANS = st.floats(1, 80)


def product(one: dict[int, float], other: dict[int, float]) -> float:
    return sum(weight * other.get(index, 0.0) for index, weight in one.items())


@given(CHUNKS, WORDS, MEANS, MEANS, st.data())
def test_the_bound(
    terms: list[str], words: list[tuple[Term, ...]], mean: float, fixed: float, data: st.DataObject
) -> None:
    idfs = [data.draw(st.floats(0.01, 10)) for _ in words]
    counts, length = Counter(terms), len(terms)
    exact = CountedTerms(terms, counts).score(TextQuery(tuple(words)), idfs, mean=mean)
    stored = chunk_weights(counts, length=length, mean=fixed)
    bound = score_bound(longest=length, mean=mean, fixed_mean=fixed)
    assert exact <= bound * product(query_weights(words, idfs), stored)


def test_the_bound_is_tight() -> None:
    terms = ["a", *["b"] * 99]
    counts, words, idfs = Counter(terms), ((Term("a"),),), [2.0]
    exact = CountedTerms(terms, counts).score(TextQuery(words), idfs, mean=120.0)
    stored = chunk_weights(counts, length=100, mean=100.0)
    bound = score_bound(longest=100, mean=120.0, fixed_mean=100.0)
    assert exact == pytest.approx(
        bound / ROUNDING * product(query_weights(words, idfs), stored), rel=1e-5
    )
    assert bound < 1.2


def test_terms_that_share_a_dimension_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "dimension_of", lambda _: 7)
    alone = chunk_weights({"a": 1}, length=2, mean=2.0)
    both = chunk_weights({"a": 1, "b": 1}, length=2, mean=2.0)
    assert both == pytest.approx({7: 2 * alone[7]})
