"""Derived indexes: what they catch up with, what they answer, and what they promise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread
from lagotto.documents import CONTEXT_RULES, JsonScalar, Record, Vector, Vectors
from lagotto.errors import IndexDamagedError, StoreError
from lagotto.filters import Filter
from lagotto.indexes.folder import size_of
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word
from lagotto.terms.languages import analyzer_id


class LogPosition(NamedTuple):
    """How far an index has followed the change log.

    `seq` is the sequence number of the last change that it holds, `token` the random token of
    the commit which that change belongs to: the same number with another token is another history
    of the base, whose changes the index does not hold.
    """

    seq: int
    token: int


START = LogPosition(0, 0)
"""An index that holds nothing yet belongs to any history."""


def is_of(changes: ChangeLog, position: LogPosition) -> bool:
    """Whether a position is one of this history, and not ahead of it."""
    seq, token = position
    return seq <= changes.head.seq and changes.token_at(seq) == token


ChunkKeys = NDArray[np.int64]
"""A store's own numbers for its chunks; a number is never used again."""

KeyedRows = tuple[ChunkKeys, Vectors]
"""The keys of chunks, and their float32 unit vectors."""


class ChunkText(NamedTuple):
    """A chunk as a text index sees it: under its title and headings, with its document's key.

    `language` is the one to index it in; `detected` that of the document, None if it is unknown.
    """

    key: int
    document: int
    text: str
    language: str | None
    detected: str | None = None


class ChunkFields(NamedTuple):
    """What a filter may ask of a chunk: the values of its fields, by their canonical names.

    A path into the metadata is a name, and a list has a value per element; `page` has every page of
    the chunk. A field without values is left out.
    """

    key: int
    collection: str
    values: Mapping[str, tuple[JsonScalar, ...]]


T = TypeVar("T")


class ChangeLog(ABC):
    """The changes of a base in their order, as one state of the record has them.

    A chunk's key is the sequence number of its addition; a removal has a number of its own. Ranges
    are given by their ends, the first exclusive, the last inclusive. Chunks that were added in a
    range and are gone by now are left out; their removal may still be told. Reads block: they
    belong into a thread, or into `run`.
    """

    @property
    @abstractmethod
    def head(self) -> LogPosition:
        """The last change of this state."""

    @abstractmethod
    def token_at(self, seq: int) -> int | None:
        """The token of the commit that a change belongs to, None if there is no such change."""

    @abstractmethod
    def ranges(self, *, since: int, at_once: int = ...) -> Iterator[tuple[int, int]]:
        """Ranges from a number to the head, each with up to `at_once` chunks."""

    @abstractmethod
    def added_texts(self, start: int, stop: int) -> Sequence[ChunkText]:
        """The chunks of a range that can be found, in any order."""

    @abstractmethod
    def added_vectors(self, start: int, stop: int, *, model_id: str, dimension: int) -> KeyedRows:
        """The chunks of a range that have a vector."""

    @abstractmethod
    def removed(self, start: int, stop: int) -> ChunkKeys:
        """Keys of the chunks whose removal lies in a range."""

    @abstractmethod
    def updated(self, start: int, stop: int) -> ChunkKeys:
        """Keys of the chunks whose documents got other metadata in a range."""

    @abstractmethod
    def texts_of(self, keys: ChunkKeys) -> Sequence[ChunkText]:
        """Those of `keys` that can be found in this state, in any order."""

    @abstractmethod
    def vectors_of(self, keys: ChunkKeys, *, model_id: str, dimension: int) -> KeyedRows:
        """Those of `keys` that have a vector in this state, ascending."""

    @abstractmethod
    def fields_of(self, keys: ChunkKeys) -> Sequence[ChunkFields]:
        """The fields of those of `keys` that can be found in this state, in any order."""

    @abstractmethod
    async def run(self, work: Callable[[], T]) -> T:
        """Run a function that reads the log, in a thread, while nothing else reads it."""


