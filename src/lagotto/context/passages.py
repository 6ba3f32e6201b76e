"""Passages of a pack: hits with their neighbours and parents, overlapping chunks merged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

from lagotto._internal.concurrency import with_checkpoints
from lagotto.documents import Chunk, ChunkSection, DocumentRef, Location, common_path
from lagotto.prefs import CiteBy, ContextPrefs
from lagotto.results import RetrievalResult, cited_row, format_citation, with_copies

Range = tuple[int, int]

Known = Mapping[DocumentRef, Sequence[Chunk]]
"""The chunks that were read of each document."""


def by_document(chunks: Iterable[Chunk]) -> Known:
    by_ref: dict[DocumentRef, dict[str, Chunk]] = {}
    for chunk in chunks:
        by_ref.setdefault(chunk.document_ref, {})[chunk.id] = chunk
    return {name: tuple(by_id.values()) for name, by_id in by_ref.items()}


def expand(results: Sequence[RetrievalResult], known: Known, prefs: ContextPrefs) -> list[Piece]:
    """The pieces of a pack in its order, each chunk once, in its strongest role.

    Hits by rank, each followed by its parent; then their siblings; then chunks of other pages.
    A hit that is not among the known chunks stands for itself.
    """
    families = [_family(result, known, prefs) for result in with_checkpoints(results)]
    pieces: dict[PieceName, Piece] = {}
    for by_role in zip(*families, strict=True):
        for piece in chain.from_iterable(by_role):
            former = pieces.get(piece.name)
            if former is None or piece.weakness < former.weakness:
                pieces[piece.name] = piece
    return list(pieces.values())


def _family(
    hit: RetrievalResult, known: Known, prefs: ContextPrefs
) -> tuple[list[Piece], list[Piece], list[Piece]]:
    chunks = known.get(hit.document_ref, ())
    own = [primary_of(hit, known)]
    primary = own[0].chunk
    if prefs.include_parents:
        own += [Piece(chunk, "parent", hit) for chunk in chunks if chunk.id == primary.parent_id]
    if not any(chunk is primary for chunk in chunks):  # only what the hit has of it
        return own, [], []
    near, across = neighbours(primary, chunks, prefs)
    beside = [Piece(chunk, "sibling", hit) for chunk in near]
    return own, beside, [Piece(chunk, "cross_page", hit) for chunk in across]


def primary_of(hit: RetrievalResult, known: Known) -> Piece:
    """The piece of a hit: the chunk that was found, or what the hit has of it."""
    name = hit.child_id or hit.chunk_id
    chunks = known.get(hit.document_ref, ())
    stored = next((chunk for chunk in chunks if chunk.id == name), None)
    chunk = stored or Chunk(
        id=hit.chunk_id,
        collection=hit.collection,
        document_id=hit.document_id,
        chunker_id="",
        ordinal=0,
        text=hit.content,
        token_count=0,
        **hit.location_fields(),
    )
    return Piece(chunk, "primary", hit, also_in=hit.also_in)


def expand_neighbors(
    chunk: Chunk, all_chunks: Sequence[Chunk], prefs: ContextPrefs | None = None
) -> list[Chunk]:
    """The chunk with its siblings and the nearest chunks of adjacent pages, in document order.

    `all_chunks` are those of the chunk's document, in any order; the others don't count.
    """
    near, across = neighbours(chunk, all_chunks, prefs or ContextPrefs())
    by_id = {item.id: item for item in (chunk, *near, *across)}
    return sorted(by_id.values(), key=lambda item: (item.start, item.end))


def neighbours(
    chunk: Chunk, all_chunks: Sequence[Chunk], prefs: ContextPrefs
) -> tuple[list[Chunk], list[Chunk]]:
    """The siblings of a chunk and chunks of other pages, up to so many on each side, in order.

    Siblings are of the same parent, or else of the same page, or in a document without pages the
    chunks before and behind. The others are from the nearest page with text that it is not on.
    """
    name, near, far = chunk.document_ref, prefs.neighbor_same_page, prefs.neighbor_cross_page
    same = [one for one in all_chunks if (one.document_ref, one.level) == (name, chunk.level)]
    same.sort(key=lambda item: item.ordinal)
    before = [item for item in same if item.ordinal < chunk.ordinal]
    behind = [item for item in same if item.ordinal > chunk.ordinal]
    near_before = [item for item in before if _related(chunk, item)]
    near_behind = [item for item in behind if _related(chunk, item)]
    siblings = near_before[max(0, len(near_before) - near) :] + near_behind[:near]
    if chunk.pages is None:
        return siblings, []
    first, last = chunk.pages
    earlier = [(item.pages[1], item) for item in before if item.pages and item.pages[1] < first]
    later = [(item.pages[0], item) for item in behind if item.pages and item.pages[0] > last]
    page_before = [item for page, item in earlier if page == earlier[-1][0]]
    page_behind = [item for page, item in later if page == later[0][0]]
    return siblings, page_before[max(0, len(page_before) - far) :] + page_behind[:far]


def _related(chunk: Chunk, other: Chunk) -> bool:
    if chunk.parent_id is not None:
        return chunk.parent_id == other.parent_id
    return share_pages(chunk, other)


def share_pages(chunk: Chunk, other: Chunk) -> bool:
    """Whether there is a page that both are on, or neither is on any."""
    if chunk.pages is None or other.pages is None:
        return chunk.pages == other.pages
    return chunk.pages[0] <= other.pages[1] and other.pages[0] <= chunk.pages[1]


PackRole = Literal["primary", "parent", "sibling", "cross_page"]
ROLES: tuple[PackRole, ...] = ("primary", "parent", "sibling", "cross_page")
"""Why a chunk is in a pack, the strongest reason first. What is weakest is dropped first."""

PieceName = tuple[str, str, str]
"""The identity of a piece: collection, document and chunk."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that goes into a pack, and why; `hit` is the result that it is or came with.

    The chunk of a truncated piece is a part of the one that was stored. `also_in` are the names of
    other documents that were found with the same text.
    """

    chunk: Chunk
    role: PackRole
    hit: RetrievalResult
    cut_before: bool = False
    cut_after: bool = False
    also_in: tuple[str, ...] = ()

    @property
    def truncated(self) -> bool:
        return self.cut_before or self.cut_after

    @property
    def name(self) -> PieceName:
        return self.chunk.collection, self.chunk.document_id, self.chunk.id

    @property
    def weakness(self) -> int:
        """0 for a primary; what is weaker is dropped earlier."""
        return ROLES.index(self.role)


@dataclass(frozen=True)
class PackPassage:
    """Pieces of one document that are one stretch of its text, in the order of the pack.

    `cite_by` is what its citation names the document by.
    """

    pieces: tuple[Piece, ...]
    cite_by: CiteBy = "title"

    @cached_property
    def lead(self) -> Piece:
        """The strongest piece, which the passage is there for."""
        return min(self.pieces, key=lambda piece: piece.weakness)

    @property
    def start(self) -> int:
        return self.chunks[0].start

    @cached_property
    def end(self) -> int:
        return max(piece.chunk.end for piece in self.pieces)

    @cached_property
    def text(self) -> str:
        return stitched((piece.chunk.start, piece.chunk.text) for piece in self.pieces)

    @cached_property
    def context(self) -> str:
        """The header row of a table that it begins in the middle of, as a line to show above it."""
        first = next(piece for piece in self.pieces if piece.chunk.start == self.start)
        inside = first.chunk.element == "table" or not first.cut_before
        return f"{first.chunk.context}\n" if first.chunk.context and inside else ""

    @cached_property
    def truncated(self) -> bool:
        return any(piece.cut_after and piece.chunk.end == self.end for piece in self.pieces)

    @cached_property
    def starts_cut(self) -> bool:
        """Whether it starts after a chunk that it is made of does."""
        return any(piece.cut_before and piece.chunk.start == self.start for piece in self.pieces)

    @cached_property
    def location(self) -> Location:
        """The location of the whole passage, in the section that covers it."""
        chunks, hit = self.chunks, self.lead.hit
        fields = covering(self.sections, self.end).location_fields()
        if row := cited_row(hit.document_kind, hit.metadata):  # the document is a row of a table
            fields["row_range"] = row
        return Location(
            start=self.start,
            end=self.end,
            pages=_reach(chunk.pages for chunk in chunks),
            lines=_reach(chunk.lines for chunk in chunks),
            **fields,
        )

    @cached_property
    def sections(self) -> list[ChunkSection]:
        """The sections that the passage reaches into, in order."""
        return sections_of(self.chunks)

    @cached_property
    def label(self) -> str:
        hit = self.lead.hit
        if self.cite_by == "id":
            label = format_citation(hit.document_id, self.location, title=hit.document_title)
        else:
            label = format_citation(hit.document_name, self.location)
        return with_copies(label, self.also_in)

    @cached_property
    def also_in(self) -> tuple[str, ...]:
        """The names of other documents with the same text, or a part of it."""
        return tuple(dict.fromkeys(name for piece in self.pieces for name in piece.also_in))

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Those of its pieces, in the order of the document."""
        chunks = (piece.chunk for piece in self.pieces)
        return sorted(chunks, key=lambda chunk: (chunk.start, -chunk.end))


