"""The base as one search sees it: one state of the record and its indexes, and how it is made."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto import errors
from lagotto.documents import Chunk, Document, Vector, Vectors
from lagotto.errors import IndexUnavailableError, StoreBusyError, StoreError
from lagotto.filters import And, Filter
from lagotto.indexes import overlay
from lagotto.indexes.base import (
    NO_HITS,
    START,
    ChunkKeys,
    FilterKeys,
    Hits,
    IndexRole,
    LogPosition,
    TextIndex,
    TextSnapshot,
    VectorIndex,
    VectorSnapshot,
)
from lagotto.indexes.bm25 import idf
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, single_words
from lagotto.indexes.updater import IndexUpdater
from lagotto.indexes.vectors.index import EmbeddedVectors
from lagotto.stores.base import DegradedLeg, Passage, StoredChunks
from lagotto.stores.sql import read, statements
from lagotto.stores.sql.changelog import RecordReader, SqlChangeLog, main_languages
from lagotto.stores.sql.filters import filter_notes, resolve_filter
from lagotto.stores.sql.indexes import IndexPair
from lagotto.stores.sql.statements import ReadConnection
from lagotto.terms.synonyms import Synonyms
from lagotto.terms.vocabulary import MOST_CORRECTIONS, MOST_SIMILAR

if TYPE_CHECKING:
    from lagotto.stores.postgres.native import PostgresNative

PROPOSED, MOST_LOOKED_UP = 20, 20
"""Where a filter hides chunks, so many of the terms like a word are looked up among the others, for
so many words of a query: each takes a search."""

FEW_PASSAGES = 50
"""So many are read in less time than changing threads takes."""


@dataclass(eq=False)
class SqlView:
    """One state of the record, a snapshot of each index at that state, and a set of chunks.

    Only the record reader and the snapshots differ between databases. `vectors` is None as long as
    there are none.
    """

    _record: RecordReader
    _text: TextSnapshot
    _vectors: VectorSnapshot | None
    _allowed: FilterKeys | None
    languages: Sequence[str | None]
    synonyms: Mapping[str, Synonyms]
    generation: int
    native: PostgresNative | None = None
    degraded: Sequence[DegradedLeg] = ()
    filter_notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.native is not None:
            self.native = self.native.within(self._allowed)

    @property
    def immediate(self) -> bool:
        return self._text.immediate and (self._vectors is None or self._vectors.immediate)

    async def semantic(self, query: Vector, *, k: int) -> Hits:
        if self._vectors is None:
            return NO_HITS
        return await self._vectors.search(query, k=k, allowed=self._allowed)

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        if query.native is not None and self.native is not None:
            return await self.native.search(query.native, k=k)
        return await self._text.search(query, k=k, allowed=self._allowed)

    async def semantic_scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        if self._vectors is None:
            return np.zeros(len(keys), np.float32)
        return await self._vectors.scores(query, keys)

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        if query.native is not None and self.native is not None:
            return await self.native.scores(query.native, keys)
        return await self._text.scores(query, keys)

    async def idf(self, words: Sequence[Word]) -> NDArray[np.float64]:
        having = await self._text.frequencies(words)
        chunks = (await self._text.statistics()).chunks
        return np.array([idf(number, count=max(chunks, number)) for number in having], np.float64)

    async def excluding(self, match: Match) -> SqlView:
        seen = await self._all_keys() if self._allowed is None else self._allowed.keys
        hidden = await self._text.matching(match, seen)
        rest = np.setdiff1d(seen, hidden, assume_unique=True)
        where = self._allowed.where if self._allowed else None
        return replace(self, _allowed=FilterKeys(rest, where=where))

    async def _all_keys(self) -> ChunkKeys:
        if isinstance(self._vectors, EmbeddedVectors):  # which has them in memory
            return self._vectors.state.keys
        return await self._record.ask(statements.FINDABLE_KEYS.keys)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        head = words if self._allowed is None else words[:MOST_LOOKED_UP]
        known = await self._present(head)
        unknown = [word for word in head if word not in known]
        if not unknown:
            return [()] * len(words)
        matches = await self._text.alike(unknown, Likeness(limit=self._depth(MOST_CORRECTIONS)))
        corrected = dict(zip(unknown, matches, strict=True))
        return [await self._seen(corrected.get(word, ()), limit=MOST_CORRECTIONS) for word in words]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        head = words if self._allowed is None else words[:MOST_LOOKED_UP]
        matches = await self._text.alike(head, Likeness(threshold, self._depth(MOST_SIMILAR)))
        seen = [await self._seen(terms, limit=MOST_SIMILAR) for terms in matches]
        return [*seen, *[()] * (len(words) - len(head))]

    def _depth(self, limit: int) -> int:
        """How many terms are read for `limit`: where some are hidden, more."""
        return limit if self._allowed is None else PROPOSED

    async def _seen(self, terms: Sequence[Term], *, limit: int) -> tuple[Term, ...]:
        """The first terms that chunks hold which the filter allows."""
        if self._allowed is None:
            return tuple(terms)
        texts = [term.text for term in terms]
        present = set(await self._text.present(texts, self._allowed, most=limit))
        return tuple(term for term in terms if term.text in present)[:limit]

    async def _present(self, terms: Sequence[str]) -> set[str]:
        """Those of the terms that chunks hold which the filter allows."""
        having = await self._text.frequencies(single_words(terms))
        present = [term for term, number in zip(terms, having, strict=True) if number]
        if self._allowed is not None:
            present = await self._text.present(present, self._allowed, most=len(present))
        return set(present)

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        return await self._record.ask(partial(read.read_vectors, keys=keys.tolist()))

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        wanted = keys.tolist()
        prefetched = self.native.prefetched if self.native else {}
        passages = {key: prefetched[key] for key in wanted if key in prefetched}
        if missing := [key for key in wanted if key not in passages]:
            question = partial(read.read_passages, keys=missing)
            passages |= await self._record.ask(question, brief=len(missing) <= FEW_PASSAGES)
        return [passages[key] for key in wanted if key in passages]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        return await self._record.ask(partial(read.read_parents, chunks=chunks))

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        question = partial(read.read_neighbours, chunks=chunks, near=near, across=across)
        return await self._record.ask(question)

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self._record.ask(partial(read.read_sources, names=names, searching=True))

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        sets = await self._record.ask(lambda connection: read.read_stored(connection, names))
        if (allowed := self._allowed) is None:
            return sets
        return {
            name: chunks._replace(keys=chunks.keys[allowed.contains(chunks.keys)])
            for name, chunks in sets.items()
        }


T = TypeVar("T")

CANT_CATCH_UP = (
    IndexUnavailableError,
    StoreBusyError,
    errors.StoreFullError,
    errors.StoreReadOnlyError,
)
"""What a search does without the newest changes for; other errors end it."""

MOST_ANSWERS = 64
"""Answers that are cached."""

MOST_SCANNED = 100_000
"""Vectors that are read from the record while an index behind a network can't be reached: some
150 MB, held until the next write."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of the base: the token of its last commit, its last change, its generation."""

    token: int
    position: LogPosition
    generation: int


