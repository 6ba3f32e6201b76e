"""The views of a search: a ranked list, or a bundle of documents and evidence.

The third one, a cited pack, is made by `lagotto.context`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from lagotto._internal.concurrency import for_each, in_thread, with_checkpoints
from lagotto._internal.memory import paused_collector
from lagotto.documents import Chunk
from lagotto.prefs import RetrievalPrefs
from lagotto.results import (
    CandidateItem,
    EvidenceChunk,
    LegScore,
    Results,
    RetrievalBundle,
    RetrievalResult,
    SnippetFrom,
    TracedCandidate,
)
from lagotto.retrieval.documents import FoundDocument, Highlighter, Snippet
from lagotto.retrieval.explain import breakdown, leg_scores
from lagotto.retrieval.fusion import Candidates, Fused
from lagotto.retrieval.pipeline import Outcome, Scored
from lagotto.retrieval.stages import Ranked, document_of, verdict_score

MANY = 1_000
"""Hits for which the garbage collector is paused: it takes half of the time of making 20,000."""

MOST_CHARACTERS = 20_000
"""The part of a whole document that is searched for a snippet: every word of it is analysed."""


async def as_list(outcome: Outcome) -> Results:
    """The passages, best first; none for a query without any text."""
    if outcome.scored is None:
        return Results()
    with outcome.diagnostics.stage("list"):
        hits = await results_of(outcome.ranked, outcome.scored)
        candidates = await results_of(outcome.seen, outcome.scored)
    return Results(hits, candidates=candidates, stats=outcome.stats(hits=len(hits)))


async def results_of(ranked: Sequence[Ranked], scored: Scored) -> list[RetrievalResult]:
    """Ranked passages as results, with the scores of every stage."""

    def make(items: Sequence[Ranked]) -> list[RetrievalResult]:
        with paused_collector() if len(items) > MANY else nullcontext():
            return [
                as_result(rank, item, scored.candidates, scored.fused)
                for rank, item in enumerate(with_checkpoints(items), 1)
            ]

    return await for_each(make, ranked)


def as_result(rank: int, item: Ranked, candidates: Candidates, fused: Fused) -> RetrievalResult:
    """The hit of that rank in the list, counted from 1."""
    chunk, document = item.passage.chunk, item.passage.document
    return RetrievalResult(
        rank=rank,
        score=item.score,
        content=chunk.text,
        chunk_id=chunk.id,
        document_id=document.id,
        document_title=document.title,
        document_source=document.source,
        document_kind=document.kind,
        collection=document.collection,
        language=document.language,
        **item.location_fields,
        metadata=document.metadata,
        parent_id=chunk.parent_id,
        parent_content=item.parent.text if item.parent else None,
        section=item.section,
        child_id=item.child.id if item.child else None,
        answerable=item.answerable,
        evidence=item.evidence,
        breakdown=breakdown(
            item.row, candidates, fused, rerank=item.rerank, rerank_score=item.rerank_score
        ),
    )


def traced_candidates(found: Sequence[Ranked]) -> tuple[TracedCandidate, ...]:
    """What the legs found, as the trace of a pack names it."""
    return tuple(
        TracedCandidate(
            chunk_id=item.passage.chunk.id,
            collection=item.passage.document.collection,
            document_id=item.passage.document.id,
            rank=rank,
            score=item.score,
        )
        for rank, item in enumerate(found, 1)
    )


async def as_bundle(outcome: Outcome) -> RetrievalBundle:
    """The documents that were found, and the passages in them as evidence.

    After a reranker, documents come in the order of their best reranked passages, then those
    without one in the order of their fused scores.
    """
    if outcome.scored is None:
        return RetrievalBundle(candidates=[], evidence=[])
    with outcome.diagnostics.stage("bundle"):
        candidates, evidence = await in_thread(_items_and_evidence, outcome, outcome.scored)
    stats = outcome.stats(items=len(candidates), evidence=len(evidence))
    return RetrievalBundle(candidates=candidates, evidence=evidence, stats=stats)


def ranked_documents(outcome: Outcome, scored: Scored) -> list[FoundDocument]:
    """The documents with their final scores, best first; none below a threshold."""
    prefs = outcome.request.preferences
    judged = {document_of(item): item for item in reversed(outcome.judged or ())}
    found = scored.documents
    first = [replace(item, score=judged[item.name].score) for item in found if item.name in judged]
    # Stable: equal ones keep the fused order.
    first.sort(key=lambda item: -verdict_score(judged[item.name]))
    rest = [item for item in found if item.name not in judged]
    if outcome.judged is not None and prefs.rerank.min_score is not None:
        rest = []  # what has no verdict can't pass a threshold on it
    return [item for item in (*first, *rest) if item.score >= prefs.min_score]


def _items_and_evidence(
    outcome: Outcome, scored: Scored
) -> tuple[list[CandidateItem], list[EvidenceChunk]]:
    """The documents, each shown by the best part of its text, and the evidence."""
    prefs = outcome.request.preferences
    documents = ranked_documents(outcome, scored)
    names = {item.name for item in documents}
    shown = [item for item in outcome.ranked if document_of(item) in names]
    texts = outcome.texts or _chunk_texts(documents, shown)
    highlighter = Highlighter(prefs.query_text)
    candidates = [
        _candidate(item, *_snippet(item, texts[item.name], prefs, highlighter))
        for item in documents
    ]
    return candidates, [_evidence(item, scored) for item in with_checkpoints(shown)]


def _chunk_texts(
    documents: Sequence[FoundDocument], evidence: Sequence[Ranked]
) -> Mapping[tuple[str, str], str]:
    """The best passage of each document."""
    texts = {item.name: item.best_chunk.text for item in documents}
    return texts | {document_of(item): item.passage.chunk.text for item in reversed(evidence)}


def _evidence(item: Ranked, scored: Scored) -> EvidenceChunk:
    chunk = item.passage.chunk
    legs = leg_scores(item.row, scored.candidates, scored.fused)
    return EvidenceChunk(
        item_id=chunk.document_id,
        chunk_id=chunk.id,
        text=chunk.text,
        start_idx=chunk.start,
        end_idx=chunk.end,
        token_count=chunk.token_count,
        score=item.score,
        score_text=_score(legs.get("text")),
        score_vec=_score(legs.get("semantic")),
        heading_path=list(item.location_fields["heading_path"]),
        anchors=_anchors(item, chunk),
    )


def _anchors(item: Ranked, chunk: Chunk) -> dict[str, object]:
    anchors = {
        "collection": chunk.collection,
        "pages": chunk.pages,
        "rows": item.location_fields["row_range"],
        "items": item.location_fields["item_range"],
        "lines": chunk.lines,
        "element": chunk.element,
        "parent_id": chunk.parent_id,
        "child_id": item.child and item.child.id,
        "parent_content": item.parent and item.parent.text,
        "section": item.section,
        "answerable": item.answerable,
        "evidence": item.evidence,
    }
    return {name: value for name, value in anchors.items() if value is not None}


def _snippet(
    found: FoundDocument, text: str, prefs: RetrievalPrefs, highlighter: Highlighter
) -> tuple[Snippet | None, SnippetFrom]:
    if not text.strip():
        return None, "unknown"
    shown = highlighter.snippet(
        text[:MOST_CHARACTERS],
        language=found.document.language,
        max_chars=prefs.snippet.max_chars,
    )
    return shown, "chunk" if prefs.snippet.prefer_chunk_snippet else "doc"


def _candidate(found: FoundDocument, shown: Snippet | None, origin: SnippetFrom) -> CandidateItem:
    document, text, semantic = found.document, found.legs.get("text"), found.legs.get("semantic")
    return CandidateItem(
        item_id=document.id,
        collection=document.collection,
        language=document.language,
        kind=document.kind,
        source=document.source,
        source_ref=document.source_ref,
        title=document.title,
        summary=document.summary,
        metadata=document.metadata,
        score=found.score,
        score_text=_score(text),
        score_vec=_score(semantic),
        rank_text=text.rank if text else None,
        rank_vec=semantic.rank if semantic else None,
        snippet=shown.text if shown else None,
        snippet_highlights=shown.highlights if shown else (),
        snippet_from=origin,
    )


def _score(leg: LegScore | None) -> float | None:
    return None if leg is None else leg.score
