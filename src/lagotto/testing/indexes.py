"""Contracts of text and vector indexes, for implementations to inherit.

A subclass supplies a snapshot of an index that holds all that a MemoryChangeLog has, with the keys
that the index has for the log's (an index inside a database numbers chunks itself). An index that
follows a log inherits the `Following…` contract as well, and supplies the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lagotto.documents import Document, Vector
from lagotto.filters import In
from lagotto.indexes.base import (
    START,
    ChangeLog,
    ChunkKeys,
    FilterKeys,
    TextIndex,
    TextSnapshot,
    VectorIndex,
    VectorSnapshot,
)
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.hits import Hits
from lagotto.indexes.registry import IndexSite
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
    single_words,
)
from lagotto.stores.base import Store, View
from lagotto.terms import index_terms
from lagotto.testing.change_log import MemoryChangeLog, MemoryText, MemoryVectors
from lagotto.testing.store_samples import entry

DIMENSION = 8
TEXTS = (
    "the water dog finds truffles",
    "a dog and a dog and a dog",
    "oak roots and hazel roots",
    "water in the lake",
    "truffles grow on the roots of oak",
    "the marsh",
    "a lake and a marsh and water",
    "hazel",
)
QUERIES: tuple[TextQuery, ...] = (
    TextQuery(((Term("dog"),),)),
    TextQuery(((Term("water"),), (Term("lake"),))),
    TextQuery(((Term("root"), Term("marsh", 0.5)), (Term("oak"),))),
    TextQuery(((Term("nowhere"),),)),
    TextQuery(((Term("water"),),), where=Word(("lake", "dog"))),
    TextQuery((), where=Prefix("ha")),
)
CONDITIONS: tuple[Match, ...] = (
    Word(("water", "oak")),
    Prefix("truf"),
    Phrase((("water", "dog"), ("in", "the", "lake"))),
    Every((Word(("water",)), Without(Word(("dog",))))),
    Either((Word(("hazel",)), Word(("marsh",)))),
)


def embedded_site(folder: Path) -> IndexSite:
    """The site of an index that keeps its files in a folder."""
    return IndexSite("a" * 32, timeout=1, indexes=IndexFolder(folder, "a" * 32))


def unit_vector(seed: int) -> Vector:
    """A float32 unit vector that depends on nothing but the seed."""
    row = np.random.default_rng(seed).standard_normal(DIMENSION)
    vector: Vector = (row / np.linalg.norm(row)).astype(np.float32)
    return vector


def sample_log(texts: tuple[str, ...] = TEXTS) -> MemoryChangeLog:
    """A log of a few chunks."""
    log = MemoryChangeLog()
    for number, text in enumerate(texts):
        log.add(text, unit_vector(number), language="en")
    return log


def translated(hits: Hits, keys: Mapping[int, int]) -> dict[int, float]:
    """Scores by the keys of the log."""
    own = {theirs: ours for ours, theirs in keys.items()}
    return {own[key]: score for key, score in zip(hits.keys.tolist(), hits.scores, strict=True)}


def _array(keys: list[int]) -> ChunkKeys:
    return np.array(sorted(keys), np.int64)


def _sorted(hits: Hits) -> bool:
    order = np.lexsort((hits.keys, -hits.scores))
    return bool(np.array_equal(order, np.arange(len(hits))))


def _check_that_is_ahead(
    index: TextIndex[ChangeLog] | VectorIndex[ChangeLog],
    log: MemoryChangeLog,
    older: MemoryChangeLog,
) -> None:
    """An index of a log does not serve an older state of it, until it is built again."""
    assert index.follow(log) is not None
    assert index.follow(older) is None
    index.discard(log.head)
    again = index.follow(older)
    assert again is not None
    assert again.indexed_up_to == older.head


class TextIndexContract:
    """What every TextSnapshot answers; scores are compared with the oracle's."""

    tolerance = 1e-4

    def snapshot(
        self, log: MemoryChangeLog
    ) -> AbstractAsyncContextManager[tuple[TextSnapshot, Mapping[int, int]]]:
        """A snapshot of an index with all that a log has, and its keys by the log's."""
        raise NotImplementedError

    @pytest.mark.parametrize("query", QUERIES)
    async def test_search_and_scores(self, query: TextQuery) -> None:
        log = sample_log()
        right = await MemoryText(log).search(query, k=99, allowed=None)
        async with self.snapshot(log) as (index, keys):
            found = await index.search(query, k=99, allowed=None)
            assert _sorted(found)
            scores = dict(zip(right.keys.tolist(), right.scores.tolist(), strict=True))
            assert translated(found, keys) == pytest.approx(scores, rel=self.tolerance)
            everything = _array(list(keys.values()))
            filled = Hits(everything, await index.scores(query, everything))
            zeros = dict.fromkeys(keys, 0.0)
            assert translated(filled, keys) == pytest.approx(zeros | scores, rel=self.tolerance)

    @pytest.mark.parametrize("k", [0, 1, 2, 3])
    async def test_k_results_whenever_k_match(self, k: int) -> None:
        log = sample_log()
        query = QUERIES[1]
        everything = await MemoryText(log).search(query, k=99, allowed=None)
        async with self.snapshot(log) as (index, keys):
            for kept in (everything.keys, everything.keys[1:], everything.keys[:1]):
                allowed = FilterKeys(_array([keys[key] for key in kept.tolist()]))
                found = await index.search(query, k=k, allowed=allowed)
                assert len(found) == min(k, len(kept))
                assert translated(found, keys).keys() <= set(kept.tolist())
            assert not len(await index.search(query, k=9, allowed=FilterKeys(_array([]))))

    @pytest.mark.parametrize("match", CONDITIONS)
    async def test_matching(self, match: Match) -> None:
        log = sample_log()
        right = await MemoryText(log).matching(match, _array(list(log.chunks)))
        async with self.snapshot(log) as (index, keys):
            everything = _array(list(keys.values()))
            found = await index.matching(match, everything)
            assert found.tolist() == sorted(keys[key] for key in right.tolist())
            few = everything[::2]
            assert set((await index.matching(match, few)).tolist()) == set(found) & set(few)

    async def test_statistics_and_terms(self) -> None:
        log = sample_log()
        oracle = MemoryText(log)
        terms = sorted({term for text in TEXTS for term in index_terms(text, "en")})
        async with self.snapshot(log) as (index, _):
            asked = [*single_words([*terms, "nowhere"]), Word(("lake", "water", "water")), Word(())]
            assert await index.frequencies(asked) == await oracle.frequencies(asked)
            known = await index.statistics()
            assert known.chunks == len(TEXTS)
            if known.mean_length is not None:
                assert known.mean_length == pytest.approx(oracle._mean)
            (dog, mispelt) = await index.corrections(["dog", "truffel"])
            assert not dog
            assert "truffl" in {term.text for term in mispelt}
            ((best, *_),) = await index.similar(["water"], threshold=0.3)
            assert best == Term("water", 1.0)

    async def test_removed_chunks_are_gone(self) -> None:
        log = sample_log()
        for key in (2, 4):
            log.remove(key)
        async with self.snapshot(log) as (index, keys):
            for query in QUERIES:
                right = await MemoryText(log).search(query, k=99, allowed=None)
                found = await index.search(query, k=99, allowed=None)
                assert translated(found, keys).keys() == set(right.keys.tolist())
            assert (await index.statistics()).chunks == len(TEXTS) - 2
            asked = [Word(("dog",)), Word(("lake",)), Word(("dog", "lake"))]
            assert await index.frequencies(asked) == [1, 1, 2]

    async def test_nothing_at_all(self) -> None:
        async with self.snapshot(MemoryChangeLog()) as (index, _):
            for query in QUERIES:
                assert not len(await index.search(query, k=9, allowed=None))
            assert await index.frequencies([Word(("dog",)), Word(("dog", "lake"))]) == [0, 0]


