"""A bundle: documents as sources for people, chunks as evidence for a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lagotto.documents import Chunk, Document, Vector
from lagotto.prefs import RetrievalPrefs
from lagotto.results import (
    CandidateItem,
    EvidenceChunk,
    LegScore,
    RetrievalBundle,
    RetrievalStats,
    SnippetFrom,
)
from lagotto.retrieval.diversity import cap
from lagotto.retrieval.explanation import leg_scores
from lagotto.retrieval.fusion import Fused
from lagotto.retrieval.grouping import DocumentGroups, collapse
from lagotto.retrieval.late import LateParts, LateQuery, late_evidence
from lagotto.retrieval.pipeline import Found, Search, document_of
from lagotto.retrieval.ranking import Ranked, good_enough, total_order
from lagotto.retrieval.snippets import Snippet, snippet
from lagotto.stores.base import Passage, View

DEEPER = 4
"""How much deeper to look where the chunks found are of too few documents."""


MOST_CHARACTERS = 20_000
"""Of a whole document so much is looked at for a snippet: every word of it is analysed."""


@dataclass(frozen=True, slots=True)
class Source:
    """A document that was found, what each leg says of it, and its best chunk."""

    document: Document
    score: float
    legs: Mapping[str, LegScore]
    best_chunk: Chunk


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks that were found, best first, and the documents they are of."""

    found: Found
    ranked: Sequence[Ranked]
    sources: DocumentGroups


class BundleSearch:
    """One query for a bundle: documents first, then the passages that matter in them."""

    def __init__(self, search: Search, prefs: RetrievalPrefs, late: LateParts) -> None:
        self._search = search
        self._prefs = prefs
        self._late = late

    async def bundle(self, *, vector: Vector | None = None) -> RetrievalBundle:
        """The best `top_k_items` documents and `top_k_chunks` chunks of them."""
        stage = self._search.stopwatch.stage
        with stage("documents"):
            chunks = await self._enough_documents(vector)
            sources = self._best_sources(chunks)
        with stage("evidence"):
            evidence, counts = await self._evidence(chunks, sources)
        with stage("snippets"):
            candidates = await self._candidates(chunks.found.view, sources, evidence)
        counts |= {
            "candidate_chunks": len(chunks.ranked),
            "candidate_documents": len(chunks.sources.documents),
            "items": len(candidates),
            "evidence": len(evidence),
        }
        return RetrievalBundle(candidates=candidates, evidence=evidence, stats=self._stats(counts))

    async def _enough_documents(self, vector: Vector | None) -> Chunks:
        """Looks deeper until there are as many documents as asked for, or no more to be found."""
        depth = self._prefs.depth(self._prefs.top_k_items)
        found = await self._search.find(depth=depth, vector=vector)
        while True:
            passages = await found.view.passages(found.candidates.keys)
            sources = collapse(found.candidates, passages)
            full = [np.count_nonzero(leg.ranks) >= depth for leg in found.candidates.legs.values()]
            if len(sources.documents) >= self._prefs.top_k_items or not any(full):
                return Chunks(found, _ranked(found, passages), sources)
            depth *= DEEPER
            found = await self._search.look_deeper(found, depth=depth)

    def _best_sources(self, chunks: Chunks) -> list[Source]:
        """The documents in a total order: score, best rank in a leg, collection and id."""
        sources = chunks.sources
        fused = self._search.fused(sources.candidates, chunks.found.analysis.weights)
        best_chunks = {document_of(item): item for item in reversed(chunks.ranked)}
        order = np.lexsort((sources.candidates.best_ranks(), -fused.scores))
        best = [
            self._source(int(place), sources, fused, best_chunks)
            for place in order[: self._prefs.top_k_items]
        ]
        least = max(self._prefs.min_score, self._prefs.scoring.min_score or 0.0)
        return [source for source in best if source.score >= least]

    def _source(
        self,
        place: int,
        sources: DocumentGroups,
        fused: Fused,
        best_chunks: Mapping[tuple[str, str], Ranked],
    ) -> Source:
        document = sources.documents[place]
        best = best_chunks[document.collection, document.id]
        legs = leg_scores(place, sources.candidates, fused)
        return Source(document, float(fused.scores[place]), legs, best.passage.chunk)

    async def _evidence(
        self, chunks: Chunks, sources: Sequence[Source]
    ) -> tuple[list[EvidenceChunk], dict[str, int]]:
        if self._prefs.chunking.strategy == "precomputed":
            return self._stored_evidence(chunks, sources), {}
        names = [(source.document.collection, source.document.id) for source in sources]
        legs = chunks.found.analysis.legs
        made = await late_evidence(
            chunks.found.view,
            await chunks.found.view.sources(names),
            query=LateQuery(
                legs.text and legs.text.by_terms(), legs.semantic, chunks.found.analysis.excluded
            ),
            prefs=self._prefs,
            parts=self._late,
        )
        evidence = [
            _evidence_chunk(
                item.chunk, item.score, score_text=item.score_text, score_vec=item.score_vec
            )
            for item in made.items
        ]
        return evidence, dict(made.counts)

    def _stored_evidence(self, chunks: Chunks, sources: Sequence[Source]) -> list[EvidenceChunk]:
        kept = {(source.document.collection, source.document.id) for source in sources}
        ranked = [item for item in chunks.ranked if document_of(item) in kept]
        ranked = good_enough(ranked, self._prefs.scoring.min_score)
        ranked = cap(ranked, key=document_of, most=self._prefs.per_item_chunk_cap)
        return [
            self._stored_chunk(item, chunks.found) for item in ranked[: self._prefs.top_k_chunks]
        ]

    def _stored_chunk(self, item: Ranked, found: Found) -> EvidenceChunk:
        legs = leg_scores(item.place, found.candidates, found.fused)
        return _evidence_chunk(
            item.passage.chunk,
            item.score,
            score_text=_score(legs.get("text")),
            score_vec=_score(legs.get("semantic")),
        )

    async def _candidates(
        self, view: View, sources: Sequence[Source], evidence: Sequence[EvidenceChunk]
    ) -> list[CandidateItem]:
        """The documents, each shown by its best passage, or by its summary or beginning."""
        passages = {_source_of(item): item.text for item in reversed(evidence)}
        names = [(source.document.collection, source.document.id) for source in sources]
        if self._prefs.snippet.prefer_chunk_snippet:
            texts = {
                name: passages.get(name, source.best_chunk.text)
                for name, source in zip(names, sources, strict=True)
            }
        else:
            whole = await view.sources(names)
            texts = {(item.collection, item.id): item.summary or item.text for item in whole}
        pairs = zip(names, sources, strict=True)
        return [_candidate(source, *self._snippet(source, texts[name])) for name, source in pairs]

    def _snippet(self, source: Source, text: str) -> tuple[Snippet | None, SnippetFrom]:
        if not text.strip():
            return None, "unknown"
        wanted = self._prefs.snippet
        shown = snippet(
            text[:MOST_CHARACTERS],
            self._prefs.query_text,
            language=source.document.language,
            max_chars=wanted.max_chars,
        )
        return shown, "chunk" if wanted.prefer_chunk_snippet else "doc"

    def _stats(self, counts: dict[str, int]) -> RetrievalStats:
        degraded = self._search.degradation.notes
        if not self._prefs.debug:
            return RetrievalStats(degraded=degraded)
        return RetrievalStats(
            timing_ms=self._search.stopwatch.milliseconds(),
            counts=counts,
            params=self._prefs.model_dump(mode="json"),
            degraded=degraded,
        )


