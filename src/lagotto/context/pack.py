"""Context packs: cited evidence for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto._internal.display import as_html, counted, excerpt
from lagotto.context.budget import TokenCounter, fit
from lagotto.context.cite import Citation, cite
from lagotto.context.formats import PackFormat, block, join_blocks
from lagotto.context.passages import (
    Known,
    PackPassage,
    PackRole,
    Piece,
    by_document,
    expand,
    merged,
)
from lagotto.context.trace import ContextTrace, traced
from lagotto.documents import Chunk, Location, Record
from lagotto.prefs import CiteBy, ContextPrefs
from lagotto.results import RetrievalResult, Score, TracedCandidate
from lagotto.retrieval.pipeline import Outcome
from lagotto.retrieval.retriever import as_list, results_of, traced_candidates


class SelectedChunk(Location):
    """A chunk whose text is in a pack: under which marker, and in which role.

    `rank` and `score` are those of the hit that it is or came with. If it is truncated, `end` and
    `text` are those of what is left of it.
    """

    chunk_id: str
    collection: str
    document_id: str
    document_title: str | None
    document_source: str
    role: PackRole
    marker: int
    rank: int
    score: Score
    text: str
    truncated: bool = False


class ContextPack(Record):
    """Evidence for a prompt: `context_pack` is the text, `citations` what its markers stand for.

    `selected_chunks` are in the order of their roles: hits by rank, each with its parent behind
    it, then siblings, then chunks of other pages. Chunks that overlap are one passage of the
    text, under one marker. `tokens` counts the whole text, markup included.
    """

    query: str
    context_pack: str
    tokens: int
    citations: tuple[Citation, ...] = ()
    selected_chunks: tuple[SelectedChunk, ...] = ()
    trace: ContextTrace = ContextTrace()

    def __repr__(self) -> str:
        size = f"{counted(self.tokens, 'token')}, {counted(len(self.citations), 'citation')}"
        return f"ContextPack({excerpt(self.query, most=40)!r}, {size})"

    def __str__(self) -> str:
        sources = [f"[{citation.marker}] {citation.key}" for citation in self.citations]
        size = f"{counted(self.tokens, 'token')}, {counted(len(self.citations), 'citation')}"
        notes = [f"note: {note}" for note in self.trace.notes]
        return "\n".join(filter(None, (self.context_pack, *sources, size, *notes)))

    def _repr_html_(self) -> str:
        rows = [
            (f"[{citation.marker}]", citation.label, str(citation.key))
            for citation in self.citations
        ]
        table = as_html(("marker", "cited", "key"), rows, notes=self.trace.notes)
        return f"<pre>{escape(self.context_pack)}</pre><p>{self.tokens} tokens</p>{table}"


async def as_pack(outcome: Outcome, *, count: TokenCounter) -> ContextPack:
    """The pack view of a search."""
    request, scored = outcome.request, outcome.scored
    results = await as_list(outcome)
    reranked = await results_of(outcome.verdicts, scored) if scored else []
    with outcome.diagnostics.stage("pack"):
        pack = await build_pack(
            request.query,
            results=results,
            chunks=outcome.surroundings,
            count=count,
            prefs=request.preferences.context,
            format=request.format,
            candidates=traced_candidates(outcome.initial),
            reranked=reranked,
            notes=results.degraded,
        )
    stats = outcome.diagnostics.stats(request.preferences, results.stats.counts)
    trace = pack.trace.model_copy(update={"stats": stats})
    return pack.model_copy(update={"trace": trace})


async def build_pack(
    query: str,
    *,
    results: Sequence[RetrievalResult],
    chunks: Iterable[Chunk],
    count: TokenCounter,
    prefs: ContextPrefs | None = None,
    format: PackFormat = "plain",  # noqa: A002
    candidates: Sequence[TracedCandidate] = (),
    reranked: Sequence[RetrievalResult] = (),
    notes: Sequence[str] = (),
) -> ContextPack:
    """The pack for `results`, best first, with the chunks around them, within the budget.

    `chunks` are those that the results are or came from, their parents and their neighbours.
    `candidates` are what was found, by default the results, and `reranked` what the reranker
    judged; `notes` go into the trace.
    """
    return await in_thread(
        _packed,
        query,
        results,
        by_document(chunks),
        cache(count),  # what stays was counted while fitting
        prefs or ContextPrefs(),
        format,
        candidates=candidates,
        reranked=reranked or results,
        notes=notes,
    )


def _packed(
    query: str,
    results: Sequence[RetrievalResult],
    known: Known,
    count: TokenCounter,
    prefs: ContextPrefs,
    format: PackFormat,  # noqa: A002
    **traced_fields: Any,
) -> ContextPack:
    frame = _Frame(count, format, prefs.cite_by)
    found, kept = _choose(results, known=known, frame=frame, prefs=prefs)
    passages = frame.passages(kept)
    text = frame.join(frame.render(passages))
    tokens = frame.count(text)
    return ContextPack(
        query=query,
        context_pack=text,
        tokens=tokens,
        citations=tuple(cite(passage, marker=marker) for marker, passage in enumerate(passages, 1)),
        selected_chunks=_selected(kept, passages),
        trace=traced(
            results,
            found=found,
            kept=kept,
            tokens=tokens,
            max_tokens=prefs.max_tokens,
            **traced_fields,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """How pieces become text, and how its tokens are counted."""

    count: TokenCounter
    format: PackFormat
    cite_by: CiteBy
    known: dict[Hashable, PackPassage] = field(default_factory=dict)
    rendered: dict[tuple[int, int], str] = field(default_factory=dict)

    def passages(self, pieces: Sequence[Piece]) -> list[PackPassage]:
        """The passages of a pack; one that was part of another pack is the same object."""
        found = merged(pieces, cite_by=self.cite_by)
        return [self.known.setdefault(_name(passage), passage) for passage in found]

    def blocks(self, pieces: Sequence[Piece]) -> list[str]:
        """The passages of a pack as text; what was rendered before is not rendered again."""
        return self.render(self.passages(pieces))

    def render(self, passages: Sequence[PackPassage]) -> list[str]:
        made = []
        for marker, passage in enumerate(with_checkpoints(passages), 1):
            key = (marker, id(passage))
            if key not in self.rendered:
                self.rendered[key] = block(marker, passage, format=self.format)
            made.append(self.rendered[key])
        return made

    def join(self, parts: Sequence[str]) -> str:
        return join_blocks(parts, format=self.format)


def _name(passage: PackPassage) -> Hashable:
    return tuple((*piece.name, piece.chunk.end) for piece in passage.pieces)


def _choose(
    results: Sequence[RetrievalResult], *, known: Known, frame: _Frame, prefs: ContextPrefs
) -> tuple[list[Piece], list[Piece]]:
    """All pieces that could go into the pack, and those that stay."""
    found = expand(results, known, prefs)
    kept = fit(
        found,
        blocks=frame.blocks,
        join=frame.join,
        count=frame.count,
        budget=prefs.max_tokens,
        minimum=prefs.min_primary_hits_to_keep,
    )
    return found, kept


def _selected(kept: Sequence[Piece], passages: Sequence[PackPassage]) -> tuple[SelectedChunk, ...]:
    markers = {
        piece.name: marker for marker, passage in enumerate(passages, 1) for piece in passage.pieces
    }
    return tuple(_selected_chunk(piece, markers[piece.name]) for piece in kept)


def _selected_chunk(piece: Piece, marker: int) -> SelectedChunk:
    chunk, hit = piece.chunk, piece.hit
    return SelectedChunk(
        chunk_id=chunk.id,
        collection=chunk.collection,
        document_id=chunk.document_id,
        document_title=hit.document_title,
        document_source=hit.document_source,
        role=piece.role,
        marker=marker,
        rank=hit.rank,
        score=hit.score,
        text=chunk.text,
        **chunk.location_fields(),
        truncated=piece.truncated,
    )