def merged(
    pieces: Sequence[Piece], *, cite_by: CiteBy = "title", adjoining: bool = False
) -> list[PackPassage]:
    """The passages that `pieces` make up, in the order of their first pieces.

    Pieces of a document are one passage if they overlap. A neighbour also joins what it touches on
    its page; hits and parents that touch stay apart, so that a citation is as narrow as it can be.
    With `adjoining`, all that touch join within a section, whatever their roles.
    """
    documents: dict[DocumentRef, list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        documents[piece.chunk.document_ref].append(index)
    groups: list[list[int]] = []
    for indices in documents.values():
        reach: Piece | None = None
        for at in sorted(indices, key=lambda at: (pieces[at].chunk.start, -pieces[at].chunk.end)):
            piece = pieces[at]
            if reach is not None and _continues(reach, piece, adjoining=adjoining):
                groups[-1].append(at)
                reach = piece if piece.chunk.end > reach.chunk.end else reach
            else:
                groups.append([at])
                reach = piece
    groups = sorted(sorted(group) for group in groups)
    return [PackPassage(tuple(pieces[index] for index in group), cite_by) for group in groups]


def stitched(parts: Iterable[tuple[int, str]]) -> str:
    """One text from overlapping parts of it, each with the offset at which it starts."""
    text, end = "", -1
    for start, part in sorted(parts, key=lambda item: item[0]):
        text += part[max(0, end - start) :] if text else part
        end = max(end, start + len(part))
    return text


def _continues(piece: Piece, other: Piece, *, adjoining: bool) -> bool:
    """Whether `other`, which starts no earlier, is part of the same passage.

    They may come from two versions of a document; then the shared part is not the same text.
    """
    chunk, next_ = piece.chunk, other.chunk
    shared = chunk.end - next_.start
    if shared > 0:
        return chunk.text[next_.start - chunk.start :].startswith(next_.text[:shared])
    if shared < 0:
        return False
    if not adjoining:
        pages = {page for item in (chunk, next_) for page in item.pages or (0, 0)}
        return len(pages) == 1 and bool({piece.role, other.role} & {"sibling", "cross_page"})
    # One is in the section of the other, or both are in a section below the upper level.
    paths = [covering(sections_of([item]), item.end).heading_path for item in (chunk, next_)]
    common = common_path(paths)
    return len(common) > 1 or (common in paths and bool(common or not any(paths)))


def _reach(ranges: Iterable[Range | None]) -> Range | None:
    """From the first to the last of the pages or lines of pieces; None if they have none."""
    pairs = [one for one in ranges if one]
    return (min(first for first, _ in pairs), max(last for _, last in pairs)) if pairs else None


COVERED = 0.92
"""The least share of a passage, in characters, that lies in the section which it is cited by."""


def sections_of(chunks: Iterable[Chunk]) -> list[ChunkSection]:
    """The sections of one stretch of text that `chunks`, in document order, make up."""
    sections: list[ChunkSection] = []
    reach = 0
    for chunk in chunks:
        whole = ChunkSection(chunk.start, chunk.heading_path, chunk.row_range, chunk.item_range)
        own = chunk.sections or (whole,)
        edges = [*(section.start for section in own[1:]), chunk.end]
        for section, end in zip(own, edges, strict=True):
            if sections and sections[-1].heading_path == section.heading_path:
                sections[-1] = sections[-1]._replace(
                    row_range=joined(sections[-1].row_range, section.row_range),
                    item_range=joined(sections[-1].item_range, section.item_range),
                )
            elif end > reach or not sections:  # the span of a mere title is empty
                sections.append(section._replace(start=max(section.start, reach)))
        reach = max(reach, chunk.end)
    return sections


def covering(sections: Sequence[ChunkSection], end: int) -> ChunkSection:
    """The innermost section that covers almost all of the text from the first one to `end`.

    It has rows and items if it does so without its subsections.
    """
    edges = [*(section.start for section in sections), end]
    lengths: Counter[tuple[str, ...]] = Counter()
    for section, (start, stop) in zip(sections, pairwise(edges), strict=True):
        path = section.heading_path
        for depth in range(len(path) + 1):
            lengths[path[:depth]] += stop - start
        if stop - start >= COVERED * (end - edges[0]):
            return section
    least = COVERED * lengths[()]
    path = max((path for path, length in lengths.items() if length >= least), key=len)
    return ChunkSection(edges[0], path)


def joined(first: Range | None, second: Range | None) -> Range | None:
    """Row or item numbers of two parts in order as one range, None if they don't make one."""
    if first is None or second is None or not first[0] <= second[0] <= first[1] + 1:
        return None
    return first[0], max(first[1], second[1])
