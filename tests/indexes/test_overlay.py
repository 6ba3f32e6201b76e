"""An index that lags answers, with what the record has besides, as one that does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagotto.indexes import overlay
from lagotto.indexes.base import START, ChunkKeys, FilterKeys, Hits, LogPosition, TextSnapshot
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.overlay import EmptyIndex, NewerChunks, OverlayText, OverlayVectors
from lagotto.indexes.tantivy.index import TantivyIndex
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, single_words
from lagotto.testing.indexes import (
    CONDITIONS,
    DIMENSION,
    QUERIES,
    TEXTS,
    MemoryChangeLog,
    TextIndexContract,
    caught_up,
    embedded_site,
    sample_log,
    scores_by_key,
    text_oracle,
    unit_vector,
    vector_oracle,
)
from lagotto.testing.stores import ALTERNATIVES, MATCHES
from lagotto.testing.stores import TEXTS as RANDOM_TEXTS


def changed(log: MemoryChangeLog, changes: list[tuple[str, int]]) -> None:
    """Add texts, and remove one in three, whichever there are then."""
    for text, number in changes:
        if number % 3 == 0 and log.chunks:
            log.remove(sorted(log.chunks)[number % len(log.chunks)])
        else:
            log.add(text, unit_vector(number))


CHANGES = st.lists(st.tuples(RANDOM_TEXTS, st.integers(0, 50)), max_size=12)


def newer_than(log: MemoryChangeLog, position: LogPosition) -> NewerChunks:
    return extended(NewerChunks(position, position), log, position)


def extended(newer: NewerChunks, log: MemoryChangeLog, position: LogPosition) -> NewerChunks:
    later = newer.extended(log, since=position)
    assert later is not None
    return later


def overlaid(index: TextSnapshot, log: MemoryChangeLog) -> OverlayText:
    return OverlayText(index, newer_than(log, index.position))


@pytest.fixture
def tantivy(tmp_path: Path) -> TantivyIndex:
    return TantivyIndex(embedded_site(tmp_path / "kb.db.index"))


def keys_of(log: MemoryChangeLog, every: int) -> ChunkKeys:
    return np.array(sorted(log.chunks)[::every], np.int64)


@settings(max_examples=300, deadline=None)
@given(CHANGES, CHANGES, ALTERNATIVES, st.none() | MATCHES, st.integers(1, 5), st.integers(1, 3))
async def test_the_same_chunks_are_found(
    before: list[tuple[str, int]],
    after: list[tuple[str, int]],
    words: tuple[tuple[Term, ...], ...],
    where: Match | None,
    k: int,
    every: int,
) -> None:
    log = MemoryChangeLog()
    changed(log, before)
    index = text_oracle(log)
    changed(log, after)
    united = overlaid(index, log)
    oracle = text_oracle(log)
    query = TextQuery(words, where)
    for allowed in (None, FilterKeys(keys_of(log, every))):
        right = await oracle.search(query, k=99, allowed=allowed)
        found = await united.search(query, k=99, allowed=allowed)
        assert set(found.keys.tolist()) == set(right.keys.tolist())
        assert len(await united.search(query, k=k, allowed=allowed)) == min(k, len(right))
    alone = OverlayText(EmptyIndex(), newer_than(log, START))
    exact = await alone.search(query, k=99, allowed=allowed)
    assert scores_by_key(exact) == pytest.approx(scores_by_key(right), rel=1e-5)
    asked = [Word(tuple(term.text for term in word)) for word in words]
    assert await united.frequencies(asked) == await oracle.frequencies(asked)
    assert (await united.statistics()).chunks == len(log.chunks)
    everything = keys_of(log, 1)
    scores = scores_by_key(found)
    again = await united.scores(query, everything)
    for key, score in zip(everything.tolist(), again.tolist(), strict=True):
        assert score == pytest.approx(scores.get(key, score), rel=1e-5)
    if where is not None:
        held = await united.matching(where, everything)
        assert held.tolist() == (await oracle.matching(where, everything)).tolist()


@settings(max_examples=200, deadline=None)
@given(CHANGES, CHANGES, st.integers(0, 50), st.integers(1, 5), st.integers(1, 3))
async def test_the_same_neighbours_with_the_same_scores(
    before: list[tuple[str, int]],
    after: list[tuple[str, int]],
    seed: int,
    k: int,
    every: int,
) -> None:
    log = MemoryChangeLog()
    changed(log, before)
    index = vector_oracle(log)
    changed(log, after)
    united = OverlayVectors(index, log, model_id="m", dimension=DIMENSION)
    oracle = vector_oracle(log)
    query = unit_vector(seed)
    for allowed in (None, FilterKeys(keys_of(log, every))):
        found = await united.search(query, k=k, allowed=allowed)
        right = await oracle.search(query, k=k, allowed=allowed)
        assert found.keys.tolist() == right.keys.tolist()
        np.testing.assert_allclose(found.scores, right.scores, atol=1e-6)
    everything = keys_of(log, 1)
    np.testing.assert_allclose(
        await united.scores(query, everything), await oracle.scores(query, everything)
    )


async def test_a_tantivy_index_that_lags(tantivy: TantivyIndex) -> None:
    log = sample_log()
    gone = log.add("a zeppelin", language="en")
    index = caught_up(tantivy, log)
    log.remove(gone)
    key = log.add("a brand new truffle lake with otters", language="en")
    log.remove(1)
    log.remove(4)
    united, oracle = overlaid(index, log), text_oracle(log)
    assert united.position == log.head
    for query in (*QUERIES, TextQuery(((Term("otter"),), (Term("lake"),)))):
        right = await oracle.search(query, k=99, allowed=None)
        found = await united.search(query, k=99, allowed=None)
        assert set(found.keys.tolist()) == set(right.keys.tolist())
    everything = keys_of(log, 1)
    for match in CONDITIONS:
        held = await united.matching(match, everything)
        assert held.tolist() == (await oracle.matching(match, everything)).tolist()
    asked = [*single_words(["lake", "otter", "dog"]), Word(("otter", "dog"))]
    assert await united.frequencies(asked) == [2, 1, 1, 2]
    assert (await united.matching(Word(("otter",)), everything)).tolist() == [key]
    (meant,) = await united.alike(["oter"], Likeness())
    assert meant[0].text == "otter"
    assert await united.alike(["zepelin"], Likeness()) == [()]
    ((*others,),) = await united.alike(["otter"], Likeness())
    assert "otter" not in {term.text for term in others}
    ((alike, *_),) = await united.alike(["otter"], Likeness(0.3))
    assert alike == Term("otter", 1.0)


class TestEverythingIsNewer(TextIndexContract):
    """An united over nothing is a text index by itself."""

    tolerance = 1e-5

    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        united = OverlayText(EmptyIndex(), newer_than(log, EmptyIndex.position))
        yield united, {key: key for key in log.chunks}


def test_how_much_may_be_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """New chunks are analysed, removals only noted."""
    log = sample_log()
    monkeypatch.setattr(overlay, "MOST_CHUNKS", len(TEXTS))
    assert overlay.is_short(log, since=START)
    log.remove(1)
    assert overlay.is_short(log, since=START)
    for text in ("one more", "another", "and another"):
        log.add(text, language="en")
    assert not overlay.is_short(log, since=START)
    assert overlay.is_short(log, since=LogPosition(3, log.token_at(3) or 0))


def test_an_overlay_may_grow_a_few_chunks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is made again takes long: meanwhile each search reads what is new."""
    monkeypatch.setattr(overlay, "MOST_CHUNKS", 2)
    monkeypatch.setattr(overlay, "MOST_KEPT", 5)
    log = MemoryChangeLog()
    newer = NewerChunks(START, START)
    for number in range(5):
        log.add(f"text {number}", language="en")
        newer = extended(newer, log, START)
    assert len(newer.chunks) == 5
    assert NewerChunks(START, START).extended(log, since=START) is None
    for text in ("one too many", "another"):
        log.add(text, language="en")
    assert newer.extended(log, since=START) is None


