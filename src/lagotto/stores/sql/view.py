"""The base as one search sees it: one state of the record and of its indexes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, Vector, Vectors
from lagotto.indexes.base import (
    NO_HITS,
    ChunkKeys,
    FilterKeys,
    Hits,
    TextSnapshot,
    VectorSnapshot,
)
from lagotto.indexes.bm25 import idf
from lagotto.indexes.text_query import Likeness, Match, Term, TextQuery, Word, single_words
from lagotto.indexes.vectors.index import EmbeddedVectors
from lagotto.stores.base import (
    DegradedLeg,
    NativeSearch,
    Passage,
    StoredChunks,
)
from lagotto.stores.sql.changelog import RecordReader
from lagotto.stores.sql.read import (
    findable_keys,
    read_neighbours,
    read_parents,
    read_passages,
    read_sources,
    read_stored,
    read_vectors,
)
from lagotto.terms.vocabulary import MOST_CORRECTIONS, MOST_SIMILAR

PROPOSED, MOST_LOOKED_UP = 20, 20
"""Where a filter hides chunks, so many of the terms like a word are looked up among the others, for
so many words of a query: each takes a search."""

FEW_PASSAGES = 50
"""So many are read in less time than changing threads takes."""


class SqlView:
    """One state of the record, a snapshot of each index at that state, and a set of chunks.

    Only the record reader and the snapshots differ between databases. `vectors` is None as long as
    there are none.
    """

    def __init__(
        self,
        record: RecordReader,
        *,
        text: TextSnapshot,
        vectors: VectorSnapshot | None,
        allowed: FilterKeys | None,
        languages: Sequence[str | None],
        generation: int,
        native: NativeSearch | None = None,
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
        self.native = native
        self._allow(allowed)

    def _allow(self, allowed: FilterKeys | None) -> None:
        self._allowed = allowed
        if self.native is not None:
            self.native = self.native.within(allowed)

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
        rest = copy(self)
        where = self._allowed.where if self._allowed else None
        rest._allow(FilterKeys(np.setdiff1d(seen, hidden, assume_unique=True), where=where))
        return rest

    async def _all_keys(self) -> ChunkKeys:
        """Keys of all chunks that can be found, ascending."""
        if isinstance(self._vectors, EmbeddedVectors):  # which has them in memory
            return self._vectors.rows.keys
        return await self._record.ask(findable_keys)

    async def corrections(self, words: Sequence[str]) -> list[tuple[Term, ...]]:
        asked = words if self._allowed is None else words[:MOST_LOOKED_UP]
        known = await self._held(asked)
        unknown = [word for word in asked if word not in known]
        if not unknown:
            return [()] * len(words)
        found = await self._text.alike(unknown, Likeness(limit=self._depth(MOST_CORRECTIONS)))
        corrected = dict(zip(unknown, found, strict=True))
        return [await self._seen(corrected.get(word, ()), limit=MOST_CORRECTIONS) for word in words]

    async def similar(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        asked = words if self._allowed is None else words[:MOST_LOOKED_UP]
        found = await self._text.alike(asked, Likeness(threshold, self._depth(MOST_SIMILAR)))
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
        prefetched = self.native.prefetched if self.native else {}
        found = {key: prefetched[key] for key in wanted if key in prefetched}
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