async def replay(log: MemoryChangeLog, store: Store) -> None:
    """Do to a store what was done to a log: a document of one chunk for each of its chunks."""
    for key, (chunk, vector) in log.added.items():
        document = Document(id=str(key), text=chunk.text, language=chunk.language)
        made = await entry(document)
        await store.write([replace(made, vectors=np.array([vector]), model_id="m")])
    if gone := [str(key) for key in log.added if key not in log.chunks]:
        await store.delete(In("document_id", gone))


async def stored_keys(log: MemoryChangeLog, view: View) -> dict[int, int]:
    """The keys that a store has for those of a log, after `replay`."""
    if not log.chunks:
        return {}
    names = {key: ("default", str(key)) for key in log.chunks}
    found = await view.stored(list(names.values()))
    return {key: int(found[name].keys[0]) for key, name in names.items()}


class FollowingTextContract:
    """What a TextIndex does that follows a change log."""

    def index(self) -> AbstractContextManager[TextIndex[ChangeLog]]:
        """An index whose files last as long as the context; a second one in it shares them."""
        raise NotImplementedError

    async def test_it_follows(self) -> None:
        log = sample_log(TEXTS[:3])
        with self.index() as index:
            first = index.follow(log.fork())  # a snapshot may read the record as it was then
            log.add("another lake", language="en")
            log.remove(1)
            second = index.follow(log)
            assert first is not None
            assert second is not None
            assert first.indexed_up_to.number == index.indexed_up_to(log) - 2
            assert second.indexed_up_to == index.position == log.head
            found = await second.search(QUERIES[1], k=9, allowed=None)
            assert found.keys.tolist() == [4]
            before = await first.search(QUERIES[1], k=9, allowed=None)
            assert before.keys.tolist() == [1]

    async def test_an_index_that_is_ahead(self) -> None:
        log = sample_log(TEXTS[:3])
        older = log.fork()
        log.add("lake")
        with self.index() as index:
            _check_that_is_ahead(index, log, older)

    @pytest.mark.parametrize("longer", [False, True])
    async def test_another_history_is_never_served(self, longer: bool) -> None:
        ours = sample_log(TEXTS[:3])
        theirs = ours.fork()
        ours.add("our own lake", language="en")
        theirs.add("their own marsh", language="en")
        if longer:
            theirs.add("a hazel", language="en")
        with self.index() as index:
            assert index.follow(ours) is not None
            assert index.indexed_up_to(theirs) == 0
            assert index.check(theirs).level == "note"
            followed = index.follow(theirs)
            assert followed is not None
            assert followed.indexed_up_to == theirs.head
            assert await followed.frequencies(single_words(["lake", "marsh"])) == [0, 1]

    async def test_what_it_has_is_read_again(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.follow(log) is not None
            index.close()
            latest = index.latest(log)
            assert latest is not None
            assert latest.indexed_up_to == log.head
            assert await latest.frequencies([Word(("dog",))]) == [2]
            assert index.check(log).level == "ok"

    async def test_it_is_searched_while_it_lags_or_is_tidied(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.latest(log) is None
            former = index.follow(log)
            assert former is not None
            log.add("a new lake", language="en")
            for key in range(1, len(TEXTS)):
                log.remove(key)
            latest = index.latest(log)
            assert latest is not None
            assert latest.indexed_up_to == former.indexed_up_to
            assert index.follow(log) is not None
            index.tidy(log)
            tidied = index.latest(log)
            assert tidied is not None
            assert tidied.indexed_up_to == log.head
            found = await tidied.search(QUERIES[1], k=9, allowed=None)
            assert found.keys.tolist() == [len(TEXTS) + 1]
            assert index.check(log).level == "ok"


class VectorIndexContract:
    """What every VectorSnapshot answers: exact cosines, also through filters."""

    def snapshot(
        self, log: MemoryChangeLog
    ) -> AbstractAsyncContextManager[tuple[VectorSnapshot, Mapping[int, int]]]:
        """A snapshot of an index with all that a log has, and its keys by the log's."""
        raise NotImplementedError

    @pytest.mark.parametrize("k", [1, 3, 99])
    @pytest.mark.parametrize("seed", [100, 101])
    async def test_nearest(self, k: int, seed: int) -> None:
        log, query = sample_log(), unit_vector(seed)
        log.remove(3)
        right = await MemoryVectors(log).search(query, k=k, allowed=None)
        async with self.snapshot(log) as (index, keys):
            found = await index.search(query, k=k, allowed=None)
            assert _sorted(found)
            expected = dict(zip(right.keys.tolist(), right.scores.tolist(), strict=True))
            assert translated(found, keys) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("kept", [(), (1,), (2, 5, 8), (1, 2, 3, 4, 5, 6, 7, 8)])
    async def test_k_results_whenever_k_are_allowed(self, kept: tuple[int, ...]) -> None:
        log = sample_log()
        async with self.snapshot(log) as (index, keys):
            allowed = FilterKeys(_array([keys[key] for key in kept]))
            for k in (1, 2, 9):
                found = await index.search(unit_vector(100), k=k, allowed=allowed)
                assert len(found) == min(k, len(kept))
                assert translated(found, keys).keys() <= set(kept)

    async def test_scores_of_any_chunk(self) -> None:
        log, query = sample_log(), unit_vector(7)
        async with self.snapshot(log) as (index, keys):
            wanted = _array(list(keys.values()))[::-1]
            scores: NDArray[np.float32] = await index.scores(query, wanted)
            found = await index.search(query, k=99, allowed=None)
            assert translated(Hits(wanted, scores), keys) == translated(found, keys)
            assert scores.max() == pytest.approx(1.0)


class FollowingVectorContract:
    """What a VectorIndex does that follows a change log."""

    def index(self) -> AbstractContextManager[VectorIndex[ChangeLog]]:
        """An index of dimension DIMENSION for the model "m"."""
        raise NotImplementedError

    async def test_it_follows(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.position == START
            first = index.follow(log.fork())  # a snapshot may read the record as it was then
            log.add("new", unit_vector(50))
            log.remove(2)
            second = index.follow(log)
            assert first is not None
            assert second is not None
            assert second.indexed_up_to == index.position == log.head
            found = await second.search(unit_vector(50), k=99, allowed=None)
            assert found.keys.tolist()[0] == len(TEXTS) + 1
            assert 2 not in found.keys.tolist()
            before = await first.search(unit_vector(1), k=1, allowed=None)
            assert before.keys.tolist() == [2]

    async def test_what_it_has_is_searched_while_it_lags(self) -> None:
        log = sample_log()
        with self.index() as index:
            former = index.follow(log)
            assert former is not None
            log.add("new", unit_vector(50))
            log.remove(2)
            index.refresh()
            latest = index.latest(log)
            assert latest is not None
            assert latest.indexed_up_to in (former.indexed_up_to, log.head)
            lags = latest.indexed_up_to == former.indexed_up_to
            found = await latest.search(unit_vector(1), k=99, allowed=None)
            # one that lags may learn from the record what was removed since
            assert lags or 2 not in found.keys
            assert len(found) in ((len(TEXTS), len(TEXTS) - 1) if lags else (len(TEXTS),))

    async def test_it_is_tidied(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.follow(log) is not None
            log.remove(2)
            index.tidy(log)
            followed = index.follow(log)
            assert followed is not None
            assert 2 not in (await followed.search(unit_vector(1), k=99, allowed=None)).keys

    async def test_another_history_is_never_served(self) -> None:
        ours = sample_log()
        theirs = ours.fork()
        ours.add("ours", unit_vector(60))
        theirs.add("theirs", unit_vector(61))
        with self.index() as index:
            assert index.follow(ours) is not None
            assert index.indexed_up_to(theirs) == 0
            followed = index.follow(theirs)
            assert followed is not None
            assert followed.indexed_up_to == theirs.head
            found = await followed.search(unit_vector(61), k=1, allowed=None)
            assert found.scores[0] == pytest.approx(1.0)

    async def test_an_index_that_is_ahead(self) -> None:
        log = sample_log()
        older = log.fork()
        log.add("new", unit_vector(50))
        with self.index() as index:
            _check_that_is_ahead(index, log, older)
