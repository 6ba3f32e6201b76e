"""Late chunking: documents are found whole, and their chunks are made and scored at query time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER, Chunker, chunk_document
from lagotto.chunkers.boundaries import measuring_tokenizer
from lagotto.documents import Chunk, Document, DocumentRef, Vectors
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.errors import NativeEmbeddingError
from lagotto.filters import And, matches
from lagotto.indexes.base import ChunkKeys, Hits
from lagotto.indexes.bm25 import CountedTerms, idf
from lagotto.indexes.text_query import TextQuery, as_word, holds
from lagotto.prefs import RetrievalPrefs
from lagotto.results import Leg
from lagotto.retrieval import recall
from lagotto.retrieval.fusion import Candidates, LegScores, Scores
from lagotto.retrieval.recall import LegQuery, QueryPlan, SemanticQuery, TrigramTextQuery
from lagotto.stores.base import CachedChunks, CacheKey, ChunkCacheRepo, Passage, View


async def late_candidates(
    view: View, documents: Sequence[Document], plan: QueryPlan, maker: ChunkMaker
) -> tuple[LateChunkSource, Candidates]:
    """All chunks of `documents`, which are whole, that some leg of the query finds.

    With the strategy `late` they are made now or come from the cache; with `mixed` the stored
    ones are taken where they were made by the chunker and the model that are asked for.
    """
    text, prefs = plan.legs.text, maker.prefs
    # BM25 over the words: the server does not have these chunks
    legs = replace(plan.legs, text=text and replace(text, native=None))
    if text is not None and text.native is not None:  # its threshold is on the server's scale
        prefs = prefs.replace(fts={"min_rank": None})
    stored: dict[DocumentRef, ChunkKeys] = {}
    if prefs.chunking.strategy == "mixed":
        records = await view.stored([item.ref for item in documents])
        stored = {
            DocumentRef(*name): item.keys
            for name, item in records.items()
            if (item.chunker_id, item.model_id) == maker.made_by
        }
    rest = [item for item in documents if item.ref not in stored]
    source = await _late_source(view, rest, plan, maker)
    keys = np.concatenate([np.empty(0, np.int64), *stored.values()])
    scored: dict[Leg, LegScores] = {}
    for leg, query in legs.active().items():
        of_stored, of_source = await recall.scores_of(query, view, keys), await source.scores(query)
        listing = [_matched_by_score(query, of_stored), await source.matched(query, of_source)]
        least = recall.least_scores(prefs).get(leg)
        if isinstance(query, TrigramTextQuery):
            least = query.threshold
        scores = np.concatenate([of_stored, of_source])
        scored[leg] = _ranked(scores, np.concatenate(listing), least=least)
    maker.counts["chunks_stored"] = len(keys)
    keys = np.concatenate([keys, -1 - np.arange(len(source.texts))])
    return source, _listed(keys, scored)


def _matched_by_score(query: LegQuery, scores: Scores) -> NDArray[np.bool_]:
    """Every chunk is near a vector to some degree; words and wordings match or don't."""
    return np.full(len(scores), True) if isinstance(query, SemanticQuery) else scores > 0


def _ranked(scores: Scores, mask: NDArray[np.bool_], *, least: float | None) -> LegScores:
    if least is not None:
        mask = mask & (scores >= least)
    rows = np.flatnonzero(mask)
    order = rows[np.argsort(-scores[rows], kind="stable")]
    best = Hits(order, scores[order].astype(np.float32))
    return LegScores(scores, recall.listed(best, np.arange(len(scores))).ranks)


def _listed(keys: ChunkKeys, scored: Mapping[Leg, LegScores]) -> Candidates:
    """The chunks that any leg finds; exact wordings that no chunk holds are no leg."""
    legs = {leg: item for leg, item in scored.items() if leg != "exact" or (item.ranks > 0).any()}
    in_a_list = np.any([item.ranks > 0 for item in legs.values()], axis=0) if legs else keys < 0
    rows = np.flatnonzero(in_a_list)
    listings = {leg: LegScores(item.scores[rows], item.ranks[rows]) for leg, item in legs.items()}
    return Candidates(keys[rows], listings, depth=len(keys))