@settings(max_examples=200, deadline=None)
@given(CHANGES, st.lists(st.tuples(CHANGES, st.booleans()), max_size=4))
def test_what_is_newer_is_extended(
    before: list[tuple[str, int]], steps: list[tuple[list[tuple[str, int]], bool]]
) -> None:
    """Step by step, while the index now and then catches up: the same as read at once."""
    log = MemoryChangeLog()
    changed(log, before)
    position = log.head
    newer = newer_than(log, position)
    for changes, catches_up in steps:
        changed(log, changes)
        newer = extended(newer, log, position)
        right = newer_than(log, position)
        assert newer.chunks == right.chunks
        assert newer.removed.tolist() == right.removed.tolist()
        assert newer.head == log.head
        position = log.head if catches_up else position


async def test_scores_do_not_depend_on_the_lag(tantivy: TantivyIndex) -> None:
    """A tantivy index with an overlay scores as one that has caught up, but for the mean length."""
    log = MemoryChangeLog()
    for number in range(300):
        log.add(f"{TEXTS[number % len(TEXTS)]} w{number % 30}x", language="en")
    index = caught_up(tantivy, log)
    for number in range(60):
        log.add(f"{TEXTS[number % len(TEXTS)]} w{number % 3}x", language="en")
    united, whole = overlaid(index, log), caught_up(tantivy, log)
    for query in (*QUERIES, TextQuery(((Term("w1x"),), (Term("w7x"), Term("lake", 0.5))))):
        right = await whole.search(query, k=400, allowed=None)
        found = await united.search(query, k=400, allowed=None)
        assert scores_by_key(found) == pytest.approx(scores_by_key(right), rel=2e-3)