def sampled_ranges(
    changes: ChangeLog, chunks: int, *, most: int, at_once: int
) -> Iterator[tuple[int, int]]:
    """The ranges of a log with so many chunks; if there are more than `most`, some at random."""
    if chunks <= most:
        yield from changes.ranges(since=0, at_once=at_once)
        return
    starts = np.random.default_rng().choice(changes.head.seq, most // at_once, replace=False)
    for start in sorted(starts.tolist()):
        yield from islice(changes.ranges(since=start, at_once=at_once), 1)


@dataclass(frozen=True, slots=True)
class Hits:
    """Chunk keys with their scores, best first."""

    keys: ChunkKeys
    scores: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, chosen: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Hits:
        return Hits(self.keys[chosen], self.scores[chosen])

    def scores_of(self, keys: ChunkKeys, *, ascending: bool = False) -> NDArray[np.float32]:
        """The score of each of `keys`, 0 for what is no hit; `ascending`: hits are by key."""
        scores = np.zeros(len(keys), np.float32)
        if len(self):
            order = None if ascending else np.argsort(self.keys)
            rows = np.searchsorted(self.keys, keys, sorter=order).clip(max=len(self) - 1)
            rows = rows if order is None else order[rows]
            here = self.keys[rows] == keys
            scores[here] = self.scores[rows[here]]
        return scores


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.float32))


def top_k(keys: ChunkKeys, scores: NDArray[np.float32], k: int) -> Hits:
    """The `k` greatest scores with their keys, greatest first, ties by key."""
    if k < 1:
        return NO_HITS
    if len(scores) > k:
        enough = np.flatnonzero(scores >= kth_greatest(scores, k))
        keys, scores = keys[enough], scores[enough]
    order = np.lexsort((keys, -scores))[:k]
    return Hits(keys[order], scores[order])


def kth_greatest(scores: NDArray[np.float32], k: int) -> np.float32:
    """The k-th greatest of at least `k` scores."""
    kth: np.float32 = np.partition(scores, len(scores) - k)[len(scores) - k]
    return kth


def merge_hits(lists: Sequence[Hits], *, k: int) -> Hits:
    """The best `k` of several lists that have no key in common."""
    keys = np.concatenate([hits.keys for hits in lists])
    return top_k(keys, np.concatenate([hits.scores for hits in lists]), k)


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def depths(first: int, last: float) -> Iterator[int]:
    """How many hits to look at: `first`, then each time four times as many, below `last`."""
    depth = first
    while depth < last:
        yield depth
        depth *= 4


@dataclass(frozen=True, eq=False)
class FilterKeys:
    """The chunks that a search may find, ascending.

    Where these are all chunks of some documents, `documents` are their keys: there are fewer of
    them, so an index finds them in less time. Every one of the chunks matches `where`, if it is
    given: an index that knows the fields of chunks may search only those that match, and leave out
    what is not among the keys.
    """

    keys: ChunkKeys
    documents: NDArray[np.int64] | None = None
    where: Filter | None = None
    compiled: dict[str, Any] = field(default_factory=dict, repr=False)
    """What indexes have made of the keys, by their names."""

    def contains(self, keys: ChunkKeys) -> Mask:
        """For each of `keys`, whether it is allowed."""
        return are_among(keys, self.keys)


LARGEST_TABLE = 2**26
"""A table has a byte for every number between the least key and the greatest."""


def are_among(keys: NDArray[np.integer], others: NDArray[np.integer]) -> Mask:
    """For each of `keys`, whether it is one of `others`.

    Keys are mostly dense, and then a table is ten times as quick as sorting.
    """
    if not len(others):
        return np.zeros(len(keys), np.bool_)
    dense = int(others.max()) - int(others.min()) < LARGEST_TABLE
    return np.isin(keys, others, kind="table" if dense else "sort")


def union(lists: Sequence[NDArray[np.integer]]) -> ChunkKeys:
    """The keys of several lists, each once, ascending."""
    ordered = np.sort(np.concatenate([np.empty(0, np.int64), *lists]))
    # np.unique imports numpy.ma, which takes longer than a search
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


IMMEDIATE_CHUNKS = 150_000
"""Up to here a search in an embedded index takes about a millisecond, less than changing threads
costs: `legs` of 48d0e68 with 12,000 chunks: 2.8 ms of CPU a search with threads, 2.5 without, in no
less time; `benchmarks/scale.py` at 100,000: 6.2 and 5.1. So it runs in the event loop's own thread,
and `immediate` says so."""


class TextStatistics(NamedTuple):
    """What BM25 needs to know of all chunks; `mean_length` is None where the index can't tell.

    `stored_length` is what the index takes for the length of a chunk with so many terms.
    """

    chunks: int
    mean_length: float | None
    stored_length: Callable[[int], int] = int


class Snapshot(ABC):
    """One state of an index; it never changes."""

    position: LogPosition
    """The last change that is included; what is newer is searched from the record."""

    immediate: bool = False
    """Whether a call takes about a millisecond and does not suspend; see IMMEDIATE_CHUNKS."""


