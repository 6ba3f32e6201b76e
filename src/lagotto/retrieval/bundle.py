"""The bundle view of a search: documents as sources for people, chunks as evidence for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.documents import Chunk
from lagotto.prefs import RetrievalPrefs
from lagotto.results import (
    CandidateItem,
    EvidenceChunk,
    LegScore,
    RetrievalBundle,
    SnippetFrom,
)
from lagotto.retrieval.documents import FoundDocument, Highlighter, Snippet
from lagotto.retrieval.explain import Diagnostics, leg_scores
from lagotto.retrieval.pipeline import Outcome
from lagotto.retrieval.ranking import Ranked, document_of
from lagotto.retrieval.stages import verdict_score
from lagotto.stores.base import View

MOST_CHARACTERS = 20_000
"""The part of a whole document that is searched for a snippet: every word of it is analysed."""


async def as_bundle(
    outcome: Outcome, prefs: RetrievalPrefs, diagnostics: Diagnostics
) -> RetrievalBundle:
    """The documents that were found, and the passages in them as evidence.

    After a reranker, documents come in the order of their best reranked passages, then those
    without one in the order of their fused scores.
    """
    with diagnostics.stage("bundle"):
        documents = _in_order(outcome, prefs)
        names = {item.name for item in documents}
        shown = [item for item in outcome.ranked if document_of(item) in names]
        texts = await _texts(outcome.scored.recalled.view, documents, shown, prefs)
        candidates, evidence = await in_thread(_made, documents, texts, shown, outcome, prefs)
    counts = {**outcome.counts, "items": len(candidates), "evidence": len(evidence)}
    return RetrievalBundle(
        candidates=candidates, evidence=evidence, stats=diagnostics.stats(prefs, counts)
    )


def _in_order(outcome: Outcome, prefs: RetrievalPrefs) -> list[FoundDocument]:
    """The documents with their final scores, best first; none below a threshold."""
    judged = {document_of(item): item for item in reversed(outcome.judged or ())}
    found = outcome.scored.documents
    first = [replace(item, score=judged[item.name].score) for item in found if item.name in judged]
    # Stable: equal ones keep the fused order.
    first.sort(key=lambda item: -verdict_score(judged[item.name]))
    rest = [item for item in found if item.name not in judged]
    if outcome.judged is not None and prefs.rerank.min_score is not None:
        rest = []  # what has no verdict can't pass a threshold on it
    return [item for item in (*first, *rest) if item.score >= prefs.min_score]


def _made(
    documents: Sequence[FoundDocument],
    texts: Mapping[tuple[str, str], str],
    shown: Sequence[Ranked],
    outcome: Outcome,
    prefs: RetrievalPrefs,
) -> tuple[list[CandidateItem], list[EvidenceChunk]]:
    """The documents, each shown by the best part of its text, and the evidence."""
    highlighter = Highlighter(prefs.query_text)
    candidates = [
        _candidate(item, *_snippet(item, texts[item.name], prefs, highlighter))
        for item in documents
    ]
    return candidates, [_evidence(item, outcome) for item in with_checkpoints(shown)]


def _evidence(item: Ranked, outcome: Outcome) -> EvidenceChunk:
    chunk = item.passage.chunk
    legs = leg_scores(item.row, outcome.scored.candidates, outcome.scored.fused)
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


async def _texts(
    view: View,
    documents: Sequence[FoundDocument],
    evidence: Sequence[Ranked],
    prefs: RetrievalPrefs,
) -> dict[tuple[str, str], str]:
    """What each document is shown by: its best passage, or its summary or beginning."""
    if prefs.snippet.prefer_chunk_snippet:
        texts = {item.name: item.best_chunk.text for item in documents}
        return texts | {document_of(item): item.passage.chunk.text for item in reversed(evidence)}
    whole = await view.sources([item.name for item in documents])
    return {(item.collection, item.id): item.summary or item.text for item in whole}


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
