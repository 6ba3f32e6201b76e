"""Late chunking: documents are found whole, and cut into chunks when they are asked about."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER, Chunker
from lagotto.documents import Chunk, Document, Vector, Vectors
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.filters import And, matches
from lagotto.indexes.text_query import Match, TextQuery
from lagotto.prefs import ChunkingPrefs, RetrievalPrefs, ScoringPrefs
from lagotto.results import Leg
from lagotto.retrieval.fusion import Candidates, LegScores, Scores, fuse
from lagotto.retrieval.late_chunks import LateChunks
from lagotto.retrieval.unindexed_bm25 import TermCounts, bm25, count_terms, query_texts
from lagotto.stores.base import ChunkCache, View
from lagotto.tokens import Tokenizer

WHOLE = "document"
"""The chunker of bases that hold whole documents, of no use at query time."""

LINEAR = ScoringPrefs()
"""Chunks are scored by absolute scores, whichever way documents are found."""

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LateParts:
    """What late chunking works with; `chunker_id` is the base's own chunker."""

    chunker_id: str
    tokenizer: Tokenizer
    vectors: ChunkEmbedder
    cache: ChunkCache | None = None


@dataclass(frozen=True, slots=True)
class LateQuery:
    """What chunks are scored by: words, a vector, or both; those that are excluded don't count."""

    text: TextQuery | None = None
    vector: Vector | None = None
    excluded: Match | None = None


@dataclass(frozen=True, slots=True)
class LateItem:
    """A chunk that supports an answer; a score is None if the query has nothing to score it by."""

    chunk: Chunk
    document: Document
    score: float
    score_vec: float | None
    score_text: float | None


@dataclass(frozen=True, slots=True)
class LateEvidence:
    """The best chunks, and how many were made, came from the cache, or are stored."""

    items: list[LateItem]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Row:
    """A chunk of the document called `name` with its scores; a stored one is known by its key."""

    name: Name
    chunk: Chunk | int
    score_vec: float
    score_text: float


def late_chunker(prefs: ChunkingPrefs, *, chunker_id: str, tokenizer: Tokenizer) -> Chunker:
    """The chunker that is asked for, by default the base's own, with the sizes asked for."""
    own = DEFAULT_CHUNKER if chunker_id == WHOLE else chunker_id
    return CHUNKERS.create(
        prefs.chunker_id or own,
        tokenizer=tokenizer,
        size=prefs.max_chunk_tokens,
        overlap=prefs.overlap_tokens,
    )


async def late_evidence(
    view: View,
    documents: Sequence[Document],
    *,
    query: LateQuery,
    prefs: RetrievalPrefs,
    parts: LateParts,
) -> LateEvidence:
    """The chunks of `documents`, which are whole, that answer a query best.

    With the strategy `late` all chunks are made now, or come from the cache; with `precomputed`
    the stored ones are taken; with `mixed` the stored ones where they were made by the chunker
    that is asked for. A document gives at most `per_item_chunk_cap` of the `top_k_chunks`. They
    are in a total order: score, collection, document, place in it.
    """
    chunking = prefs.chunking
    late = LateChunks(
        late_chunker(chunking, chunker_id=parts.chunker_id, tokenizer=parts.tokenizer),
        parts.vectors.with_headers(chunking.include_headers),
        parts.cache,
        prefs.cache,
    )
    rows: list[_Row] = []
    if chunking.strategy != "late":
        made_by = (late.chunker.id, late.vectors.model_id)
        wanted = made_by if chunking.strategy == "mixed" else None
        rows = await _stored_rows(view, [_name(item) for item in documents], query, wanted)
    counts = Counter(chunks_stored=len(rows))
    if chunking.strategy != "precomputed":
        known = {row.name for row in rows}
        rest = [item for item in documents if _name(item) not in known]
        rows += await _made_rows(view, rest, late, query, prefs)
    rows.sort(key=lambda row: row.name)
    best = _best(rows, query, prefs, floor=parts.vectors.embedder.info.cosine_floor)
    items = await _items(view, best, {_name(item): item for item in documents}, query)
    return LateEvidence(items, dict(counts + late.counts))


