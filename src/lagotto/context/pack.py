"""Context packs: cited evidence for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from pydantic import AliasChoices, Field, computed_field, model_validator

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto._internal.display import as_html, counted, excerpt
from lagotto.context.budget import TokenCounter, fit, shortened_to_fit
from lagotto.context.cite import Citation, cite
from lagotto.context.formats import PackFormat, block, join_blocks
from lagotto.context.passages import (
    ROLES,
    Known,
    PackPassage,
    PackRole,
    Piece,
    PieceName,
    by_document,
    expand,
    merged,
)
from lagotto.context.selection import (
    PackQuery,
    PackSelection,
    Room,
    StopRule,
    interleaved,
    no_room,
    select,
)
from lagotto.documents import Chunk, DocumentRef, Location, Record
from lagotto.prefs import ContextPrefs
from lagotto.rerankers.base import RerankResult
from lagotto.results import RetrievalResult, RetrievalStats, Score, TracedCandidate, merged_stats
from lagotto.retrieval.pipeline import Outcome
from lagotto.retrieval.retriever import as_list, results_of


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


class RoleCount(Record):
    """The number of chunks in one role: found, and kept."""

    found: int = 0
    kept: int = 0


class Dropped(Record):
    """A chunk that was dropped, and why; `token_count` is its own, without markup."""

    chunk_id: str
    collection: str
    document_id: str
    document_title: str | None = None
    role: PackRole
    token_count: int = 0
    reason: str


class Coverage(Record):
    """What a pack of several questions has for one of them.

    `markers` are those of the passages that serve it, alone or with others; `hits` is how many of
    the `found` hits are among these, and `tokens` about how many tokens they take.
    """

    query: str
    markers: tuple[int, ...] = ()
    hits: int = 0
    found: int = 0
    tokens: int = 0


class ContextTrace(Record):
    """How a pack was made.

    `candidates`, also as `pinecone_candidates`, are what the legs found: all of it if the search
    says how many candidates each brings, else the best. `rerank_results` are what the reranker said
    of those that it saw. `truncated` are the chunks that were cut at a
    sentence; `notes` say what else did not go as it should, and why a pack is empty; `stats` are
    those of the search, as in a bundle. `coverage` says what each of several questions got; then
    `candidates` and `rerank_results` are those of one question after the other.
    """

    candidates: tuple[TracedCandidate, ...] = Field(
        default=(), validation_alias=AliasChoices("candidates", "pinecone_candidates")
    )
    rerank_results: tuple[RerankResult, ...] = ()
    final_token_count: int = 0
    expansion_stats: dict[PackRole, RoleCount] = Field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    truncated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    stats: RetrievalStats = RetrievalStats()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pinecone_candidates(self) -> tuple[TracedCandidate, ...]:
        """`candidates`, under the name that one vendor's users know them by."""
        return self.candidates

    @model_validator(mode="before")
    @classmethod
    def _one_of_two_names(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "candidates" in given:
            return {name: value for name, value in given.items() if name != "pinecone_candidates"}
        return given


class ContextPack(Record):
    """Evidence for a prompt: `context_pack` is the text, `citations` what its markers stand for.

    `selected_chunks` are in the order of their roles: hits by rank, each with its parent behind
    it, then siblings, then chunks of other pages. Chunks that overlap are one passage of the
    text, under one marker. `tokens` counts markup, too. `query` has one question in each line.
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


async def as_pack(*outcomes: Outcome, count: TokenCounter) -> ContextPack:
    """The pack view of a search, or of several for questions with the same settings."""
    first = outcomes[0]
    prefs = first.request.preferences
    answers = [await as_list(outcome) for outcome in outcomes]
    questions: list[PackQuery] = []
    candidates: list[TracedCandidate] = []
    reranked: list[RetrievalResult] = []
    for outcome, results in zip(outcomes, answers, strict=True):
        # The rule is for scores that it was fitted on: neither a reranker's nor relative ones.
        fills = prefs.context.fill or outcome.verdicts or not prefs.has_absolute_scores()
        questions.append(PackQuery(outcome.request.query, results, None if fills else StopRule()))
        candidates += _candidates(
            (one.passage.chunk.id, one.passage.document.ref, one.score) for one in outcome.initial
        )
        if outcome.scored:
            reranked += await results_of(outcome.verdicts, outcome.scored)
    notes = tuple(dict.fromkeys(note for found in answers for note in found.degraded))
    with first.diagnostics.stage("pack"):
        pack = await in_thread(
            _packed,
            questions,
            by_document(chunk for outcome in outcomes for chunk in outcome.surroundings),
            _Frame(cache(count), first.request.format, prefs.context),
            (candidates, reranked, notes),
        )
    stats = merged_stats(
        outcome.diagnostics.stats(prefs, results.stats.counts)
        for outcome, results in zip(outcomes, answers, strict=True)
    )
    trace = pack.trace.model_copy(update={"stats": stats})
    return pack.model_copy(update={"trace": trace})


def _candidates(chunks: Iterable[tuple[str, DocumentRef, float]]) -> tuple[TracedCandidate, ...]:
    """Chunks by id and document, with their scores, best first."""
    return tuple(
        TracedCandidate(
            chunk_id=chunk_id,
            collection=document.collection,
            document_id=document.id,
            rank=rank,
            score=score,
        )
        for rank, (chunk_id, document, score) in enumerate(chunks, 1)
    )


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
        [PackQuery(query, results, stop)],
        by_document(chunks),
        _Frame(cache(count), format, prefs or ContextPrefs()),
        (candidates, reranked, notes),
    )


SearchTrace = tuple[Sequence[TracedCandidate], Sequence[RetrievalResult], Sequence[str]]
"""What the legs found, what a reranker judged, and notes; without the first two, the results."""


def _packed(
    questions: Sequence[PackQuery], known: Known, frame: _Frame, search: SearchTrace
) -> ContextPack:
    results = interleaved([question.results for question in questions])
    selection = (_by_roles if frame.prefs.by_roles else _by_worth)(questions, known, frame)
    kept = list(selection.taken.values())
    passages = frame.passages(kept)
    text = frame.text(passages)
    tokens = frame.count(text)
    markers = {
        piece.name: marker for marker, passage in enumerate(passages, 1) for piece in passage.pieces
    }
    return ContextPack(
        query="\n".join(question.query for question in questions),
        context_pack=text,
        tokens=tokens,
        citations=tuple(cite(passage, marker=marker) for marker, passage in enumerate(passages, 1)),
        selected_chunks=tuple(
            SelectedChunk(
                chunk_id=piece.chunk.id,
                collection=piece.chunk.collection,
                document_id=piece.chunk.document_id,
                document_title=piece.hit.document_title,
                document_source=piece.hit.document_source,
                role=piece.role,
                marker=markers[piece.name],
                rank=piece.hit.rank,
                score=piece.hit.score,
                text=piece.chunk.text,
                **piece.chunk.location_fields(),
                truncated=piece.truncated,
            )
            for piece in kept
        ),
        trace=_trace(
            results,
            search,
            selection,
            coverage=[*_coverage(questions, selection, markers)] if len(questions) > 1 else (),
            tokens=tokens,
            max_tokens=frame.prefs.max_tokens,
        ),
    )


def _coverage(
    questions: Sequence[PackQuery], selection: PackSelection, markers: Mapping[PieceName, int]
) -> Iterator[Coverage]:
    for question, served in zip(questions, selection.served, strict=True):
        kept = served & selection.taken.keys()
        names = {(*hit.document_ref, hit.child_id or hit.chunk_id) for hit in question.results}
        yield Coverage(
            query=question.query,
            markers=tuple(sorted({markers[name] for name in kept})),
            hits=len(names & kept),
            found=len(names),
            tokens=sum(selection.costs[name] for name in kept),
        )


def _trace(
    results: Sequence[RetrievalResult],
    search: SearchTrace,
    selection: PackSelection,
    *,
    coverage: Sequence[Coverage],
    tokens: int,
    max_tokens: int,
) -> ContextTrace:
    found, kept = selection.found.values(), selection.taken.values()
    candidates, reranked, noted = search
    notes = [*noted, *selection.notes]
    if not results:
        notes.append("empty: nothing was found")
    elif not kept and not selection.notes:
        notes.append(f"empty: {max_tokens} tokens are too few for even a part of a hit")
    else:
        notes += [f"{excerpt(one.query)}: nothing was found" for one in coverage if not one.found]
    if not candidates:
        fused = [(item.breakdown.fused_score, item) for item in results]
        scored = [(item.score if score is None else score, item) for score, item in fused]
        scored.sort(key=lambda pair: (-pair[0], pair[1].rank))
        candidates = _candidates(
            (item.child_id or item.chunk_id, item.document_ref, score) for score, item in scored
        )
    roles = Counter(piece.role for piece in found), Counter(piece.role for piece in kept)
    return ContextTrace(
        candidates=tuple(candidates),
        rerank_results=tuple(
            RerankResult(
                chunk_id=result.child_id or result.chunk_id,
                relevance_score=100 * result.breakdown.rerank_score,
                answerability=result.answerable,
                key_evidence=result.content[slice(*result.evidence)] if result.evidence else None,
            )
            for result in reranked or results
            if result.breakdown.rerank_score is not None
        ),
        final_token_count=tokens,
        expansion_stats={
            role: RoleCount(found=roles[0][role], kept=roles[1][role]) for role in ROLES
        },
        dropped=tuple(
            Dropped(
                chunk_id=piece.chunk.id,
                collection=piece.chunk.collection,
                document_id=piece.chunk.document_id,
                document_title=piece.hit.document_title,
                role=piece.role,
                token_count=piece.chunk.token_count,
                reason=selection.reasons[name],
            )
            for name, piece in selection.found.items()
            if name not in selection.taken
        ),
        truncated=tuple(piece.chunk.id for piece in kept if piece.truncated),
        notes=tuple(notes),
        coverage=tuple(coverage),
    )


_SAMPLE = "Oaks."
"""A text to see by what joining passages costs."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """How pieces become text, and how its tokens are counted: each text once."""

    count: TokenCounter
    format: PackFormat
    prefs: ContextPrefs
    known: dict[Hashable, PackPassage] = field(default_factory=dict)
    rendered: dict[tuple[int, int], str] = field(default_factory=dict)

    def passages(self, pieces: Sequence[Piece]) -> list[PackPassage]:
        """The passages of a pack; one that was part of another pack is the same object."""
        same, adjoining = [], not self.prefs.by_roles
        for passage in merged(pieces, cite_by=self.prefs.cite_by, adjoining=adjoining):
            chunks = tuple((one.name, one.chunk.start, one.chunk.end) for one in passage.pieces)
            same.append(self.known.setdefault(chunks, passage))
        return same

    def text(self, passages: Sequence[PackPassage]) -> str:
        """The whole text; what was rendered before is not rendered again."""
        keys = [(marker, id(passage)) for marker, passage in enumerate(passages, 1)]
        for (marker, name), passage in with_checkpoints(zip(keys, passages, strict=True)):
            if (marker, name) not in self.rendered:
                self.rendered[marker, name] = block(marker, passage, format=self.format)
        return join_blocks([self.rendered[key] for key in keys], format=self.format)

    def fits(self, pieces: Sequence[Piece]) -> bool:
        """Whether the whole text of a pack stays within the budget."""
        return self.count(self.text(self.passages(pieces))) <= self.prefs.max_tokens

    def size(self, passage: PackPassage) -> int:
        return self.count(block(10, passage, format=self.format))

    def room(self) -> Room:
        """The budget for passages, less what is around them."""
        one, two = (self.count(join_blocks([_SAMPLE] * n, format=self.format)) for n in (1, 2))
        around = one - self.count(_SAMPLE)
        glue = two - around - 2 * self.count(_SAMPLE)
        # The first passage is counted with glue as well.
        return Room(self.prefs.max_tokens - around + glue, self.passages, self.size, glue)


def _by_roles(questions: Sequence[PackQuery], known: Known, frame: _Frame) -> PackSelection:
    selection, prefs = PackSelection(), frame.prefs
    found = expand(interleaved([question.results for question in questions]), known, prefs)
    minimum = prefs.min_primary_hits_to_keep
    kept = fit(found, fits=frame.fits, take=frame.room().take, minimum=minimum)
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
    if len(questions) > 1:
        selection.costs = {name: frame.count(piece.chunk.text) for name, piece in taken.items()}
        families = [expand(question.results, known, prefs) for question in questions]
        selection.served = [{piece.name for piece in family} for family in families]
    return selection


def _by_worth(questions: Sequence[PackQuery], known: Known, frame: _Frame) -> PackSelection:
    max_tokens = frame.prefs.max_tokens
    selection = select(questions, known, frame.room(), max_tokens=max_tokens)
    while selection.taken and not frame.fits(list(selection.taken.values())):
        _, last = selection.taken.popitem()
        selection.leave(last, no_room(max_tokens))
    if not selection.taken and not selection.notes:
        for piece in shortened_to_fit(list(selection.found.values())[:1], frame.fits):
            selection.take(piece)
    return selection
