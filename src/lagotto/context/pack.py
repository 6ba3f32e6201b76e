"""Context packs: cited evidence for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto._internal.display import as_html, counted, excerpt
from lagotto.context.budget import TokenCounter, fit, most_telling, shortened_to_fit
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
from lagotto.context.selection import PackSelection, Room, StopRule, no_room, select
from lagotto.context.trace import ContextTrace, traced
from lagotto.documents import Chunk, Location, Record
from lagotto.prefs import CiteBy, ContextPrefs
from lagotto.results import RetrievalResult, Score, TracedCandidate
from lagotto.retrieval.documents import Highlighter
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
            stop=_stop_rule(outcome),
        )
    stats = outcome.diagnostics.stats(request.preferences, results.stats.counts)
    trace = pack.trace.model_copy(update={"stats": stats})
    return pack.model_copy(update={"trace": trace})


def _stop_rule(outcome: Outcome) -> StopRule | None:
    """The rule for scores that it was fitted on: neither a reranker's nor relative ones."""
    prefs = outcome.request.preferences
    fills = prefs.context.fill or bool(outcome.verdicts)
    return None if fills or not prefs.has_absolute_scores() else StopRule()


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
    stop: StopRule | None = None,
) -> ContextPack:
    """The pack for `results`, best first, with the chunks around them, within the budget.

    `chunks` are those that the results are or came from, their parents and their neighbours.
    `candidates` are what was found, by default the results, and `reranked` what the reranker
    judged; `notes` go into the trace. `stop` says where evidence stops, by the scores of results.
    """
    return await in_thread(
        _packed,
        query,
        results,
        by_document(chunks),
        cache(count),  # what stays was counted while fitting
        prefs or ContextPrefs(),
        format,
        stop=stop,
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
    *,
    stop: StopRule | None,
    **traced_fields: Any,
) -> ContextPack:
    frame = _Frame(count, format, prefs.cite_by, adjoining=not prefs.by_roles)
    if prefs.by_roles:
        selection = _by_roles(results, known, frame, prefs)
    else:
        selection = _by_worth(results, known, frame, prefs, query, stop)
    kept = list(selection.taken.values())
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
            selection=selection,
            tokens=tokens,
            max_tokens=prefs.max_tokens,
            **traced_fields,
        ),
    )


_SAMPLE = "Oaks."
"""A text to see by what joining passages costs."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """How pieces become text, and how its tokens are counted."""

    count: TokenCounter
    format: PackFormat
    cite_by: CiteBy
    adjoining: bool
    known: dict[Hashable, PackPassage] = field(default_factory=dict)
    rendered: dict[tuple[int, int], str] = field(default_factory=dict)

    def passages(self, pieces: Sequence[Piece]) -> list[PackPassage]:
        """The passages of a pack; one that was part of another pack is the same object."""
        found = merged(pieces, cite_by=self.cite_by, adjoining=self.adjoining)
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

    def fits(self, budget: int) -> Callable[[Sequence[Piece]], bool]:
        """Whether the whole text of a pack stays within the budget."""
        return lambda pieces: self.count(self.join(self.blocks(pieces))) <= budget

    def join(self, parts: Sequence[str]) -> str:
        return join_blocks(parts, format=self.format)

    def size(self, passage: PackPassage) -> int:
        """The tokens of a passage, under a marker of two digits."""
        return self.count(block(10, passage, format=self.format))

    def room(self, budget: int) -> Room:
        """The budget for passages, less what is around them."""
        around = self.count(self.join([_SAMPLE])) - self.count(_SAMPLE)
        both = self.count(self.join([_SAMPLE, _SAMPLE]))
        glue = both - around - 2 * self.count(_SAMPLE)
        return Room(budget - around, passages=self.passages, size=self.size, glue=glue)


def _name(passage: PackPassage) -> Hashable:
    return tuple((*piece.name, piece.chunk.start, piece.chunk.end) for piece in passage.pieces)


def _by_roles(
    results: Sequence[RetrievalResult], known: Known, frame: _Frame, prefs: ContextPrefs
) -> PackSelection:
    """The strongest pieces by role and rank that fit."""
    selection = PackSelection()
    found = expand(results, known, prefs)
    kept = fit(
        found,
        blocks=frame.blocks,
        join=frame.join,
        count=frame.count,
        budget=prefs.max_tokens,
        minimum=prefs.min_primary_hits_to_keep,
    )
    taken = {piece.name: piece for piece in kept}
    left = [piece for piece in found if piece.name not in taken]
    strongest = min(left, key=lambda piece: piece.weakness, default=None)
    for piece in found:
        if piece.name in taken:
            selection.take(taken[piece.name])
        elif piece is strongest:
            selection.leave(piece, no_room(prefs.max_tokens))
        else:
            selection.leave(piece, f"a stronger chunk did not fit into {prefs.max_tokens} tokens")
    return selection


def _by_worth(
    results: Sequence[RetrievalResult],
    known: Known,
    frame: _Frame,
    prefs: ContextPrefs,
    query: str,
    stop: StopRule | None,
) -> PackSelection:
    """The pieces that are worth most and fit."""
    highlighter = Highlighter(query)

    def shorten(piece: Piece, fits: Callable[[Piece], bool]) -> Piece | None:
        words = highlighter.spans(piece.chunk.text, language=piece.hit.language)
        return most_telling(piece, words, fits)

    room = frame.room(prefs.max_tokens)
    selection = select(
        results, known, room, max_tokens=prefs.max_tokens, shorten=shorten, stop=stop
    )
    fits = frame.fits(prefs.max_tokens)
    while selection.taken and not fits(list(selection.taken.values())):
        _, last = selection.taken.popitem()
        selection.leave(last, no_room(prefs.max_tokens))
    if not selection.taken and not selection.notes:
        for piece in shortened_to_fit(list(selection.found.values())[:1], fits):
            selection.take(piece)
    return selection


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