async def _late_source(
    view: View, documents: Sequence[Document], plan: QueryPlan, maker: ChunkMaker
) -> LateChunkSource:
    """The chunks that are made, as far as the query and its filter allow them."""
    prefs = maker.prefs
    embed = plan.legs.semantic is not None or prefs.diversity.mmr is not None
    sets = await maker.chunks(documents, embed=embed)
    texts: list[IndexedText] = []
    for document, entry in zip(documents, sets, strict=True):
        texts += await in_thread(
            index_text,
            document,
            [chunk for chunk in entry.chunks if chunk.level != "parent"],
            headers=prefs.chunking.include_headers,
            main_language=next(iter(view.languages), None),
        )
    where, excluded = prefs.filters, plan.excluded

    def allowed() -> list[int]:
        return [
            row
            for row, text in enumerate(with_checkpoints(texts))
            if (excluded is None or not holds(excluded, text.text.terms))
            and (where == And() or matches(where, text.document, text.chunk))
        ]

    rows = await in_thread(allowed)
    vectors = [item.vectors for item in sets if len(item.vectors)]
    joined = np.concatenate(vectors) if vectors else np.zeros((0, 0), np.float32)
    by_document = {item.ref: entry.chunks for item, entry in zip(documents, sets, strict=True)}
    return LateChunkSource(view, [texts[row] for row in rows], joined[rows], by_document)


