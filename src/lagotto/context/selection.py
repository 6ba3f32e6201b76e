"""Which pieces go into a pack: the best next one that fits, as long as one does.

A hit is worth its score. What adjoins a piece that was taken is worth the mean of its own score, 0
unless it is a hit, and of the worth of that piece; a parent is worth as much as its child. So a
passage grows where the evidence is, and the next document comes in where it ends.

Several questions take turns: the next piece is for the one that has least in the pack so far. What
one has taken serves the others as well that found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count, zip_longest
from typing import TypeVar

from lagotto._internal.concurrency import checkpoint
from lagotto._internal.display import excerpt
from lagotto.context.budget import most_telling
from lagotto.context.passages import (
    Known,
    PackPassage,
    PackRole,
    Piece,
    PieceName,
    primary_of,
    share_pages,
)
from lagotto.documents import Chunk, DocumentRef
from lagotto.results import RetrievalResult
from lagotto.retrieval.documents import Highlighter
from lagotto.retrieval.stages import copy_key

DENSER = 1.5
"""How many times more characters to a token than so far a text might have."""
COPY = "another document has the same text, and is considered for both"
SENTENCE_TOKENS = 24
"""The least room for which a hit is shortened: less holds hardly more than its citation."""


@dataclass(frozen=True, slots=True)
class StopRule:
    """Where evidence stops, by the fused scores of hybrid search.

    A piece counts as evidence with `relative` times the best score, and `absolute`, or more. If the
    best is below `weak`, hardly anything fits the query; then only pieces close to the best count.

    Fitted at 4,000 tokens on HotpotQA, SQuAD and the training claims of SciFact: of what is
    relevant to 60, 40 and 50 of their questions a full pack has .984, 1 and .944, with `relative`
    .3 .951, 1 and .944, with .4 .903, 1 and .944, with .5 .855, 1 and .930. Of some 500 questions
    with an answer, those of chunking_eval and `benchmarks/clauses` among them, one had a best score
    below 0.45; of 60 questions to documents of other subjects more than half. Of the 14 hard
    questions of the demo 6 are below it: with `close` .9 the answer of one is lost, with .85 none,
    and no score tells it from the noise beside another answer, which is at .95.
    """

    relative: float = 0.3
    absolute: float = 0.2
    weak: float = 0.45
    close: float = 0.85

    def least(self, best: float) -> float:
        return max(self.absolute, (self.close if best < self.weak else self.relative) * best)

    def notes(self, best: float, left: int) -> list[str]:
        least = f"{self.least(best):.2f}"
        stopped = f"stopped at a score of {least} with {left} tokens left; fill=True uses them"
        if best >= self.weak:
            return [stopped]
        weak = f"no passage fits the question closely, the best score is {best:.2f}"
        return [f"{weak}; the answer may not be here", stopped]


@dataclass(frozen=True, slots=True)
class PackQuery:
    """A question of a pack: its hits, best first, and where its evidence stops."""

    query: str
    results: Sequence[RetrievalResult]
    stop: StopRule | None = None


@dataclass(slots=True)
class PackSelection:
    """What was considered for a pack, what of it was taken, in order, and why the rest was not.

    `served` are the pieces for each question, `costs` the tokens that each piece took.
    """

    found: dict[PieceName, Piece] = field(default_factory=dict)
    taken: dict[PieceName, Piece] = field(default_factory=dict)
    reasons: dict[PieceName, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    served: list[set[PieceName]] = field(default_factory=list)
    costs: dict[PieceName, int] = field(default_factory=dict)

    def take(self, piece: Piece) -> None:
        """Note a piece that is in the pack; a truncated one in place of the whole."""
        self.found.setdefault(piece.name, piece)
        self.taken[piece.name] = piece
        self.reasons.pop(piece.name, None)

    def share(self, piece: Piece) -> None:
        """Note that a piece which is in the pack is there for another reason, too."""
        taken = self.taken[piece.name]
        if piece.weakness < taken.weakness:
            self.found[piece.name] = self.taken[piece.name] = replace(piece, also_in=taken.also_in)

    def leave(self, piece: Piece, reason: str) -> None:
        self.found.setdefault(piece.name, piece)
        self.taken.pop(piece.name, None)
        self.reasons[piece.name] = reason


@dataclass(slots=True)
class Room:
    """The budget while a pack grows: what it costs to take one more piece.

    `passages` are those that pieces of one document make up, `size` the tokens of one of them, and
    `glue` those that come with each but the first. Sizes are added up: to count the whole text for
    every piece would take longer than all the rest.
    """

    budget: int
    passages: Callable[[Sequence[Piece]], Sequence[PackPassage]]
    size: Callable[[PackPassage], int]
    glue: int
    _pieces: dict[DocumentRef, list[Piece]] = field(default_factory=dict)
    _sizes: dict[DocumentRef, int] = field(default_factory=dict)
    _density: float = 0.0

    def has(self, piece: Piece, *, share: float = 1) -> bool:
        return self._with(piece)[1] <= self.budget * share

    def take(self, piece: Piece, *, share: float = 1) -> bool:
        """Take a piece if it fits into a share of what is left."""
        if self._surely_too_large(piece):
            return False
        size, more = self._with(piece)
        if more > self.budget * share:
            return False
        name = piece.chunk.document_ref
        self._pieces.setdefault(name, []).append(piece)
        self._sizes[name] = size
        self.budget -= more
        return True

    @property
    def left(self) -> int:
        return max(0, self.budget)

    def _surely_too_large(self, piece: Piece) -> bool:
        """Whether its text would have to be far denser than any so far to fit in.

        Most of the pieces that are left out come when there is little room; counting them all would
        take longer than to choose those that are taken.
        """
        chunk = piece.chunk
        new = chunk.end - chunk.start
        for other in self._pieces.get(chunk.document_ref, ()):
            shared = min(chunk.end, other.chunk.end) - max(chunk.start, other.chunk.start)
            new -= max(0, shared)
        return self._density > 0 and new > DENSER * self._density * self.left

    def _with(self, piece: Piece) -> tuple[int, int]:
        """The tokens of the document's passages with the piece, and how many more these are."""
        name = piece.chunk.document_ref
        passages = self.passages([*self._pieces.get(name, ()), piece])
        sizes = [self.size(passage) for passage in passages]
        length = sum(len(passage.text) for passage in passages)
        self._density = max(self._density, length / max(1, sum(sizes)))
        size = sum(sizes) + self.glue * len(sizes)
        return size, size - self._sizes.get(name, 0)


