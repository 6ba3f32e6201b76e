"""The base as one search sees it: one state of the record and of its indexes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from copy import copy

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, Vector, Vectors
from lagotto.errors import IndexUnavailableError, StoreError
from lagotto.indexes.base import (
    NO_HITS,
    START,
    ChunkKeys,
    FilterKeys,
    Hits,
    LogPosition,
    TextIndex,
    TextSnapshot,
    VectorIndex,
    VectorSnapshot,
)
from lagotto.indexes.bm25 import idf
from lagotto.indexes.overlay import (
    MOST_CHUNKS,
    EmptyText,
    EmptyVectors,
    NewerChunks,
    OverlayText,
    OverlayVectors,
    is_short,
)
from lagotto.indexes.text_query import Match, Term, TextQuery, Word, single_words
from lagotto.indexes.updater import IndexUpdater
from lagotto.stores.base import (
    DegradedLeg,
    NativeParts,
    NativeRanking,
    Passage,
    SingleQueryHybrid,
    StoredChunks,
    TrigramTextSearch,
)
from lagotto.stores.sql.changelog import RecordReader, SqlChangeLog
from lagotto.stores.sql.read import (
    read_neighbours,
    read_parents,
    read_passages,
    read_sources,
    read_stored,
    read_vectors,
)
from lagotto.terms.vocabulary import MOST_CORRECTIONS, MOST_SIMILAR

MOST_SCANNED = 100_000
"""Vectors that are read from the record while an index behind a network can't be reached: some
150 MB, held until the next write."""


class IndexTooFarBehind(Exception):  # noqa: N818 a signal, not an error
    """An index lacks more than can be read at a search; it has to catch up first."""


class IndexSnapshots:
    """Asks indexes for snapshots; caches what was read from the record until the next write.

    `down` says why an index can't be reached: then the record is searched, within limits. `gave_up`
    says why an index can't catch up: then the search does without what it lacks. Both are noted in
    `degraded`. Without either, IndexTooFarBehind is raised where too much is lacking.

    `in_threads` says that searches ask from several threads: then only one of them reads at a time.
    Coroutines of one event loop must not wait for a lock of threads.
    """

    def __init__(self, updater: IndexUpdater, *, in_threads: bool) -> None:
        self._updater = updater
        self._newer: NewerChunks | None = None
        self._vectors: OverlayVectors | None = None
        self._reading = threading.Lock() if in_threads else nullcontext()

    def clear(self) -> None:
        """Forget what was read."""
        self._newer = self._vectors = None

    @property
    def has_read(self) -> bool:
        """Whether there was something to read since the last `clear`."""
        return self._newer is not None

    def text(
        self,
        index: TextIndex[SqlChangeLog],
        changes: SqlChangeLog,
        *,
        down: StoreError | None,
        gave_up: StoreError | None,
        degraded: list[DegradedLeg],
    ) -> TextSnapshot | None:
        """The text index at the head of the log; None if it is ahead of the log."""
        gave_up = down or gave_up
        former = None if down else index.latest(changes)
        position = former.position if former else START
        if former is not None and position.seq >= changes.head.seq:
            return former
        if former is None and not down and index.position.seq > changes.head.seq:
            return None
        newer = self._newer_texts(changes, position)
        problem = gave_up or (None if index.remote else self._updater.problem)
        if newer is None and gave_up is None:
            raise IndexTooFarBehind
        if problem is not None:
            what = "are searched without it" if newer else "are not searched for words"
            degraded.append(DegradedLeg("text", _why("text", changes, position, what, problem)))
        if newer is None:
            newer = NewerChunks.only_removed(changes, since=position)
        return OverlayText(former or EmptyText(index.stored_length), newer)

    def vectors(
        self,
        index: VectorIndex[SqlChangeLog],
        changes: SqlChangeLog,
        *,
        down: StoreError | None,
        gave_up: StoreError | None,
        degraded: list[DegradedLeg],
    ) -> VectorSnapshot | None:
        """The vector index at the head of the log; None if it is ahead of the log."""
        gave_up = down or gave_up
        if not index.remote:
            if gave_up is None and not is_short(changes, since=index.position):
                raise IndexTooFarBehind
            return index.latest(changes)
        latest = None if down else index.latest(changes)
        position = latest.position if latest else START
        if latest is not None and position.seq >= changes.head.seq:
            return latest
        readable = is_short(
            changes, since=position, most=MOST_CHUNKS if gave_up is None else MOST_SCANNED
        )
        if not readable and gave_up is None:
            raise IndexTooFarBehind
        if gave_up is not None:
            what = "are searched without it" if readable else "are not searched by vectors"
            why = _why("vector", changes, position, what, gave_up)
            degraded.append(DegradedLeg("semantic", why))
        if not readable:
            return OverlayVectors.only_removed(latest or EmptyVectors(), changes)
        return self._overlaid(index, latest or EmptyVectors(), changes)

    def _newer_texts(self, changes: SqlChangeLog, position: LogPosition) -> NewerChunks | None:
        """What the text index lacks, None if that is too much to read at a search."""
        with self._reading:
            known = self._newer
            if known is not None and (known.since, known.head) == (position, changes.head):
                return known
            if known is None:
                known = NewerChunks.none(since=position)
            if not known.can_extend(changes, since=position):
                return None
            self._newer = known.extended(changes, since=position)
            return self._newer

    def _overlaid(
        self,
        index: VectorIndex[SqlChangeLog],
        latest: VectorSnapshot,
        changes: SqlChangeLog,
    ) -> OverlayVectors:
        """The index with what it lacks, which is read once for each state."""
        between = (latest.position, changes.head)
        with self._reading:
            known = self._vectors
            if known is not None and (known.since, known.position) == between:
                return known.over(latest)
            self._vectors = OverlayVectors.of(
                latest, changes, model_id=index.model_id, dimension=index.dimension
            )
            return self._vectors


def refreshed(index: TextIndex[SqlChangeLog] | VectorIndex[SqlChangeLog]) -> StoreError | None:
    """Ask an index how far it has come; why it can't be reached, None if it can.

    Blocks if it is behind a network, and reads nothing of the record.
    """
    try:
        index.refresh()
    except IndexUnavailableError as exc:
        return exc
    return None


def _why(
    which: str, changes: SqlChangeLog, position: LogPosition, what: str, problem: StoreError
) -> str:
    if isinstance(problem, IndexUnavailableError) and position == START:
        return f"the {which} index can't be used, so chunks {what} ({problem})"
    behind = changes.head.seq - position.seq
    return f"the {which} index is {behind} changes behind, which {what} ({problem})"


PROPOSED, MOST_LOOKED_UP = 20, 20
"""Where a filter hides chunks, so many of the terms like a word are looked up among the others, for
so many words of a query: each takes a search."""

FEW_PASSAGES = 50
"""So many are read in less time than changing threads takes."""

Extension = Callable[[FilterKeys | None, dict[int, Passage]], NativeParts]
"""Makes the parts that only one database has, for a search through a filter. Passages that a part
has read on the way go into the dictionary."""


class SqlView:
    """One state of the record, a snapshot of each index at that state, and a set of chunks.

    Only the record reader and the snapshots differ between databases. `everything` gives the keys
    of all chunks that can be found, of which there are `chunks`; `vectors` is None as long as there
    are none.
    """

    def __init__(
        self,
        record: RecordReader,
        *,
        text: TextSnapshot,
        vectors: VectorSnapshot | None,
        everything: Callable[[], Awaitable[ChunkKeys]],
        allowed: FilterKeys | None,
        languages: Sequence[str | None],
        generation: int,
        extension: Extension | None = None,
        degraded: Sequence[DegradedLeg] = (),
        filter_notes: Sequence[str] = (),
    ) -> None:
        self.languages = languages
        self.generation = generation
        self.degraded = degraded
        self.filter_notes = filter_notes
        self._record = record
        self._text = text
        self._vectors = vectors
        self._everything = everything
        self._extension = extension
        self._prefetched: dict[int, Passage] = {}
        self._allow(allowed)

    def _allow(self, allowed: FilterKeys | None) -> None:
        self._allowed = allowed
        extend = self._extension
        self._parts = extend(allowed, self._prefetched) if extend else NativeParts()

    @property
    def immediate(self) -> bool:
        return self._text.immediate and (self._vectors is None or self._vectors.immediate)

    @property
    def native(self) -> NativeRanking | None:
        return self._parts.native

    @property
    def trigram(self) -> TrigramTextSearch | None:
        return self._parts.trigram

    @property
    def single_query(self) -> SingleQueryHybrid | None:
        return self._parts.single_query

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
        seen = await self._everything() if self._allowed is None else self._allowed.keys
        hidden = await self._text.matching(match, seen)
        rest = copy(self)
        where = self._allowed.where if self._allowed else None
        rest._allow(FilterKeys(np.setdiff1d(seen, hidden, assume_unique=True), where=where))
        return rest

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        asked = words if self._allowed is None else words[:MOST_LOOKED_UP]
        known = await self._held(asked)
        unknown = [word for word in asked if word not in known]
        if not unknown:
            return [()] * len(words)
        found = await self._text.corrections(unknown, limit=self._depth(MOST_CORRECTIONS))
        corrected = dict(zip(unknown, found, strict=True))
        return [await self._seen(corrected.get(word, ()), limit=MOST_CORRECTIONS) for word in words]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        asked = words if self._allowed is None else words[:MOST_LOOKED_UP]
        limit = self._depth(MOST_SIMILAR)
        found = await self._text.similar(asked, threshold=threshold, limit=limit)
        seen = [await self._seen(terms, limit=MOST_SIMILAR) for terms in found]
        return [*seen, *[()] * (len(words) - len(asked))]

    def _depth(self, limit: int) -> int:
        """How many terms are read for `limit`: where some are hidden, more."""
        return limit if self._allowed is None else PROPOSED

    async def _seen(self, terms: Sequence[Term], *, limit: int) -> tuple[Term, ...]:
        """The first terms that chunks hold which the filter allows."""
        if self._allowed is None:
            return tuple(terms)
        seen: list[Term] = []
        for term in terms:
            if len(seen) < limit and await self._holds(term.text):
                seen.append(term)
        return tuple(seen)

    async def _held(self, terms: Sequence[str]) -> set[str]:
        """Those of the terms that chunks hold which the filter allows."""
        having = await self._text.frequencies(single_words(terms))
        held = {term for term, number in zip(terms, having, strict=True) if number}
        if self._allowed is None:
            return held
        return {term for term in held if await self._holds(term)}

    async def _holds(self, term: str) -> bool:
        query = TextQuery(((Term(term),),))
        return len(await self._text.search(query, k=1, allowed=self._allowed)) > 0

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        return await self._record.ask(lambda connection: read_vectors(connection, keys.tolist()))

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        wanted = keys.tolist()
        found = {key: self._prefetched[key] for key in wanted if key in self._prefetched}
        if missing := [key for key in wanted if key not in found]:
            found |= await self._record.ask(
                lambda connection: read_passages(connection, missing),
                brief=len(missing) <= FEW_PASSAGES,
            )
        return [found[key] for key in wanted if key in found]

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        return await self._record.ask(lambda connection: read_parents(connection, chunks))

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        return await self._record.ask(
            lambda connection: read_neighbours(connection, chunks, near=near, across=across)
        )

    async def sources(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self._record.ask(
            lambda connection: read_sources(connection, names, searching=True)
        )

    async def stored(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], StoredChunks]:
        found = await self._record.ask(lambda connection: read_stored(connection, names))
        allowed = self._allowed
        if allowed is None:
            return found
        return {
            name: chunks._replace(keys=chunks.keys[allowed.contains(chunks.keys)])
            for name, chunks in found.items()
        }
