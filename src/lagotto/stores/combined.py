"""Two stores as one: vectors are searched in one of them, words in the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Document
from lagotto.errors import StoreError
from lagotto.filters import Filter
from lagotto.indexes.base import ChunkKeys, Hits
from lagotto.indexes.text_query import Match, TextQuery
from lagotto.stores.base import Capabilities, ChunkCacheRepo, Passage, SearchableStore, View

ChunkName = tuple[str, str, str]
"""Collection, document and id of a chunk: the same in every store that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedStore:
    """Searches vectors in `vector_store` and words in `fts_store`, which hold the same chunks.

    Passages are read from `vector_store`; what words find that it does not hold is left out. The
    stores are written to by themselves.
    """

    vector_store: SearchableStore
    fts_store: SearchableStore

    @property
    def location(self) -> str:
        return f"{self.vector_store.location} and {self.fts_store.location}"

    @property
    def capabilities(self) -> Capabilities:
        meaning, words = self.vector_store.capabilities, self.fts_store.capabilities
        return Capabilities(semantic=meaning.semantic, text=words.text, fuzzy=words.fuzzy)

    @property
    def chunk_cache(self) -> ChunkCacheRepo | None:
        return self.vector_store.chunk_cache

    async def get(self, collection: str, document_id: str) -> Document | None:
        return await self.vector_store.get(collection, document_id)

    @asynccontextmanager
    async def view(self, where: Filter) -> AsyncIterator[CombinedView]:
        async with self.vector_store.view(where) as vectors, self.fts_store.view(where) as words:
            yield CombinedView(vectors, words)


def _name(passage: Passage) -> ChunkName:
    return passage.document.collection, passage.document.id, passage.chunk.id


class CombinedView:
    """A View of two stores; keys are those of the store with the vectors."""

    native = None
    immediate = False

    def __init__(self, vectors: View, words: View) -> None:
        self._views = (vectors, words)
        self._known: set[tuple[str, str]] = set()
        self._keys: tuple[dict[ChunkName, int], dict[ChunkName, int]] = ({}, {})
        """The keys of the same chunks in both, as far as they were asked for."""
        self.generation = vectors.generation
        self.languages = words.languages
        self.synonyms = words.synonyms
        self.degraded = (*vectors.degraded, *words.degraded)
        self.filter_notes = tuple(dict.fromkeys((*vectors.filter_notes, *words.filter_notes)))
        self.semantic = vectors.semantic
        self.semantic_scores = vectors.semantic_scores
        self.vectors = vectors.vectors
        self.passages = vectors.passages
        self.parents = vectors.parents
        self.neighbours = vectors.neighbours
        self.sources = vectors.sources
        self.stored = vectors.stored
        self.idf = words.idf
        self.corrections = words.corrections
        self.similar = words.similar

    async def text(self, query: TextQuery, *, k: int) -> Hits:
        hits = await self._views[1].text(query, k=k)
        keys, indices = await self._translated(hits.keys, to_vectors=True)
        if len(hits.keys) and not len(indices):
            raise StoreError(
                "the store of the vectors has none of the chunks that words found; fill both "
                "stores with the same documents and the same chunker"
            )
        return Hits(keys, hits.scores[indices])

    async def text_scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        own, indices = await self._translated(keys, to_vectors=False)
        scores = np.zeros(len(keys), np.float32)
        if len(indices):
            scores[indices] = await self._views[1].text_scores(query, own)
        return scores

    async def excluding(self, match: Match) -> View:
        vectors, words = self._views
        return CombinedView(await vectors.excluding(match), await words.excluding(match))

    async def _translated(
        self, keys: ChunkKeys, *, to_vectors: bool
    ) -> tuple[ChunkKeys, NDArray[np.intp]]:
        """Those of `keys` of the one view that the other has: there, and their indexes here."""
        source, target = (1, 0) if to_vectors else (0, 1)
        passages = await self._views[source].passages(keys)
        names = {passage.key: _name(passage) for passage in passages}
        await self._load({name[:2] for name in names.values()})
        known = self._keys[target]
        indices = [index for index, key in enumerate(keys.tolist()) if names.get(key) in known]
        there = [known[names[key]] for key in keys[indices].tolist()]
        return np.array(there, np.int64), np.array(indices, np.intp)

    async def _load(self, documents: set[tuple[str, str]]) -> None:
        new = sorted(documents - self._known)
        for view, keys in zip(self._views, self._keys, strict=True) if new else ():
            stored = await view.stored(new)
            parts = [chunks.keys for chunks in stored.values()]
            everything = np.concatenate([np.empty(0, np.int64), *parts])
            keys |= {_name(passage): passage.key for passage in await view.passages(everything)}
        self._known.update(new)