class _Lane:
    """The pieces for one question, those worth most first, and what it has in the pack."""

    def __init__(self, question: PackQuery, hits: Mapping[PieceName, tuple[float, Piece]]) -> None:
        self.question = question
        self.highlighter = Highlighter(question.query)
        self.hits = hits
        self.best = max((worth for worth, _ in hits.values()), default=0.0)
        self.least = question.stop.least(self.best) if question.stop else 0.0
        self.served: set[PieceName] = set()
        self.tokens = 0
        self.stopped = False
        self._order = count()
        # The best first; of equals, the one that came first.
        self.queue = [(-worth, next(self._order), piece) for worth, piece in hits.values()]
        heapify(self.queue)

    @property
    def waits(self) -> bool:
        """Whether there is evidence for the question, and none of it in the pack yet."""
        return not self.served and bool(self.queue) and -self.queue[0][0] >= self.least

    def push_around(
        self, piece: Piece, worth: float, found: Iterator[tuple[PackRole, Chunk]]
    ) -> None:
        for role, chunk in found:
            own, beside = 0.0, Piece(chunk, role, piece.hit)
            if beside.name in self.hits:
                own, beside = self.hits[beside.name]
            value = worth if role == "parent" else (worth + own) / 2
            heappush(self.queue, (-value, next(self._order), beside))


def select(
    questions: Sequence[PackQuery], known: Known, room: Room, *, max_tokens: int
) -> PackSelection:
    """The pieces for a pack, those worth most first, for the question that has least of it.

    A hit that does not fit in is shortened to what speaks for the question. The first piece for a
    question gets no more room than those that still wait for theirs.
    """
    selection = PackSelection()
    lanes = _lanes(questions, known, selection)
    hits = (piece for lane in lanes for _, piece in lane.hits.values())
    texts = {copy_key(piece.chunk): piece.chunk.document_ref for piece in hits}
    around = _surroundings(known)
    while waiting := [lane for lane in lanes if lane.queue]:
        checkpoint()
        lane = min(waiting, key=lambda lane: lane.tokens)
        share = 1 / sum(other.waits for other in waiting) if lane.waits else 1
        negative, _, piece = heappop(lane.queue)
        worth = -negative
        if piece.name in lane.served:
            continue
        if worth < lane.least:
            lane.stopped = lane.stopped or room.left >= SENTENCE_TOKENS
            if piece.name not in selection.reasons and piece.name not in selection.taken:
                below = f"{worth:.2f} is below {lane.least:.2f}, where evidence stops"
                selection.leave(piece, below)
            continue
        if piece.name in selection.taken:
            selection.share(piece)
        else:
            document = piece.chunk.document_ref
            if texts.setdefault(copy_key(piece.chunk), document) != document:
                selection.leave(piece, COPY)
                continue
            before = room.left
            made = _fitted(piece, room, share, lane.highlighter)
            if made is None:
                selection.leave(piece, no_room(max_tokens))
                continue
            selection.take(made)
            selection.costs[piece.name] = before - room.left
        lane.served.add(piece.name)
        lane.tokens += selection.costs[piece.name]
        if not selection.taken[piece.name].truncated:
            lane.push_around(piece, worth, around(piece.chunk))
    for lane in lanes:
        selection.served.append(lane.served)
        if lane.question.stop and lane.stopped:
            notes = lane.question.stop.notes(lane.best, room.left)
            name = f"{excerpt(lane.question.query)}: " if len(lanes) > 1 else ""
            selection.notes += [name + note for note in notes]
    return selection