class OwnParts(NamedTuple):
    """What a view searches; None for an index that was not asked for. No text index, no view."""

    text: TextSnapshot | None
    vectors: VectorSnapshot | None
    native: PostgresNative | None = None


class IndexTooFarBehind(Exception):  # noqa: N818 a signal, not an error
    """An index lacks more than can be read at a search; it has to catch up first."""


class _AheadOfLog(Exception):  # noqa: N818 a signal, not an error
    """An index is ahead of the state that a connection sees."""


class ViewFactory:
    """Makes the views of a store, and caches what was read for them until the next write.

    The `updater` brings the indexes up to date; a search does not wait for it, but reads the rest
    itself, unless that is too much: then IndexTooFarBehind is raised. If an index can't be reached
    (it is `down`), the record is searched, within limits; if one can't catch up (a search `gave_up`
    waiting), the search does without what it lacks. Both are noted in `degraded`.

    `in_threads` says that searches ask from several threads: then only one of them reads at a time.
    Coroutines of one event loop must not wait for a lock of threads.
    """

    def __init__(self, updater: IndexUpdater, *, in_threads: bool) -> None:
        self.answers: dict[tuple[Hashable, int], Any] = {}
        self.updater = updater
        self._newer: overlay.NewerChunks | None = None
        self._overlay: overlay.OverlayVectors | None = None
        self._reading = threading.Lock() if in_threads else nullcontext()

    def cached(self, name: Hashable, token: int, ask: Callable[[], T]) -> T:
        """The answer to a question in one state of the base; the oldest are evicted first.

        A state is identified by the random token of its last commit, so that a base restored from a
        backup, or a standby that took over, is never mistaken for the one that gave the answers.
        """
        key = (name, token)
        if key in self.answers:
            known: T = self.answers[key]
            return known
        answer = ask()
        while len(self.answers) >= MOST_ANSWERS:
            self.answers.pop(next(iter(self.answers)), None)
        self.answers[key] = answer
        return answer

    async def until_indexed(self, attempt: Callable[[StoreError | None], Awaitable[T]]) -> T:
        """What `attempt` makes, once the indexes lack few enough changes.

        They catch up in the background: a search that is cancelled need not wait for them. Where
        they can't, `attempt` gets the reason, and does without what they lack.
        """
        gave_up: StoreError | None = None
        for number in range(3):
            try:
                return await attempt(gave_up)
            except IndexTooFarBehind:
                gave_up = await self.updater.catch_up()
            if gave_up is not None and not isinstance(gave_up, CANT_CATCH_UP):
                raise gave_up
            if number == 1 and gave_up is None:
                gave_up = StoreBusyError("the base is written to faster than it is indexed")
        raise AssertionError("a view that has given up on an index does not wait for it")

    def view_at(
        self,
        changes: SqlChangeLog,
        where: Filter,
        state: State,
        indexes: IndexPair,
        *,
        down: Mapping[IndexRole, StoreError],
        gave_up: StoreError | None,
        own: Callable[[OwnParts], OwnParts] = lambda usual: usual,
    ) -> SqlView | None:
        """The base at the state that a connection sees; None if an index is ahead of it.

        `own` gives what the view has in place of indexes that the database has in tables.
        """
        degraded: list[DegradedLeg] = []
        try:
            text = vectors = None
            if indexes.text is not None:
                text = self._text(indexes.text, changes, down.get("text"), gave_up, degraded)
            if indexes.vectors is not None:
                problem = down.get("vectors")
                vectors = self._vectors(indexes.vectors, changes, problem, gave_up, degraded)
        except _AheadOfLog:
            return None
        parts = own(OwnParts(text, vectors))
        if parts.text is None:
            return None
        connection = changes.connection
        allowed, notes = self._resolved(connection, where, state.token)
        return SqlView(
            changes.reader,
            parts.text,
            parts.vectors,
            allowed,
            languages=self.cached("languages", state.token, lambda: main_languages(connection)),
            synonyms=self.cached("synonyms", state.token, lambda: read.read_synonyms(connection)),
            generation=state.generation,
            native=parts.native,
            degraded=degraded,
            filter_notes=notes,
        )

    def _resolved(
        self, connection: ReadConnection, where: Filter, token: int
    ) -> tuple[FilterKeys | None, Sequence[str]]:
        """The chunks that a filter allows, None for all, and notes on it."""
        if where == And():
            return None, ()

        def resolve() -> tuple[FilterKeys, Sequence[str]]:
            keys = resolve_filter(connection, where)
            return keys, filter_notes(connection, where, matches_some=bool(len(keys.keys)))

        return self.cached(where.cache_key, token, resolve)

    def _text(
        self,
        index: TextIndex[SqlChangeLog],
        changes: SqlChangeLog,
        down: StoreError | None,
        gave_up: StoreError | None,
        degraded: list[DegradedLeg],
    ) -> TextSnapshot:
        gave_up = down or gave_up
        former = None if down else index.latest(changes)
        position = former.position if former else START
        if former is not None and position.seq >= changes.head.seq:
            return former
        if former is None and not down and index.position.seq > changes.head.seq:
            raise _AheadOfLog
        newer = self._newer_texts(changes, position)
        problem = gave_up or (None if index.remote else self.updater.problem)
        if newer is None and gave_up is None:
            raise IndexTooFarBehind
        if problem is not None:
            what = "are searched without it" if newer else "are not searched for words"
            degraded.append(DegradedLeg("text", _why("text", changes, position, what, problem)))
        if newer is None:
            newer = overlay.NewerChunks.only_removed(changes, since=position)
        return overlay.OverlayText(former or overlay.EmptyIndex(index.stored_length), newer)

    def _vectors(
        self,
        index: VectorIndex[SqlChangeLog],
        changes: SqlChangeLog,
        down: StoreError | None,
        gave_up: StoreError | None,
        degraded: list[DegradedLeg],
    ) -> VectorSnapshot:
        gave_up = down or gave_up
        if not index.remote:
            if gave_up is None and not overlay.is_short(changes, since=index.position):
                raise IndexTooFarBehind
            if (snapshot := index.latest(changes)) is None:
                raise _AheadOfLog
            return snapshot
        latest = None if down else index.latest(changes)
        position = latest.position if latest else START
        if latest is not None and position.seq >= changes.head.seq:
            return latest
        most = overlay.MOST_CHUNKS if gave_up is None else MOST_SCANNED
        readable = overlay.is_short(changes, since=position, most=most)
        if not readable and gave_up is None:
            raise IndexTooFarBehind
        if gave_up is not None:
            what = "are searched without it" if readable else "are not searched by vectors"
            why = _why("vector", changes, position, what, gave_up)
            degraded.append(DegradedLeg("semantic", why))
        if not readable:
            return overlay.OverlayVectors(latest or overlay.EmptyIndex(), changes)
        return self._overlaid(index, latest or overlay.EmptyIndex(), changes)

    def _newer_texts(
        self, changes: SqlChangeLog, position: LogPosition
    ) -> overlay.NewerChunks | None:
        """What the text index lacks, None if that is too much to read at a search."""
        with self._reading:
            known = self._newer
            if known is not None and (known.since, known.head) == (position, changes.head):
                return known
            known = known or overlay.NewerChunks(position, position)
            newer = known.extended(changes, since=position)
            self._newer = newer or known
            return newer

    def _overlaid(
        self, index: VectorIndex[SqlChangeLog], latest: VectorSnapshot, changes: SqlChangeLog
    ) -> overlay.OverlayVectors:
        """The index with what it lacks, which is read once for each state."""
        with self._reading:
            known = self._overlay
            if known and (known.since, known.position) == (latest.position, changes.head):
                return known.over(latest)
            self._overlay = overlay.OverlayVectors(
                latest, changes, model_id=index.model_id, dimension=index.dimension
            )
            return self._overlay


def _why(
    which: str, changes: SqlChangeLog, position: LogPosition, what: str, problem: StoreError
) -> str:
    if isinstance(problem, IndexUnavailableError) and position == START:
        return f"the {which} index can't be used, so chunks {what} ({problem})"
    behind = changes.head.seq - position.seq
    return f"the {which} index is {behind} changes behind, which {what} ({problem})"