State = TypeVar("State", bound=Sized)


@dataclass(eq=False)
class EmbeddedSnapshot(Snapshot, Generic[State]):
    """A snapshot of an index in files, of which `state` answers; its length counts the chunks.

    One that turns out to be damaged is replaced once by what `repaired` makes of the record.
    """

    state: State
    changes: ChangeLog
    position: LogPosition
    repaired: Callable[[ChangeLog, State, IndexDamagedError], State]

    def __post_init__(self) -> None:
        self.immediate = len(self.state) <= IMMEDIATE_CHUNKS

    async def _ask(self, question: Callable[[State], T], *, brief: bool = False) -> T:
        """The answer, in a thread unless it takes less time than changing threads does."""
        try:
            return question(self.state) if brief else await in_thread(question, self.state)
        except IndexDamagedError as exc:
            problem = exc
        self.state = await self.changes.run(
            lambda: self.repaired(self.changes, self.state, problem)
        )
        return await in_thread(question, self.state)


class TextSnapshot(Snapshot):
    """Full text over the chunks of one state of the record; it never changes.

    Only chunks that are `allowed` come back, and if k of them match, k do. Scores are BM25 with the
    numbers of `lagotto.indexes.bm25`; lists are sorted by score, then by key. Methods are
    coroutines so that an index may be behind a network; an embedded one does not suspend.
    """

    @abstractmethod
    async def search(self, query: TextQuery, *, k: int, allowed: FilterKeys | None) -> Hits:
        """The best `k` chunks that the query asks for."""

    @abstractmethod
    async def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """The score of each of `keys`, the same as in `search`; 0 for what it would not find."""

    @abstractmethod
    async def matching(self, match: Match, among: ChunkKeys) -> ChunkKeys:
        """Those of the ascending keys `among` for which `match` holds."""

    @abstractmethod
    async def frequencies(self, words: Sequence[Word]) -> list[int]:
        """The document frequency of each word: how many chunks hold one of its terms."""

    async def present(self, terms: Sequence[str], allowed: FilterKeys, *, most: int) -> list[str]:
        """The first terms, at least `most` if there are so many, that an allowed chunk holds."""
        present: list[str] = []
        for term in terms:
            query = TextQuery(((Term(term),),))
            if len(present) < most and len(await self.search(query, k=1, allowed=allowed)):
                present.append(term)
        return present

    @abstractmethod
    async def statistics(self) -> TextStatistics:
        """How many chunks there are, and how long they are."""

    @abstractmethod
    async def alike(self, words: Sequence[str], wanted: Likeness) -> list[tuple[Term, ...]]:
        """For each word, the index terms that are like it."""


class VectorSnapshot(Snapshot):
    """Vectors of the chunks of one state of the record; it never changes.

    `search` proposes the nearest chunks; if k are allowed, k come back. Scores are exact cosines of
    the record's vectors, in `search` too: an index that ranks by approximations reads the vectors
    of its proposals from the record. The embedded index holds the record's float32 rows bit by bit,
    so its own scores are the record's.
    """

    @abstractmethod
    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        """The `k` chunks with the greatest cosines, ties by key."""

    @abstractmethod
    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        """The cosine of each of `keys`, 0 for one that is gone."""


Log = TypeVar("Log", bound=ChangeLog, contravariant=True)
Answers = TypeVar("Answers", bound=Snapshot, covariant=True)


