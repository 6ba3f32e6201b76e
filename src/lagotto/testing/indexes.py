"""Contracts of text and vector indexes, for implementations to inherit; the oracle in memory."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Document, JsonScalar, Vector, Vectors
from lagotto.filters import In
from lagotto.indexes import base, text_query
from lagotto.indexes.base import ChangeLog, ChunkFields, ChunkKeys, ChunkText, FilterKeys, Hits
from lagotto.indexes.bm25 import CountedTerms
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import Likeness, Match, Prefix, Term, TextQuery, Word, single_words
from lagotto.stores.base import Store, View
from lagotto.stores.memory import MemoryText, MemoryVectors
from lagotto.terms import index_terms
from lagotto.testing.stores import entry

T = TypeVar("T")

Fields = Mapping[str, tuple[JsonScalar, ...]]
NO_FIELDS: Fields = {}


class MemoryChangeLog(ChangeLog):
    """A ChangeLog that a test writes: chunks come and go, each in a commit of its own."""

    def __init__(self) -> None:
        self.chunks: dict[int, ChunkText] = {}
        self.vectors: dict[int, Vector] = {}
        self.added: dict[int, tuple[ChunkText, Vector | None]] = {}
        """Every chunk that was ever added, by its key, to do the same to a store."""
        self._fields: dict[int, Fields] = {}
        self._removals: dict[int, int] = {}
        self._updates: dict[int, int] = {}
        self._tokens: list[int] = [0]

    def add(
        self,
        text: str,
        vector: Vector | None = None,
        *,
        language: str | None = None,
        fields: Fields = NO_FIELDS,
    ) -> int:
        """Add a chunk, alone in its document; its key."""
        key = self._commit()
        self._fields[key] = {"collection": ("default",), **fields}
        self.chunks[key] = ChunkText(
            key, document=key, text=text, language=language, detected=language
        )
        self.added[key] = self.chunks[key], vector
        if vector is not None:
            self.vectors[key] = vector
        return key

    def remove(self, key: int) -> None:
        """Remove a chunk."""
        self._removals[self._commit()] = key
        del self.chunks[key]
        self.vectors.pop(key, None)

    def update(self, key: int, fields: Fields) -> None:
        """Give the document of a chunk other metadata."""
        self._updates[self._commit()] = key
        self._fields[key] = {"collection": ("default",), **fields}

    def fork(self) -> MemoryChangeLog:
        """A copy that goes its own way from here."""
        return deepcopy(self)

    def _commit(self) -> int:
        self._tokens.append(secrets.randbits(62) + 1)
        return len(self._tokens) - 1

    @property
    def head(self) -> base.LogPosition:
        return base.LogPosition(len(self._tokens) - 1, self._tokens[-1])

    def token_at(self, number: int) -> int | None:
        return self._tokens[number] if number < len(self._tokens) else None

    def ranges(self, *, since: int, at_once: int = 5_000) -> Iterator[tuple[int, int]]:
        for start in range(since, self.head.seq, at_once):
            yield start, min(start + at_once, self.head.seq)

    def added_texts(self, start: int, stop: int) -> list[ChunkText]:
        return self.texts_of(np.arange(start + 1, stop + 1))

    def added_vectors(
        self, start: int, stop: int, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        keys = np.arange(start + 1, stop + 1)
        return self.vectors_of(keys, model_id=model_id, dimension=dimension)

    def removed(self, start: int, stop: int) -> ChunkKeys:
        gone = [key for number, key in self._removals.items() if start < number <= stop]
        return np.array(gone, np.int64)

    def updated(self, start: int, stop: int) -> ChunkKeys:
        numbers = {key for number, key in self._updates.items() if start < number <= stop}
        return np.array(sorted(numbers & self.chunks.keys()), np.int64)

    def texts_of(self, keys: ChunkKeys) -> list[ChunkText]:
        return [self.chunks[key] for key in keys.tolist() if key in self.chunks]

    def vectors_of(
        self, keys: ChunkKeys, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        having = sorted(set(keys.tolist()) & self.vectors.keys())
        rows = np.array([self.vectors[key] for key in having], np.float32)
        return np.array(having, np.int64), rows.reshape(len(having), dimension)

    def fields_of(self, keys: ChunkKeys) -> list[ChunkFields]:
        known = [(chunk.key, self._fields[chunk.key]) for chunk in self.texts_of(keys)]
        return [ChunkFields(key, str(values["collection"][0]), values) for key, values in known]

    async def run(self, work: Callable[[], T]) -> T:
        return await in_thread(work)


def text_oracle(log: MemoryChangeLog) -> MemoryText:
    """A TextSnapshot of all chunks that a log has now."""
    chunks = log.chunks.items()
    counted = {key: CountedTerms.of(chunk.text, chunk.language) for key, chunk in sorted(chunks)}
    return MemoryText(counted, log.head)


def vector_oracle(log: MemoryChangeLog) -> MemoryVectors:
    """A VectorSnapshot of all vectors that a log has now."""
    return MemoryVectors(dict(sorted(log.vectors.items())), log.head)


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
    text_query.Phrase((("water", "dog"), ("in", "the", "lake"))),
    text_query.Every((Word(("water",)), text_query.Without(Word(("dog",))))),
    text_query.Either((Word(("hazel",)), Word(("marsh",)))),
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
    return {own[key]: score for key, score in scores_by_key(hits).items()}


def _array(keys: Iterable[int]) -> ChunkKeys:
    return np.array(sorted(keys), np.int64)


def _allowed(keys: Mapping[int, int], allowed: Iterable[int]) -> FilterKeys:
    return FilterKeys(_array(keys[key] for key in allowed))


def scores_by_key(hits: Hits) -> dict[int, float]:
    """The score of each hit."""
    return dict(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True))


def _sorted(hits: Hits) -> bool:
    order = np.lexsort((hits.keys, -hits.scores))
    return bool(np.array_equal(order, np.arange(len(hits))))


class SnapshotContract:
    """What every snapshot answers; results are compared with those of the oracle."""

    sample_queries: Sequence[Any]
    tolerance: float
    """How far scores may be from the oracle's, as a share of them."""
    margin = 0.0
    """The same, as a number."""
    counts: Sequence[int] = (1, 2, 9)
    """How many results are asked for."""

    @staticmethod
    def oracle(log: MemoryChangeLog) -> Any:
        """A snapshot in memory of what a log has."""
        raise NotImplementedError

    def snapshot(
        self, log: MemoryChangeLog
    ) -> AbstractAsyncContextManager[tuple[Any, Mapping[int, int]]]:
        """A snapshot of an index with all that a log has, and its keys by the log's."""
        raise NotImplementedError

    def _approx(self, expected: object) -> object:
        return pytest.approx(expected, rel=self.tolerance, abs=self.margin)

    async def test_search_and_scores(self) -> None:
        log = sample_log()
        async with self.snapshot(log) as (index, keys):
            everything = _array(keys.values())[::-1]
            for query in self.sample_queries:
                right = await self.oracle(log).search(query, k=99, allowed=None)
                hits = await index.search(query, k=99, allowed=None)
                assert _sorted(hits)
                scores = translated(hits, keys)
                assert scores == self._approx(scores_by_key(right)), query
                filled = Hits(everything, await index.scores(query, everything))
                assert translated(filled, keys) == dict.fromkeys(keys, 0.0) | scores
                for k in (1, 3):
                    first = await index.search(query, k=k, allowed=None)
                    assert first.keys.tolist() == hits.keys[:k].tolist()

    async def test_k_results_whenever_k_match_and_scores_of_any_chunk(self) -> None:
        log = sample_log()
        oracle, every = self.oracle(log), list(log.chunks)
        async with self.snapshot(log) as (index, keys):
            for query, subset in product(
                self.sample_queries, ([], [1], [2, 5, 8], every[::2], every)
            ):
                allowed = _allowed(keys, subset)
                for k in self.counts:
                    hits = await index.search(query, k=k, allowed=allowed)
                    right = await oracle.search(query, k=k, allowed=FilterKeys(_array(subset)))
                    assert hits.scores == self._approx(right.scores), (query, subset, k)
                    assert translated(hits, keys).keys() <= set(subset)
                for candidates in (subset, every):
                    own = np.array([keys[key] for key in candidates], np.int64)
                    expected = await oracle.scores(query, np.array(candidates, np.int64))
                    assert await index.scores(query, own) == self._approx(expected), query

    async def test_removed_chunks_are_gone(self) -> None:
        log = sample_log()
        for key in (2, 4):
            log.remove(key)
        async with self.snapshot(log) as (index, keys):
            for query in self.sample_queries:
                right = await self.oracle(log).search(query, k=99, allowed=None)
                hits = await index.search(query, k=99, allowed=None)
                assert translated(hits, keys).keys() == set(right.keys.tolist())