@dataclass(frozen=True, slots=True)
class LateChunkSource:
    """Made chunks by negative keys, -1 for the first of `texts`; stored ones by those of the view.

    `sets` are all chunks that were made of each document, parents included.
    """

    view: View
    texts: Sequence[IndexedText]
    late_vectors: Vectors
    sets: Mapping[DocumentRef, Sequence[Chunk]]

    async def passages(self, keys: ChunkKeys) -> list[Passage]:
        known = {item.key: item for item in await self.view.passages(keys[keys >= 0])}
        for key in keys[keys < 0].tolist():
            text = self.texts[-1 - key]
            known[key] = Passage(key, text.chunk, text.document)
        return [known[key] for key in keys.tolist() if key in known]

    async def vectors(self, keys: ChunkKeys) -> Vectors:
        is_late = keys < 0
        stored = await self.view.vectors(keys[~is_late])
        if not is_late.any():
            return stored
        rows = np.empty((len(keys), self.late_vectors.shape[1]), np.float32)
        rows[is_late] = self.late_vectors[-1 - keys[is_late]]
        if len(stored):
            rows[~is_late] = stored
        return rows

    async def parents(self, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
        late, stored = self._made_of(chunks)
        wanted = {chunk.parent_id for chunk in chunks}
        made = {parent.id: parent for parent in late if parent.id in wanted}
        return made | await self.view.parents(stored)

    async def neighbours(self, chunks: Sequence[Chunk], *, near: int, across: int) -> list[Chunk]:
        late, stored = self._made_of(chunks)
        return late + await self.view.neighbours(stored, near=near, across=across)

    def _made_of(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
        """The chunks made of the same documents, and those of `chunks` that are stored."""
        names = dict.fromkeys(chunk.document_ref for chunk in chunks)
        late = [chunk for name in names for chunk in self.sets.get(name, ())]
        return late, [chunk for chunk in chunks if chunk.document_ref not in self.sets]

    async def scores(self, query: LegQuery) -> Scores:
        if not self.texts:
            return np.zeros(0)
        if isinstance(query, SemanticQuery):
            return query.scaled(self.late_vectors @ query.vector)
        if isinstance(query, TextQuery):
            idfs = await self.view.idf([as_word(word) for word in query.words])
            return await in_thread(bm25, self.texts, query, idfs=idfs)
        return await self._each(lambda one: query.score_of(one.chunk.text, one.text.terms))

    async def matched(self, query: LegQuery, scores: Scores) -> NDArray[np.bool_]:
        if isinstance(query, TextQuery):
            return await self._each(lambda one: one.text.found_by(query)) > 0
        return _matched_by_score(query, scores)

    async def _each(self, score: Callable[[IndexedText], float]) -> Scores:
        def scores() -> Scores:
            return np.array([score(one) for one in with_checkpoints(self.texts)], np.float64)

        return await in_thread(scores)


WHOLE = "document"
"""The chunker of bases that hold whole documents, of no use at query time."""

CHUNKS_AT_ONCE = 512
"""About how many chunks are embedded before they are cached, and lost if a search is cancelled."""

Work = tuple[Document, list[Chunk]]


class ChunkMaker:
    """Cuts whole documents with one chunker and embeds their chunks, or takes them from the cache.

    As `prefs` ask for, by default with the base's own chunker, `chunker_id`. `counts` has the
    number of chunks made, cached and stored, and of sets written. A document that can't be cut or
    embedded has no chunks; `problems` says why.
    """

    def __init__(
        self,
        prefs: RetrievalPrefs,
        chunker_id: str,
        vectors: ChunkEmbedder,
        cache: ChunkCacheRepo | None,
    ) -> None:
        embedder, chunking = vectors.embedder, prefs.chunking
        self.chunker: Chunker = CHUNKERS.create(
            chunking.chunker_id or (DEFAULT_CHUNKER if chunker_id == WHOLE else chunker_id),
            tokenizer=measuring_tokenizer(embedder.tokenizer, embedder.info.alphabets),
            size=chunking.max_chunk_tokens,
            overlap=chunking.overlap_tokens,
        )
        self.vectors = vectors.with_headers(chunking.include_headers)
        self.prefs, self.cache = prefs, cache
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    @property
    def made_by(self) -> tuple[str, str]:
        return self.chunker.id, self.vectors.model_id

    async def chunks(self, documents: Sequence[Document], *, embed: bool) -> list[CachedChunks]:
        """The chunks of each document with their vectors, of dimension 0 if none are needed.

        A cancelled search has cached what it finished, a document at a time.
        """
        keys = [self._key(document) for document in documents]
        by_key = await self._load(keys) if embed else {}
        missing = [item for key, item in zip(keys, documents, strict=True) if key not in by_key]
        for group in _groups(await self._cut(missing)):
            embeddings: Sequence[Vectors | NativeEmbeddingError]
            if embed:
                embeddings = await self.vectors.embed_each(group)
            else:
                counts = (sum(chunk.level != "parent" for chunk in chunks) for _, chunks in group)
                embeddings = [np.zeros((count, 0), np.float32) for count in counts]
            sets = {}
            for (document, chunks), vectors in zip(group, embeddings, strict=True):
                if isinstance(vectors, NativeEmbeddingError):
                    self._failed(document, vectors)
                else:
                    sets[self._key(document)] = CachedChunks(chunks, vectors)
            if embed and self.cache is not None and self.prefs.cache.write_chunk_cache:
                await self.cache.save(sets, ttl=self.prefs.cache.ttl_seconds)
                self.counts["chunk_sets_kept"] += len(sets)
            by_key |= sets
        none = CachedChunks([], np.zeros((0, self.vectors.embedder.info.dimension), np.float32))
        return [by_key.get(key, none) for key in keys]

    async def _cut(self, documents: Sequence[Document]) -> list[Work]:
        works = []
        for document in documents:  # one by one, so that a cancellation is noticed in between
            try:
                chunks = await asyncio.to_thread(chunk_document, self.chunker, document)
            except Exception as exc:  # noqa: BLE001 a chunker of another package may raise anything
                self._failed(document, exc)
                continue
            works.append((document, chunks))
            self.counts["chunks_made"] += len(chunks)
        return works

    def _failed(self, document: Document, error: Exception) -> None:
        self.problems.append(f"{document.id} is left out ({error})")

    async def _load(self, keys: Sequence[CacheKey]) -> dict[CacheKey, CachedChunks]:
        if self.cache is None or not self.prefs.cache.use_chunk_cache:
            return {}
        # A service may change its model and keep the name, which is all that a key has of it.
        dimension = self.vectors.embedder.info.dimension
        loaded = await self.cache.load(keys)
        fitting = {key: item for key, item in loaded.items() if item.vectors.shape[1] == dimension}
        self.counts["chunks_cached"] += sum(len(item.chunks) for item in fitting.values())
        return fitting

    def _key(self, document: Document) -> CacheKey:
        return CacheKey(*document.ref, document.content_hash, *self.made_by)


def _groups(works: Sequence[Work]) -> Iterator[list[Work]]:
    """Whole documents together that have some hundred chunks."""
    group: list[Work] = []
    for work in works:
        group.append(work)
        if sum(len(chunks) for _, chunks in group) >= CHUNKS_AT_ONCE or work is works[-1]:
            yield group
            group = []


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A chunk as a text index would see it."""

    document: Document
    chunk: Chunk
    text: CountedTerms


def index_text(
    document: Document, chunks: Sequence[Chunk], *, headers: bool, main_language: str | None = None
) -> list[IndexedText]:
    """Analyse chunks as an index does; with `headers` under their title and headings.

    `main_language` stands in for an unknown one.
    """
    language = document.language or main_language
    indexed = []
    for chunk in chunks:
        bare = chunk.text and not headers
        text = chunk.text if bare else chunk.in_context(document.title)
        indexed.append(IndexedText(document, chunk, CountedTerms.of(text, language)))
    return indexed


def bm25(texts: Sequence[IndexedText], query: TextQuery, *, idfs: Scores) -> Scores:
    """The BM25 score of each text; `idfs` are those of the query's words in the store.

    Where the store holds whole documents, a word that many of them hold may still be rare among
    these chunks, so the greater IDF counts. Lengths are compared with the mean of these chunks.
    """
    mean = sum(len(item.text.terms) for item in texts) / len(texts) or 1.0
    here = [
        idf(sum(item.text.found_by(TextQuery((word,))) for item in texts), count=len(texts))
        for word in with_checkpoints(query.words)
    ]
    greater = np.maximum(idfs, here).tolist()
    scores = [item.text.score(query, greater, mean=mean) for item in with_checkpoints(texts)]
    return np.array(scores, np.float64)