class SearchIndex(ABC, Generic[Log, Answers]):
    """What text and vector indexes have in common.

    The methods with a body are for indexes that keep something besides what `catch_up` writes, or
    are behind a network; others leave them as they are.
    """

    kind: str
    """The name in the registry."""

    label: str
    """The word for it in messages."""

    folder: Path | None = None
    """Where its files are, None if it has none of its own."""

    remote = False
    """Whether it is behind a network: then `refresh` asks how far it has come."""

    @property
    @abstractmethod
    def position(self) -> LogPosition:
        """The last change that the index is known to hold."""

    @abstractmethod
    def catch_up(self, changes: Log) -> Answers | None:
        """Catch up with the head of the log; None if the index is ahead of it.

        An index whose token is not the log's is of another history, and is rebuilt, as is a damaged
        one. StoreBusyError, StoreFullError or StoreReadOnlyError if it can't be written just now;
        then `latest` answers, and the record has the rest.
        """

    def latest(self, changes: Log) -> Answers | None:
        """The index of this history as far as it is, and not ahead of the log; None without one.

        Reads only, and does not wait for a thread or process that catches up. An index that catches
        up faster than the rest could be read from the record may do so here.
        """
        return self.catch_up(changes)

    @abstractmethod
    def check(self, changes: Log) -> Finding:
        """Whether the index exists, is intact, of this history and up to date; changes nothing."""

    def applied_seq(self, changes: Log) -> int:
        """The last change of this history that the index holds, 0 for none; changes nothing."""
        return self.position.seq if is_of(changes, self.position) else 0

    def reset_if_at(self, position: LogPosition) -> None:
        """Empty the index if it is still at a position that the record does not have."""

    def refresh(self) -> None:
        """Ask how far the index has come, if others may have taken it further over a network.

        Called before `latest`, without a transaction. Raises IndexUnavailableError if the index
        can't be reached.
        """

    def delete(self) -> None:
        """Delete the index, for a base that has another one now or is deleted.

        Files in the folder of the indexes are deleted with it, so that only an index behind a
        network has something to do.
        """

    def compact(self, changes: Log) -> None:
        """Compact or save what has changed if that is worthwhile; may take long.

        Searches go on meanwhile. StoreErrors as in `catch_up`.
        """

    def close(self) -> None:
        """Save what is worth it; the index may be used again."""

    def abandon(self) -> None:
        """Close an index of a former generation of the base, of which nothing is to be saved."""
        self.close()

    def _progress(self, changes: ChangeLog, applied_seq: int, *, where: Path | str) -> Finding:
        """For an index that can be used: in a folder, or behind a network."""
        last, name = changes.head.seq, f"the {self.label} index"
        if applied_seq < last:
            what = f"{name} is {last - applied_seq} changes behind ({applied_seq} of {last})"
            if isinstance(where, Path):
                return note(what, "the next search catches up")
            rest = "searches read what is newer from the database"
            return note(what, f"it catches up in the background; {rest}")
        if isinstance(where, Path):
            size = size_of(where) / MEGABYTE
            return ok(f"{name} is up to date ({size:.1f} MB, {last} changes)")
        return ok(f"{name} on {where} is up to date ({last} changes)")

    def _of_other_history(self) -> Finding:
        """For an index of another copy of the base, or of one before a backup was restored."""
        what = f"the {self.label} index belongs to another history of the base"
        return note(what, "the next search rebuilds it, which takes a while")

    def _missing(self) -> Finding:
        what = f"there is no {self.label} index"
        return note(what, "the next search builds it, which takes a while")

    def _damaged(self, damage: StoreError) -> Finding:
        advice = "the next search rebuilds it; if it happens more than once, check the disk"
        return problem(f"the {self.label} index is damaged: {damage}", advice)


class TextIndex(SearchIndex[Log, TextSnapshot]):
    """Full text over the chunks of a base, derived from its change log."""

    label = "text"

    def stored_length(self, terms: int, /) -> int:
        """What the index takes for the length of a chunk with so many terms."""
        return terms


class VectorIndex(SearchIndex[Log, VectorSnapshot]):
    """Vectors of the chunks of a base under one model, derived from its change log."""

    label = "vector"
    model_id: str
    dimension: int


def text_rules() -> str:
    """Names everything that the terms of a chunk depend on; indexes by other rules are rebuilt."""
    return f"{analyzer_id()}/context-{CONTEXT_RULES}"


IndexRole = Literal["text", "vectors"]


class IndexState(Record):
    """The state of an index: it has applied `applied_seq` of the `changes` in the change log."""

    role: IndexRole
    kind: str
    applied_seq: int
    changes: int


class Finding(Record):
    """What a check of a base has found, and what to do about it.

    A `note` repairs itself or does no harm, a `problem` makes answers wrong or incomplete.
    """

    level: Literal["ok", "note", "problem"]
    what: str
    advice: str = ""


def ok(what: str) -> Finding:
    return Finding(level="ok", what=what)


def note(what: str, advice: str = "") -> Finding:
    return Finding(level="note", what=what, advice=advice)


def problem(what: str, advice: str = "") -> Finding:
    return Finding(level="problem", what=what, advice=advice)


MEGABYTE = 1_000_000

REBUILD = "run `lagotto rebuild`"

OTHER_HISTORY = "the %s index belongs to another history of the base; it is rebuilt"
"""Logged: another copy of the base wrote it, or a backup of the base was restored."""

DAMAGED = "the %s index is damaged, and rebuilt from the database: %s"


Mask = NDArray[np.bool_]