async def _stored_rows(
    view: View, names: Sequence[Name], query: LateQuery, made_by: tuple[str, str] | None
) -> list[_Row]:
    """The stored chunks of documents, of those made by this chunker and model if it is given."""
    found = {
        name: stored.keys
        for name, stored in (await view.stored(names)).items()
        if made_by is None or (stored.chunker_id, stored.model_id) == made_by
    }
    keys = np.concatenate([np.empty(0, np.int64), *found.values()])
    zeros = np.zeros(len(keys), np.float32)
    by_vector = (
        zeros if query.vector is None else await view.semantic_scores(query.vector, keys)
    ).tolist()
    by_text = (zeros if query.text is None else await view.text_scores(query.text, keys)).tolist()
    owners = [name for name, some in found.items() for _ in some]
    return list(map(_Row, owners, keys.tolist(), by_vector, by_text))


async def _made_rows(
    view: View,
    documents: Sequence[Document],
    late: LateChunks,
    query: LateQuery,
    prefs: RetrievalPrefs,
) -> list[_Row]:
    """Chunks that are made now, or were for another query."""
    sets = await (late.cut(documents) if query.vector is None else late.embedded(documents))
    text = query.text or TextQuery(())
    words: list[TermCounts] = []
    rows: list[tuple[Document, Chunk, float]] = []
    for document, made in zip(documents, sets, strict=True):
        chunks = [chunk for chunk in made.chunks if chunk.level != "parent"]
        words += await asyncio.to_thread(
            count_terms,
            document,
            chunks,
            query=text,
            excluded=query.excluded,
            headers=prefs.chunking.include_headers,
        )
        cosines = _cosines(made.vectors, query.vector)
        rows += [(document, *pair) for pair in zip(chunks, cosines, strict=True)]
    idfs = await view.idf(query_texts(text))
    scores = bm25(words, query=text, idfs=idfs).tolist()
    return [
        _Row(_name(document), chunk, cosine, score)
        for (document, chunk, cosine), score, held in zip(rows, scores, words, strict=True)
        if not held.excluded and (prefs.filters == And() or matches(prefs.filters, document, chunk))
    ]


def _cosines(vectors: Vectors, vector: Vector | None) -> list[float]:
    if vector is None:
        return [0.0] * len(vectors)
    cosines: list[float] = (vectors @ vector).tolist()
    return cosines


def _best(
    rows: Sequence[_Row], query: LateQuery, prefs: RetrievalPrefs, *, floor: float
) -> list[tuple[_Row, float]]:
    """The best rows with their scores; `rows` are in the order in which ties are settled."""
    scores = _fused(rows, query, prefs, floor)
    least = prefs.scoring.min_score or 0.0
    taken: Counter[Name] = Counter()
    best: list[tuple[_Row, float]] = []
    for place in np.argsort(-scores, kind="stable"):
        row, score = rows[place], float(scores[place])
        if score < least or len(best) == prefs.top_k_chunks:
            break
        if taken[row.name] < prefs.per_item_chunk_cap:
            taken[row.name] += 1
            best.append((row, score))
    return best


def _fused(rows: Sequence[_Row], query: LateQuery, prefs: RetrievalPrefs, floor: float) -> Scores:
    unranked = np.zeros(len(rows), np.int64)
    legs: dict[Leg, LegScores] = {}
    if query.vector is not None:
        legs["semantic"] = LegScores(np.array([row.score_vec for row in rows]), unranked)
    if query.text is not None:
        legs["text"] = LegScores(np.array([row.score_text for row in rows]), unranked)
    candidates = Candidates(np.arange(len(rows)), legs)
    return fuse(candidates, prefs.scoring.weights(), LINEAR, floor=floor).scores


async def _items(
    view: View,
    best: Sequence[tuple[_Row, float]],
    documents: Mapping[Name, Document],
    query: LateQuery,
) -> list[LateItem]:
    """What is given back; stored chunks are read only now."""
    keys = [row.chunk for row, _ in best if isinstance(row.chunk, int)]
    passages = await view.passages(np.array(keys, np.int64))
    stored = {passage.key: passage.chunk for passage in passages}
    return [
        LateItem(
            chunk=stored[row.chunk] if isinstance(row.chunk, int) else row.chunk,
            document=documents[row.name],
            score=score,
            score_vec=None if query.vector is None else row.score_vec,
            score_text=None if query.text is None else row.score_text,
        )
        for row, score in best
    ]


def _name(document: Document) -> Name:
    return document.collection, document.id
