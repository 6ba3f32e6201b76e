"""Late chunking: documents are found whole, and split into chunks at query time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER, Chunker, chunk_document
from lagotto.documents import Chunk, Document
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.prefs import CachePrefs, ChunkingPrefs, RetrievalPrefs
from lagotto.stores.base import CachedChunks, CacheKey, ChunkCacheRepo
from lagotto.tokens import Tokenizer

WHOLE = "document"
"""The chunker of bases that hold whole documents, of no use at query time."""

CHUNKS_AT_ONCE = 512
"""About how many chunks are embedded before they are cached, and lost if a search is cancelled."""

Work = tuple[Document, list[Chunk]]


@dataclass(frozen=True, slots=True)
class LateChunking:
    """The parts that late chunking works with; `chunker_id` is the base's own chunker."""

    chunker_id: str
    tokenizer: Tokenizer
    vectors: ChunkEmbedder
    cache: ChunkCacheRepo | None = None

    def maker(self, prefs: RetrievalPrefs) -> ChunkMaker:
        """Makes chunks as `prefs` ask for."""
        chunking = prefs.chunking
        return ChunkMaker(
            late_chunker(chunking, chunker_id=self.chunker_id, tokenizer=self.tokenizer),
            self.vectors.with_headers(chunking.include_headers),
            self.cache,
            prefs.cache,
        )


def late_chunker(prefs: ChunkingPrefs, *, chunker_id: str, tokenizer: Tokenizer) -> Chunker:
    """The chunker that is asked for, by default the base's own, with the sizes asked for."""
    own = DEFAULT_CHUNKER if chunker_id == WHOLE else chunker_id
    return CHUNKERS.create(
        prefs.chunker_id or own,
        tokenizer=tokenizer,
        size=prefs.max_chunk_tokens,
        overlap=prefs.overlap_tokens,
    )


@dataclass(slots=True)
class ChunkMaker:
    """Cuts whole documents with one chunker and embeds their chunks, or takes them from the cache.

    `counts` has the number of chunks made and cached, and of the sets that were written.
    """

    chunker: Chunker
    vectors: ChunkEmbedder
    cache: ChunkCacheRepo | None = None
    prefs: CachePrefs = field(default_factory=CachePrefs)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def made_by(self) -> tuple[str, str]:
        """The chunker and the model of its chunks."""
        return self.chunker.id, self.vectors.model_id

    async def cut(self, documents: Sequence[Document]) -> list[CachedChunks]:
        """The chunks of each document, with vectors of dimension 0."""
        sets = []
        for _, chunks in await self._cut(documents):
            findable = sum(chunk.level != "parent" for chunk in chunks)
            sets.append(CachedChunks(chunks, np.zeros((findable, 0), np.float32)))
        return sets

    async def embedded(self, documents: Sequence[Document]) -> list[CachedChunks]:
        """The chunks of each document with their vectors.

        A cancelled search has cached what it finished, a document at a time.
        """
        keys = [self._key(document) for document in documents]
        found = await self._load(keys)
        missing = [item for key, item in zip(keys, documents, strict=True) if key not in found]
        for group in _groups(await self._cut(missing)):
            made = await self.vectors.embed(group)
            sets = {
                self._key(document): CachedChunks(chunks, vectors)
                for (document, chunks), vectors in zip(group, made, strict=True)
            }
            await self._save(sets)
            found |= sets
        return [found[key] for key in keys]

    async def _cut(self, documents: Sequence[Document]) -> list[Work]:
        works = []
        for document in documents:  # one by one, so that a cancellation is noticed in between
            chunks = await asyncio.to_thread(chunk_document, self.chunker, document)
            works.append((document, chunks))
            self.counts["chunks_made"] += len(chunks)
        return works

    async def _load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        if self.cache is None or not self.prefs.use_chunk_cache:
            return {}
        dimension = self.vectors.embedder.info.dimension
        loaded = await self.cache.load(keys)
        fitting = {key: kept for key, kept in loaded.items() if kept.vectors.shape[1] == dimension}
        self.counts["chunks_cached"] += sum(len(kept.chunks) for kept in fitting.values())
        return fitting

    async def _save(self, sets: Mapping[CacheKey, CachedChunks]) -> None:
        if self.cache is not None and self.prefs.write_chunk_cache:
            await self.cache.save(sets, ttl=self.prefs.ttl_seconds)
            self.counts["chunk_sets_kept"] += len(sets)

    def _key(self, document: Document) -> CacheKey:
        content = (document.collection, document.id, document.content_hash)
        return CacheKey(*content, *self.made_by)


def _groups(works: Sequence[Work]) -> Iterator[list[Work]]:
    """Whole documents together that have some hundred chunks."""
    group: list[Work] = []
    count = 0
    for work in works:
        group.append(work)
        count += len(work[1])
        if count >= CHUNKS_AT_ONCE:
            yield group
            group, count = [], 0
    if group:
        yield group
