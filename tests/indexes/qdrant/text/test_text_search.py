"""Searches on a real server: exact results whatever the engine can express or approximates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from qdrant_client import grpc

from lagotto.filters import Contains, Eq, Filter, Gte
from lagotto.indexes.base import FilterKeys
from lagotto.indexes.qdrant import driver
from lagotto.indexes.qdrant import text as text_module
from lagotto.indexes.qdrant.driver import sparse_vector
from lagotto.indexes.qdrant.text import QdrantTextIndex, query_weights
from lagotto.indexes.remote import RemoteVectorIndex
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
)
from lagotto.testing.indexes import Fields, MemoryChangeLog, caught_up, text_oracle, unit_vector
from tests.indexes.qdrant.inside import own_site, text_index

WORDS = ["oak", "lake", "marsh", "dog", "hazel", "oaken"]
LAKE = TextQuery(((Term("lake"),),))


def colored_log(size: int = 200) -> MemoryChangeLog:
    """Chunks of which every fifth is red, and worse than the others for all queries here."""
    log = MemoryChangeLog()
    for number in range(size):
        red = number % 5 == 4
        words = " ".join(WORDS[number % 3 : number % 3 + 2] + ["dog"] * (9 if red else 0))
        vector = unit_vector(number)
        if (np.vecdot(vector, unit_vector(0)) > 0) == red:
            vector = -vector
        color = "deep red" if red else "deep blue"
        fields: Fields = {"color": (color,), "number": (number,)}
        log.add(words, vector, language="en", fields=fields)
    return log


@pytest.mark.parametrize(
    "where", [Eq("color", "deep red"), Contains("color", "red"), None, Gte("number", 3)]
)
async def test_k_results_whatever_the_engine_knows_of_the_filter(
    text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch, where: Filter | None
) -> None:
    monkeypatch.setattr(text_module, "MOST_KEYS_SENT", 2)
    monkeypatch.setattr(driver, "MOST_KEYS", 5)
    log = colored_log()
    allowed = FilterKeys(np.arange(5, 201, 5), where=where)
    query = TextQuery(((Term("oak"),), (Term("marsh"),)))
    snapshot = caught_up(text, log)
    for k in (1, 5, 40, 50):
        found = await snapshot.search(query, k=k, allowed=allowed)
        right = await text_oracle(log).search(query, k=k, allowed=allowed)
        assert found.keys.tolist() == right.keys.tolist()
        assert found.scores == pytest.approx(right.scores, rel=1e-5)


CONDITIONS: st.SearchStrategy[Match] = st.recursive(
    st.one_of(
        st.lists(st.sampled_from(WORDS), max_size=2).map(lambda some: Word(tuple(some))),
        st.sampled_from(["o", "oak", "la", "x"]).map(Prefix),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(
            lambda some: Phrase((tuple(some),))
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda parts: Every(tuple(parts))),
        st.lists(inner, max_size=2).map(lambda parts: Either(tuple(parts))),
        inner.map(Without),
    ),
    max_leaves=3,
)
QUERIES = st.builds(
    TextQuery,
    st.lists(
        st.lists(
            st.builds(Term, st.sampled_from([*WORDS, "none"]), st.sampled_from([0.5, 1.0])),
            min_size=1,
            max_size=2,
        ).map(tuple),
        max_size=3,
    ).map(tuple),
    st.none() | CONDITIONS,
)
CHUNKS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


@settings(
    max_examples=15,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    texts=st.lists(CHUNKS, min_size=1, max_size=12),
    later=st.lists(CHUNKS, max_size=12),
    queries=st.lists(QUERIES, min_size=1, max_size=5),
    k=st.integers(1, 8),
    data=st.data(),
)
async def test_text_is_exact_although_the_mean_length_has_drifted(
    qdrant_address: str,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    later: list[str],
    queries: list[TextQuery],
    k: int,
    data: st.DataObject,
) -> None:
    monkeypatch.setattr(text_module, "DRIFTED", (0.0, 1e9))  # never rebuilt
    log = MemoryChangeLog()
    for words in texts:
        log.add(words)
    with text_index(own_site(qdrant_address)) as index:
        assert index.catch_up(log) is not None
        for words in later:
            log.add(f"{words} {words} {words}")
        for key in data.draw(st.sets(st.integers(1, len(texts)), max_size=3)):
            log.remove(key)
        snapshot = caught_up(index, log)
        some = data.draw(st.sets(st.integers(1, len(texts) + len(later))))
        kept = np.array(sorted(some & log.chunks.keys()), np.int64)
        oracle = text_oracle(log)
        for query in queries:
            for allowed in (None, FilterKeys(kept)):
                found = await snapshot.search(query, k=k, allowed=allowed)
                right = await oracle.search(query, k=k, allowed=allowed)
                assert found.keys.tolist() == right.keys.tolist()
                assert found.scores == pytest.approx(right.scores, rel=1e-5)
            if query.where is not None:
                held = await snapshot.matching(query.where, kept)
                assert held.tolist() == (await oracle.matching(query.where, kept)).tolist()


async def test_the_mean_decides_which_chunks_are_best(
    text: QdrantTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order by products is another one than that by scores, so more than k must be read."""
    monkeypatch.setattr(text_module, "DRIFTED", (0.0, 1e9))
    log = MemoryChangeLog()
    for _ in range(3):
        log.add("dog")
    text.catch_up(log)
    for number in range(200):
        log.add(" ".join(["lake"] * 3 + ["marsh"] * (40 + number)), language="en")
        log.add(" ".join(["lake"] + ["marsh"] * (number // 8)), language="en")
    snapshot = caught_up(text, log)
    vector = grpc.VectorInput(sparse=sparse_vector(query_weights(LAKE.words, [1.0])))
    products = await text.qdrant.nearest(
        snapshot._state, vector, where=None, limit=10, collections=None
    )
    right = await text_oracle(log).search(LAKE, k=10, allowed=None)
    assert set(products.keys.tolist()) != set(right.keys.tolist())
    found = await snapshot.search(LAKE, k=10, allowed=None)
    assert found.keys.tolist() == right.keys.tolist()


async def test_what_the_record_does_not_have_is_never_shown(
    text: QdrantTextIndex, vectors: RemoteVectorIndex
) -> None:
    log = colored_log(20)
    nearest, matching = caught_up(vectors, log), caught_up(text, log)
    for key in (1, 4, 7):
        log.remove(key)
    found = await nearest.search(unit_vector(0), k=17, allowed=None)
    assert set(found.keys.tolist()) == log.chunks.keys()
    held = await matching.search(TextQuery(((Term("oak"),),)), k=17, allowed=None)
    assert set(held.keys.tolist()) == {10, 13, 16, 19}


async def test_the_order_of_words_is_read_from_the_record(text: QdrantTextIndex) -> None:
    log = MemoryChangeLog()
    for chunk in ("water dog", "dog water", "a water dog", "dog"):
        log.add(chunk)
    phrase = Phrase((("water", "dog"),))
    every = np.arange(1, 5)
    words: tuple[tuple[Term, ...], ...]
    snapshot = caught_up(text, log)
    assert (await snapshot.matching(phrase, every)).tolist() == [1, 3]
    assert (await snapshot.matching(Without(phrase), every)).tolist() == [2, 4]
    for words in ((), ((Term("dog"),),)):
        found = await snapshot.search(TextQuery(words, phrase), k=9, allowed=None)
        assert sorted(found.keys.tolist()) == [1, 3]


async def test_equal_scores_are_ordered_by_key(text: QdrantTextIndex) -> None:
    log = MemoryChangeLog()
    for _ in range(150):
        log.add("a lake", language="en")
    found = await caught_up(text, log).search(LAKE, k=7, allowed=None)
    assert found.keys.tolist() == [1, 2, 3, 4, 5, 6, 7]