async def test_the_best_are_found_behind_many_removed_ones() -> None:
    log = MemoryChangeLog()
    for number in range(200):
        log.add("lake " * (200 - number) + "x" * number, language="en")
    index = text_oracle(log)
    for key in range(1, 191):
        log.remove(key)
    united = overlaid(index, log)
    query = TextQuery(((Term("lake"),),))
    found = await united.search(query, k=3, allowed=None)
    right = await text_oracle(log).search(query, k=3, allowed=None)
    assert found.keys.tolist() == right.keys.tolist()


async def test_rare_words_are_counted_however_much_was_removed(
    monkeypatch: pytest.MonkeyPatch, tantivy: TantivyIndex
) -> None:
    """An estimate would leave them all of their chunks; a common word may be estimated."""
    monkeypatch.setattr(overlay, "MOST_COUNTED", 3)
    log = MemoryChangeLog()
    for number in range(40):
        log.add("lake otter" if number in (2, 5, 30) else "lake", language="en")
    index = caught_up(tantivy, log)
    for key in range(1, 11):
        log.remove(key)
    newer = newer_than(log, index.position)
    asked = [Word(("otter",)), Word(("lake",)), Word(("otter", "otters"))]
    for _ in range(2):  # the second time as they were counted
        assert await OverlayText(index, newer).frequencies(asked) == [1, 30, 1]


@pytest.mark.parametrize("terms", [1, 40, 41, 42, 55, 56, 59, 60, 88, 95, 1_000, 123_456])
async def test_lengths_are_those_that_tantivy_stores(terms: int, tantivy: TantivyIndex) -> None:
    log = MemoryChangeLog()
    log.add("lake " + "x " * (terms - 1), language=None)
    log.add("dog", language=None)
    snapshot = caught_up(tantivy, log)
    known = await snapshot.statistics()
    assert known.mean_length == pytest.approx((terms + 1) / 2)
    (score,) = await snapshot.scores(TextQuery(((Term("lake"),),)), np.array([1]))
    length = float(known.stored_length(terms))
    right = term_weight(1.0, length, mean=(terms + 1) / 2, idf=idf(1, count=2))
    assert score == pytest.approx(right, rel=1e-5)


def test_lengths_are_those_of_each_index() -> None:
    newer = newer_than(sample_log(), START)
    exact, others = (
        newer.scores(QUERIES[0], [1.0], mean=1.0, stored=stored) for stored in (int, lambda _: 99)
    )
    assert others.any()
    assert np.all((others < exact) == (exact > 0))


@pytest.mark.parametrize("batch", [1, 3, 5_000])
async def test_vectors_of_the_record(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """Of any keys, those that the record does not have included; the best of some, and of all."""
    monkeypatch.setattr(overlay, "VECTORS_PER_READ", batch)
    log, query = sample_log(), unit_vector(100)
    log.remove(3)
    record = overlay.RecordVectors(log, model_id="m", dimension=DIMENSION)
    oracle = vector_oracle(log)
    keys = np.array([7, 3, 2, 99, 5, 2])
    scores = await record.scores(query, keys)
    assert scores.tolist() == (await oracle.scores(query, keys)).tolist()
    assert scores[1] == scores[3] == 0.0
    assert (await record.scores(query, keys[:0])).tolist() == []
    right = await oracle.search(query, k=9, allowed=FilterKeys(np.array([2, 5, 7])))
    for k in (1, 2, 3, 9):
        assert same(await record.best(query, keys, k=k), right[:k])
    right = await oracle.search(query, k=9, allowed=FilterKeys(np.array([1, 2, 4, 5])))
    assert same(await record.best_of_all(query, k=9, last=5), right)
    nothing = overlay.RecordVectors(MemoryChangeLog(), model_id="m", dimension=DIMENSION)
    assert (await nothing.scores(query, keys)).tolist() == [0.0] * 6


def same(one: Hits, other: Hits) -> bool:
    return scores_by_key(one) == scores_by_key(other) and one.keys.tolist() == other.keys.tolist()