def _source_of(item: EvidenceChunk) -> tuple[str, str]:
    return (item.anchors or {})["collection"], item.item_id


def _ranked(found: Found, passages: Sequence[Passage]) -> list[Ranked]:
    best_ranks = found.candidates.best_ranks()
    scores = found.fused.scores
    ranked = [
        Ranked(passage, float(scores[place]), place, int(best_ranks[place]))
        for place, passage in enumerate(passages)
    ]
    return sorted(ranked, key=total_order)


def _candidate(source: Source, shown: Snippet | None, origin: SnippetFrom) -> CandidateItem:
    document, text, semantic = source.document, source.legs.get("text"), source.legs.get("semantic")
    return CandidateItem(
        item_id=document.id,
        kind=document.kind,
        source=document.source,
        source_ref=document.source_ref,
        title=document.title,
        summary=document.summary,
        metadata=document.metadata,
        score=source.score,
        score_text=_score(text),
        score_vec=_score(semantic),
        rank_text=text.rank if text else None,
        rank_vec=semantic.rank if semantic else None,
        snippet=shown.text if shown else None,
        snippet_highlights=shown.highlights if shown else (),
        snippet_from=origin,
    )


def _evidence_chunk(
    chunk: Chunk, score: float, *, score_text: float | None, score_vec: float | None
) -> EvidenceChunk:
    anchors = {
        "collection": chunk.collection,
        "pages": chunk.pages,
        "rows": chunk.row_range,
        "items": chunk.item_range,
        "element": chunk.element,
        "parent_id": chunk.parent_id,
    }
    return EvidenceChunk(
        item_id=chunk.document_id,
        chunk_id=chunk.id,
        text=chunk.text,
        start_idx=chunk.start,
        end_idx=chunk.end,
        token_count=chunk.token_count,
        score=score,
        score_text=score_text,
        score_vec=score_vec,
        heading_path=list(chunk.heading_path),
        anchors={name: value for name, value in anchors.items() if value is not None},
    )


def _score(said: LegScore | None) -> float | None:
    return None if said is None else said.score
