"""Leaving frequent words to the end finds the same chunks as scoring all of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.base import FilterKeys, LogPosition
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.stores.postgres.text_index.postings import RECORD, Postings
from lagotto.stores.postgres.text_index.search import PostingsText, Statistics
from lagotto.stores.postgres.transaction import ReadTransaction

CHUNKS = 400
MEAN = 50.0


class GivenPostings:
    """Reads postings that are given."""

    def __init__(self, postings: dict[str, Postings]) -> None:
        self._postings = postings

    async def rows(self, _: str, asked: dict[str, Any]) -> list[tuple[str, bytes]]:
        return [(term, self._postings[term].tobytes()) for term in asked["terms"]]


def random_postings(share: float, seed: int) -> Postings:
    """The postings of a term that a share of the chunks holds."""
    chance = np.random.default_rng(seed)
    keys = np.flatnonzero(chance.random(CHUNKS + 1) < share)
    postings = np.empty(len(keys), RECORD)
    postings["key"] = keys
    postings["count"] = chance.integers(1, 6, len(keys))
    postings["length"] = chance.integers(5, 100, len(keys))
    return postings


def text_of(postings: dict[str, Postings]) -> PostingsText:
    known = Statistics(CHUNKS, CHUNKS, int(CHUNKS * MEAN), np.zeros(0, np.int64))
    reader = cast("ReadTransaction", GivenPostings(postings))
    return PostingsText(reader, known, LogPosition(CHUNKS, 0))


def all_scores(query: TextQuery, postings: dict[str, Postings]) -> dict[int, float]:
    """The score of every chunk that holds a word."""
    found: dict[int, float] = {}
    for word in query.words:
        holding = np.unique(np.concatenate([[], *(postings[term.text]["key"] for term in word)]))
        whole = idf(len(holding), count=CHUNKS)
        best: dict[int, float] = {}
        for term in word:
            for key, count, length in postings[term.text].tolist():
                score = term.weight * term_weight(float(count), float(length), mean=MEAN, idf=whole)
                best[key] = max(best.get(key, 0.0), score)
        for key, score in best.items():
            found[key] = found.get(key, 0.0) + score
    return found


words = st.lists(
    st.lists(
        st.tuples(st.sampled_from([0.005, 0.02, 0.1, 0.5, 0.95]), st.integers(0, 9)),
        max_size=2,
    ),
    min_size=1,
    max_size=6,
)


@given(words=words, k=st.integers(1, 30), every=st.sampled_from([None, 2, 7]))
async def test_the_best_are_those_of_a_full_count(
    words: list[list[tuple[float, int]]], k: int, every: int | None
) -> None:
    postings = {
        f"{share}/{seed}": random_postings(share, seed) for word in words for share, seed in word
    }
    query = TextQuery(
        tuple(
            tuple(
                Term(f"{share}/{seed}", 1.0 / (1 + place))
                for place, (share, seed) in enumerate(word)
            )
            for word in words
        )
    )
    keys = np.arange(CHUNKS + 1) if every is None else np.arange(0, CHUNKS + 1, every)
    text = text_of(postings)
    found = await text.search(query, k=k, allowed=None if every is None else FilterKeys(keys))
    right = all_scores(query, postings)
    seen = [key for key in right if key in set(keys.tolist())]
    expected = sorted((right[key] for key in seen), reverse=True)[:k]
    assert found.scores == pytest.approx(expected, rel=1e-6)
    assert found.scores == pytest.approx([right[key] for key in found.keys.tolist()], rel=1e-6)
    assert set(found.keys.tolist()) <= set(seen)
    some = np.array(sorted(right)[:20], np.int64)
    given = await text.scores(query, some)
    assert given == pytest.approx([right[key] for key in some.tolist()], rel=1e-6)


async def test_frequent_words_are_not_scored_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    postings = {"rare": random_postings(0.1, 1), "common": random_postings(0.95, 2)}
    scored = []
    usual = PostingsText._term_scores

    def counted(self: PostingsText, *arguments: Any) -> Any:
        keys, scores = usual(self, *arguments)
        scored.append(len(keys))
        return keys, scores

    monkeypatch.setattr(PostingsText, "_term_scores", counted)
    query = TextQuery(((Term("common"),), (Term("rare"),)))
    await text_of(postings).search(query, k=5, allowed=None)
    assert scored[0] == len(postings["rare"])
    assert scored[1] <= len(postings["rare"])