class TextIndexContract(SnapshotContract):
    """What every TextSnapshot answers."""

    sample_queries = QUERIES
    tolerance = 1e-4
    counts = (0, 1, 2, 9)
    oracle = staticmethod(text_oracle)

    async def test_terms_that_allowed_chunks_hold(self) -> None:
        log = sample_log()
        terms = sorted({term for text in TEXTS for term in index_terms(text, "en")})
        candidates = [*terms, "nowhere", *(f"unknown{number}" for number in range(30)), "dog"]
        async with self.snapshot(log) as (index, keys):
            for subset in ([1], [2, 5, 7], [], list(log.chunks)):
                allowed = _allowed(keys, subset)
                expected = {term for key in subset for term in index_terms(TEXTS[key - 1], "en")}
                answer = await index.present(candidates, allowed, most=len(candidates))
                assert answer == [term for term in candidates if term in expected]
                first = await index.present(candidates, allowed, most=1)
                assert first[:1] == answer[:1]

    @pytest.mark.parametrize("match", CONDITIONS)
    async def test_matching(self, match: Match) -> None:
        log = sample_log()
        right = await text_oracle(log).matching(match, _array(log.chunks))
        async with self.snapshot(log) as (index, keys):
            everything = _array(keys.values())
            matches = await index.matching(match, everything)
            assert matches.tolist() == sorted(keys[key] for key in right.tolist())
            few = everything[::2]
            assert set((await index.matching(match, few)).tolist()) == set(matches) & set(few)

    async def test_statistics_and_terms(self) -> None:
        log = sample_log()
        oracle = text_oracle(log)
        terms = sorted({term for text in TEXTS for term in index_terms(text, "en")})
        async with self.snapshot(log) as (index, _):
            words = [*single_words([*terms, "nowhere"]), Word(("lake", "water", "water")), Word(())]
            assert await index.frequencies(words) == await oracle.frequencies(words)
            statistics = await index.statistics()
            assert statistics.chunks == len(TEXTS)
            if statistics.mean_length is not None:
                assert statistics.mean_length == pytest.approx(oracle.mean_length)
            (dog, mispelt) = await index.alike(["dog", "truffel"], Likeness())
            assert "dog" not in {term.text for term in dog}
            assert "truffl" in {term.text for term in mispelt}
            assert list(map(len, await index.alike(["truffel"], Likeness(limit=1)))) == [1]
            ((best, *_),) = await index.alike(["water"], Likeness(0.3))
            assert best == Term("water", 1.0)
            assert await index.alike(["water"], Likeness(0.1, limit=1)) == [(best,)]

    async def test_removed_chunks_are_not_counted(self) -> None:
        log = sample_log()
        for key in (2, 4):
            log.remove(key)
        async with self.snapshot(log) as (index, _):
            assert (await index.statistics()).chunks == len(TEXTS) - 2
            words = [Word(("dog",)), Word(("lake",)), Word(("dog", "lake"))]
            assert await index.frequencies(words) == [1, 1, 2]

    async def test_nothing_at_all(self) -> None:
        async with self.snapshot(MemoryChangeLog()) as (index, _):
            for query in QUERIES:
                assert not len(await index.search(query, k=9, allowed=None))
            assert await index.frequencies([Word(("dog",)), Word(("dog", "lake"))]) == [0, 0]