def _fitted(piece: Piece, room: Room, share: float, highlighter: Highlighter) -> Piece | None:
    """The piece, or of a hit what fits of it, once it is in the room; None if nothing fits."""
    if room.take(piece, share=share):
        return piece
    if piece.role != "primary" or room.left < SENTENCE_TOKENS:
        return None
    words = highlighter.spans(piece.chunk.text, language=piece.hit.language)
    cut = most_telling(piece, words, partial(room.has, share=share))
    return cut if cut is not None and room.take(cut, share=share) else None


def _lanes(questions: Sequence[PackQuery], known: Known, selection: PackSelection) -> list[_Lane]:
    """The hits of each question; for copies of a text, the one that was found first."""
    own = [[primary_of(hit, known) for hit in question.results] for question in questions]
    firsts = _without_copies(interleaved(own), selection)
    lanes = []
    for question, pieces in zip(questions, own, strict=True):
        hits: dict[PieceName, tuple[float, Piece]] = {}
        for piece in pieces:
            first = firsts[copy_key(piece.chunk)]
            if first.name == piece.name:
                shown = replace(piece, also_in=first.also_in)
            else:
                shown = piece if first.chunk.document_ref == piece.chunk.document_ref else first
            hits.setdefault(shown.name, (piece.hit.score, shown))
        lanes.append(_Lane(question, hits))
    return lanes


T = TypeVar("T")


def interleaved(lists: Sequence[Sequence[T]]) -> list[T]:
    """The first of each list, then the second of each, and so on."""
    return [item for row in zip_longest(*lists) for item in row if item is not None]


def _surroundings(known: Known) -> Callable[[Chunk], Iterator[tuple[PackRole, Chunk]]]:
    """The parent of a chunk and the chunks before and after it, as far as they are known."""
    chunks = [chunk for found in known.values() for chunk in found]
    by_id = {(chunk.document_ref, chunk.id): chunk for chunk in chunks}
    by_ordinal = {(chunk.document_ref, chunk.level, chunk.ordinal): chunk for chunk in chunks}

    def around(chunk: Chunk) -> Iterator[tuple[PackRole, Chunk]]:
        name = chunk.document_ref
        if chunk.parent_id and (parent := by_id.get((name, chunk.parent_id))):
            yield "parent", parent
        if (name, chunk.id) not in by_id:
            return
        for ordinal in (chunk.ordinal - 1, chunk.ordinal + 1):
            if other := by_ordinal.get((name, chunk.level, ordinal)):
                paged = chunk.pages is not None and other.pages is not None
                yield "cross_page" if paged and not share_pages(chunk, other) else "sibling", other

    return around


def _without_copies(pieces: Sequence[Piece], selection: PackSelection) -> dict[str, Piece]:
    """By text, the first piece that has it, which names the documents of the others.

    A document of the same name is named by its source.
    """
    firsts: dict[str, Piece] = {}
    for piece in pieces:
        first = firsts.setdefault(copy_key(piece.chunk), piece)
        if first.chunk.document_ref != piece.chunk.document_ref:
            hit, name = piece.hit, piece.hit.document_name
            if name == first.hit.document_name:
                name = hit.document_source or hit.document_id
            also_in = tuple(dict.fromkeys((*first.also_in, name)))
            firsts[copy_key(piece.chunk)] = replace(first, also_in=also_in)
            selection.leave(piece, COPY)
    return firsts


def no_room(max_tokens: int) -> str:
    """Why a piece is not in the pack: it did not fit in beside the others."""
    return f"with it the pack would have had more than {max_tokens} tokens"
