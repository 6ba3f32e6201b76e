"""Contracts of text and vector indexes, for implementations to inherit; the oracle in memory."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Document, JsonScalar, Vector, Vectors
from lagotto.filters import In
from lagotto.indexes.base import (
    START,
    ChangeLog,
    ChunkFields,
    ChunkKeys,
    ChunkText,
    FilterKeys,
    Hits,
    LogPosition,
    SearchIndex,
    Snapshot,
    TextIndex,
    TextSnapshot,
    TextStatistics,
    VectorIndex,
    VectorSnapshot,
    top_k,
)
from lagotto.indexes.bm25 import CountedTerms, idf
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.text_query import (
    Either,
    Every,
    Likeness,
    Match,
    Phrase,
    Prefix,
    Term,
    TextQuery,
    Without,
    Word,
    as_word,
    holds,
    single_words,
)
from lagotto.stores.base import Store, View
from lagotto.terms import index_terms
from lagotto.terms.vocabulary import Vocabulary
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
        self._fields[key] = fields
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
        self._fields[key] = fields

    def fork(self) -> MemoryChangeLog:
        """A copy that goes its own way from here."""
        other = MemoryChangeLog()
        other.__dict__ = {name: copy(values) for name, values in self.__dict__.items()}
        return other

    def _commit(self) -> int:
        self._tokens.append(secrets.randbits(62) + 1)
        return len(self._tokens) - 1

    @property
    def head(self) -> LogPosition:
        return LogPosition(len(self._tokens) - 1, self._tokens[-1])

    def token_at(self, number: int) -> int | None:
        return self._tokens[number] if number < len(self._tokens) else None

    def ranges(self, *, since: int, at_once: int = 5_000) -> Iterator[tuple[int, int]]:
        for start in range(since, self.head.seq, at_once):
            yield start, min(start + at_once, self.head.seq)

    def added_texts(self, start: int, stop: int) -> list[ChunkText]:
        return [chunk for key, chunk in self.chunks.items() if start < key <= stop]

    def added_vectors(
        self, start: int, stop: int, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        keys = [key for key in self.vectors if start < key <= stop]
        rows = np.array([self.vectors[key] for key in keys], np.float32)
        return np.array(keys, np.int64), rows.reshape(len(keys), dimension)

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
        found = {
            key: {"collection": ("default",), **self._fields[key]}
            for key in keys.tolist()
            if key in self.chunks
        }
        return [
            ChunkFields(key, str(values["collection"][0]), values) for key, values in found.items()
        ]

    async def run(self, work: Callable[[], T]) -> T:
        return await in_thread(work)


class MemoryText(TextSnapshot):
    """A TextSnapshot of all chunks that a log has now, scored one by one."""

    immediate = True

    def __init__(self, log: MemoryChangeLog) -> None:
        self.position = log.head
        self.chunks = {
            key: CountedTerms.of(chunk.text, chunk.language)
            for key, chunk in sorted(log.chunks.items())
        }
        lengths = [len(chunk.terms) for chunk in self.chunks.values()]
        self.mean_length = sum(lengths) / max(1, len(lengths)) or 1.0

    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        found = [key for key, chunk in self.chunks.items() if chunk.found_by(query)]
        keys = np.array(found, np.int64)
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return top_k(keys, await self.scores(query, keys), k)

    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        having = await self.frequencies([as_word(word) for word in query.words])
        idfs = [idf(number, count=len(self.chunks)) for number in having]
        known = (self.chunks.get(key) for key in keys.tolist())
        scores = [one.score(query, idfs, mean=self.mean_length) if one else 0.0 for one in known]
        return np.array(scores, np.float32)

    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        chunks = self.chunks
        held = [key for key in among.tolist() if key in chunks and holds(match, chunks[key].terms)]
        return np.array(held, np.int64)

    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        return [sum(holds(word, one.terms) for one in self.chunks.values()) for word in words]

    async def statistics(self) -> TextStatistics:
        return TextStatistics(len(self.chunks), self.mean_length if self.chunks else None)

    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        terms = set[str]().union(*(chunk.counts for chunk in self.chunks.values()))
        return wanted.find_all(Vocabulary(sorted(terms)), words)


class MemoryVectors(VectorSnapshot):
    """A VectorSnapshot of all vectors that a log has now."""

    immediate = True

    def __init__(self, log: MemoryChangeLog) -> None:
        self.position = log.head
        self.rows = dict(sorted(log.vectors.items()))

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        keys = np.array(list(self.rows), np.int64)
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return top_k(keys, await self.scores(query, keys), k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        zero = np.zeros_like(query)
        rows = [self.rows.get(key, zero) for key in keys.tolist()]
        return np.array([np.vecdot(row, query) for row in rows], np.float32)


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
    return {own[key]: score for key, score in scores_by_key(hits).items()}


def _array(keys: list[int]) -> ChunkKeys:
    return np.array(sorted(keys), np.int64)


def _allowed(keys: Mapping[int, int], kept: Iterable[int]) -> FilterKeys:
    return FilterKeys(_array([keys[key] for key in kept]))


def scores_by_key(hits: Hits) -> dict[int, float]:
    """The score of each hit."""
    return dict(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True))


def _sorted(hits: Hits) -> bool:
    order = np.lexsort((hits.keys, -hits.scores))
    return bool(np.array_equal(order, np.arange(len(hits))))


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
            scores = scores_by_key(right)
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
                allowed = _allowed(keys, kept.tolist())
                found = await index.search(query, k=k, allowed=allowed)
                assert len(found) == min(k, len(kept))
                assert translated(found, keys).keys() <= set(kept.tolist())
            assert not len(await index.search(query, k=9, allowed=FilterKeys(_array([]))))

    @pytest.mark.parametrize("query", QUERIES)
    async def test_scores_after_a_search_with_a_filter(self, query: TextQuery) -> None:
        log = sample_log()
        oracle = MemoryText(log)
        async with self.snapshot(log) as (index, keys):
            for kept in (list(log.chunks)[::2], [1], list(log.chunks)):
                allowed = _allowed(keys, kept)
                await index.search(query, k=2, allowed=allowed)
                for wanted in (kept, list(log.chunks)):
                    own = np.array([keys[key] for key in wanted], np.int64)
                    right = await oracle.scores(query, np.array(wanted, np.int64))
                    assert await index.scores(query, own) == pytest.approx(right, rel=1e-4)

    async def test_terms_that_allowed_chunks_hold(self) -> None:
        log = sample_log()
        terms = sorted({term for text in TEXTS for term in index_terms(text, "en")})
        asked = [*terms, "nowhere", *(f"unknown{number}" for number in range(30)), "dog"]
        async with self.snapshot(log) as (index, keys):
            for kept in ([1], [2, 5, 7], [], list(log.chunks)):
                allowed = _allowed(keys, kept)
                held = {term for key in kept for term in index_terms(TEXTS[key - 1], "en")}
                found = await index.held(asked, allowed, most=len(asked))
                assert found == [term for term in asked if term in held]
                first = await index.held(asked, allowed, most=1)
                assert first[:1] == found[:1]

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
                assert known.mean_length == pytest.approx(oracle.mean_length)
            (dog, mispelt) = await index.alike(["dog", "truffel"], Likeness())
            assert "dog" not in {term.text for term in dog}
            assert "truffl" in {term.text for term in mispelt}
            assert list(map(len, await index.alike(["truffel"], Likeness(limit=1)))) == [1]
            ((best, *_),) = await index.alike(["water"], Likeness(0.3))
            assert best == Term("water", 1.0)
            assert await index.alike(["water"], Likeness(0.1, limit=1)) == [(best,)]

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


Snapshots = TypeVar("Snapshots", bound=Snapshot)


def caught_up(index: SearchIndex[ChangeLog, Snapshots], log: ChangeLog) -> Snapshots:
    """The index at the head of a log."""
    found = index.catch_up(log)
    assert found is not None
    return found


SearchIndexes = TypeVar("SearchIndexes", TextIndex[ChangeLog], VectorIndex[ChangeLog])


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
            found = caught_up(index, log)
            yield found, {key: key for key in log.chunks}

    async def test_it_follows(self) -> None:
        log = sample_log()
        with self.index() as index:
            assert index.position == START
            first = caught_up(index, log.fork())  # a snapshot may read the record as it was then
            log.add("new", unit_vector(50), language="en")
            log.remove(2)
            second = caught_up(index, log)
            assert first.position.seq == index.applied_seq(log) - 2
            assert second.position == index.position == log.head
            new, removed = self.queries
            found = await second.search(new, k=99, allowed=None)
            assert found.keys.tolist()[0] == len(TEXTS) + 1
            assert 2 not in found.keys.tolist()
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
            if isinstance(followed, TextSnapshot):
                assert await followed.frequencies(single_words(["lake", "marsh"])) == [0, 1]
            else:
                found = await followed.search(unit_vector(61), k=1, allowed=None)
                assert found.scores[0] == pytest.approx(1.0)


class FollowingTextContract(FollowingContract[TextIndex[ChangeLog]]):
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

    async def test_it_is_searched_while_it_lags_or_is_tidied(self) -> None:
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
            tidied = index.latest(log)
            assert tidied is not None
            assert tidied.position == log.head
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
            expected = scores_by_key(right)
            assert translated(found, keys) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("kept", [(), (1,), (2, 5, 8), (1, 2, 3, 4, 5, 6, 7, 8)])
    async def test_k_results_whenever_k_are_allowed(self, kept: tuple[int, ...]) -> None:
        log = sample_log()
        async with self.snapshot(log) as (index, keys):
            allowed = _allowed(keys, kept)
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


class FollowingVectorContract(FollowingContract[VectorIndex[ChangeLog]]):
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
            found = await latest.search(unit_vector(1), k=99, allowed=None)
            # one that lags may learn from the record what was removed since
            assert lags or 2 not in found.keys
            assert len(found) in ((len(TEXTS), len(TEXTS) - 1) if lags else (len(TEXTS),))

    async def test_it_is_tidied(self) -> None:
        log = sample_log()
        with self.index() as index:
            caught_up(index, log)
            log.remove(2)
            index.compact(log)
            followed = caught_up(index, log)
            assert 2 not in (await followed.search(unit_vector(1), k=99, allowed=None)).keys