async def replay(log: MemoryChangeLog, store: Store) -> None:
    """Do to a store what was done to a log: a document of one chunk for each of its chunks."""
    for key, (chunk, vector) in log.added.items():
        document = Document(id=str(key), text=chunk.text, language=chunk.language)
        item = await entry(document)
        await store.write([replace(item, vectors=np.array([vector]), model_id="m")])
    if gone := [str(key) for key in log.added if key not in log.chunks]:
        await store.delete(In("document_id", gone))


async def stored_keys(log: MemoryChangeLog, view: View) -> dict[int, int]:
    """The keys that a store has for those of a log, after `replay`."""
    if not log.chunks:
        return {}
    names = {key: ("default", str(key)) for key in log.chunks}
    stored = await view.stored(list(names.values()))
    return {key: int(stored[name].keys[0]) for key, name in names.items()}


Snapshots = TypeVar("Snapshots", bound=base.Snapshot)


def caught_up(index: base.SearchIndex[ChangeLog, Snapshots], log: ChangeLog) -> Snapshots:
    """The index at the head of a log."""
    snapshot = index.catch_up(log)
    assert snapshot is not None
    return snapshot


SearchIndexes = TypeVar("SearchIndexes", base.TextIndex[ChangeLog], base.VectorIndex[ChangeLog])


class FollowingContract(Generic[SearchIndexes]):
    """What every index does that follows a change log."""

    queries: tuple[Any, Any]
    """One finds a new chunk with the text "new" and `unit_vector(50)`, one the chunk 2, first."""

    def index(self) -> AbstractContextManager[SearchIndexes]:
        """An index whose files last as long as the context; a second one in it shares them.

        One of vectors is of dimension DIMENSION, for the model "m".
        """
        raise NotImplementedError

    @asynccontextmanager
    async def snapshot(self, log: MemoryChangeLog) -> AsyncIterator[tuple[Any, Mapping[int, int]]]:
        """For the contract of snapshots, which a test inherits after this one."""
        with self.index() as index:
            snapshot = caught_up(index, log)
            yield snapshot, {key: key for key in log.chunks}

    async def test_it_follows(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.position == base.START
            first = caught_up(index, log.fork())  # a snapshot may read the record as it was then
            log.add("new", unit_vector(50), language="en")
            log.remove(2)
            second = caught_up(index, log)
            assert first.position.seq == index.applied_seq(log) - 2
            assert second.position == index.position == log.head
            new, removed = self.queries
            hits = await second.search(new, k=99, allowed=None)
            assert hits.keys.tolist()[0] == len(TEXTS) + 1
            assert 2 not in hits.keys.tolist()
            before = await first.search(removed, k=1, allowed=None)
            assert before.keys.tolist() == [2]

    async def test_an_index_that_is_ahead(self) -> None:
        """It does not serve an older state of its log, until it is built again."""
        log = sample_log()
        older = log.fork()
        log.add("lake", unit_vector(50))
        with self.index() as index:
            caught_up(index, log)
            assert index.catch_up(older) is None
            index.reset_if_at(log.head)
            again = caught_up(index, older)
            assert again.position == older.head

    @pytest.mark.parametrize("longer", [False, True])
    async def test_another_history_is_never_served(self, longer: bool) -> None:
        ours = sample_log(TEXTS[:3])
        theirs = ours.fork()
        ours.add("our own lake", unit_vector(60), language="en")
        theirs.add("their own marsh", unit_vector(61), language="en")
        if longer:
            theirs.add("a hazel", unit_vector(62), language="en")
        with self.index() as index:
            caught_up(index, ours)
            assert index.applied_seq(theirs) == 0
            followed = caught_up(index, theirs)
            assert followed.position == theirs.head
            if isinstance(followed, base.TextSnapshot):
                assert await followed.frequencies(single_words(["lake", "marsh"])) == [0, 1]
            else:
                hits = await followed.search(unit_vector(61), k=1, allowed=None)
                assert hits.scores[0] == pytest.approx(1.0)


class FollowingTextContract(FollowingContract[base.TextIndex[ChangeLog]]):
    """What a TextIndex does that follows a change log."""

    queries = (TextQuery(((Term("new"),),)), QUERIES[0])

    async def test_an_index_of_another_history_is_noted(self) -> None:
        log, other = sample_log(TEXTS[:3]), sample_log(TEXTS[:3])
        with self.index() as index:
            caught_up(index, log)
            assert index.check(other).level == "note"

    async def test_what_it_has_is_read_again(self) -> None:
        log = sample_log()
        with self.index() as index:
            caught_up(index, log)
            index.close()
            latest = index.latest(log)
            assert latest is not None
            assert latest.position == log.head
            assert await latest.frequencies([Word(("dog",))]) == [2]
            assert index.check(log).level == "ok"

    async def test_it_is_searched_while_it_lags_or_is_compacted(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.latest(log) is None
            former = caught_up(index, log)
            log.add("a new lake", language="en")
            for key in range(1, len(TEXTS)):
                log.remove(key)
            latest = index.latest(log)
            assert latest is not None
            assert latest.position == former.position
            caught_up(index, log)
            index.compact(log)
            compacted = index.latest(log)
            assert compacted is not None
            assert compacted.position == log.head
            hits = await compacted.search(QUERIES[1], k=9, allowed=None)
            assert hits.keys.tolist() == [len(TEXTS) + 1]
            assert index.check(log).level == "ok"


class VectorIndexContract(SnapshotContract):
    """What every VectorSnapshot answers: exact cosines, also through filters."""

    sample_queries = tuple(map(unit_vector, (7, 100, 101)))  # the first is that of a chunk
    tolerance = margin = 1e-6
    oracle = staticmethod(vector_oracle)


class FollowingVectorContract(FollowingContract[base.VectorIndex[ChangeLog]]):
    """What a VectorIndex does that follows a change log."""

    queries = (unit_vector(50), unit_vector(1))

    async def test_what_it_has_is_searched_while_it_lags(self) -> None:
        log = sample_log()
        with self.index() as index:
            former = caught_up(index, log)
            log.add("new", unit_vector(50))
            log.remove(2)
            index.refresh()
            latest = index.latest(log)
            assert latest is not None
            assert latest.position in (former.position, log.head)
            lags = latest.position == former.position
            hits = await latest.search(unit_vector(1), k=99, allowed=None)
            # one that lags may learn from the record what was removed since
            assert lags or 2 not in hits.keys
            assert len(hits) in ((len(TEXTS), len(TEXTS) - 1) if lags else (len(TEXTS),))

    async def test_it_is_compacted(self) -> None:
        log = sample_log()
        with self.index() as index:
            caught_up(index, log)
            log.remove(2)
            index.compact(log)
            followed = caught_up(index, log)
            assert 2 not in (await followed.search(unit_vector(1), k=99, allowed=None)).keys
