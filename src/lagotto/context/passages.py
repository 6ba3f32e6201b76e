"""Passages of a pack: overlapping chunks merged, so that no text comes twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from lagotto.chunkers.structure import common_path
from lagotto.documents import Chunk, Location
from lagotto.prefs import CiteBy
from lagotto.results import RetrievalResult, cited_row, format_citation

PackRole = Literal["primary", "parent", "sibling", "cross_page"]
ROLES: tuple[PackRole, ...] = ("primary", "parent", "sibling", "cross_page")
"""Why a chunk is in a pack, the strongest reason first. What is weakest is dropped first."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that goes into a pack, and why; `hit` is the result that it is or came with.

    The chunk of a truncated piece is the beginning of the one that was stored.
    """

    chunk: Chunk
    role: PackRole
    hit: RetrievalResult
    truncated: bool = False

    @property
    def name(self) -> tuple[str, str, str]:
        """The identity of the piece: collection, document and chunk."""
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

    @cached_property
    def start(self) -> int:
        return min(piece.chunk.start for piece in self.pieces)

    @cached_property
    def end(self) -> int:
        return max(piece.chunk.end for piece in self.pieces)

    @cached_property
    def text(self) -> str:
        """The document's text from `start` to `end`."""
        return stitched((piece.chunk.start, piece.chunk.text) for piece in self.pieces)

    @cached_property
    def truncated(self) -> bool:
        """Whether it ends before a chunk that it is made of does."""
        return any(piece.truncated and piece.chunk.end == self.end for piece in self.pieces)

    @cached_property
    def location(self) -> Location:
        """The location of the whole passage; under the headings of its strongest piece."""
        chunks = [piece.chunk for piece in self._in_document_order()]
        rows, items = self._ranges(chunks)
        return Location(
            start=self.start,
            end=self.end,
            pages=_reach(chunk.pages for chunk in chunks),
            heading_path=self._heading_path,
            row_range=rows or self._row,
            item_range=items,
            lines=_reach(chunk.lines for chunk in chunks),
        )

    def _ranges(self, chunks: Sequence[Chunk]) -> tuple[Range | None, Range | None]:
        """The rows and the items in the section that the passage is cited by."""
        hit = self.lead.hit
        if len(chunks) == 1 and self.lead.role == "primary" and not self.truncated:
            return hit.row_range, hit.item_range
        if any(chunk.sections for chunk in chunks) or len({one.heading_path for one in chunks}) > 1:
            return None, None
        return _joined(one.row_range for one in chunks), _joined(one.item_range for one in chunks)

    @property
    def _row(self) -> Range | None:
        hit = self.lead.hit
        return cited_row(hit.document_kind, hit.metadata)

    @property
    def _heading_path(self) -> tuple[str, ...]:
        """Those of the hit, unless the section that it is cited by was cut off."""
        lead = self.lead
        if lead.role != "primary":
            return lead.chunk.heading_path
        left = [section.heading_path for section in lead.chunk.sections]
        cited = lead.hit.heading_path
        return common_path(left) if lead.truncated and left and cited not in left else cited

    @cached_property
    def label(self) -> str:
        """Its citation, for people."""
        hit = self.lead.hit
        if self.cite_by == "id":
            return format_citation(hit.document_id, self.location, title=hit.document_title)
        return format_citation(hit.document_name, self.location)

    def _in_document_order(self) -> list[Piece]:
        return sorted(self.pieces, key=lambda piece: (piece.chunk.start, -piece.chunk.end))


def merged(pieces: Sequence[Piece], *, cite_by: CiteBy = "title") -> list[PackPassage]:
    """The passages that `pieces` make up, in the order of their first pieces.

    Pieces of a document are one passage if they overlap. A neighbour also joins what it touches on
    its page; hits and parents that touch stay apart, so that a citation is as narrow as it can be.
    """
    documents: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        documents[piece.chunk.collection, piece.chunk.document_id].append(index)
    groups = [group for indices in documents.values() for group in _stretches(pieces, indices)]
    groups = sorted(sorted(group) for group in groups)
    return [PackPassage(tuple(pieces[index] for index in group), cite_by) for group in groups]


def stitched(parts: Iterable[tuple[int, str]]) -> str:
    """One text from overlapping parts of it, each with the offset at which it starts."""
    text, end = "", -1
    for start, part in sorted(parts, key=lambda item: item[0]):
        text += part[max(0, end - start) :] if text else part
        end = max(end, start + len(part))
    return text


def _stretches(pieces: Sequence[Piece], indices: Iterable[int]) -> list[list[int]]:
    """The indices of pieces of one document, grouped into stretches of text."""
    groups: list[list[int]] = []
    reach: Piece | None = None
    for index in sorted(indices, key=lambda at: (pieces[at].chunk.start, -pieces[at].chunk.end)):
        piece = pieces[index]
        if reach is not None and _continues(reach, piece):
            groups[-1].append(index)
            reach = piece if piece.chunk.end > reach.chunk.end else reach
        else:
            groups.append([index])
            reach = piece
    return groups


def _continues(piece: Piece, other: Piece) -> bool:
    """Whether `other`, which starts no earlier, is part of the same passage.

    They may come from two versions of a document; then the shared part is not the same text.
    """
    chunk, next_ = piece.chunk, other.chunk
    shared = chunk.end - next_.start
    if shared > 0:
        return chunk.text[next_.start - chunk.start :].startswith(next_.text[:shared])
    pages = {page for item in (chunk, next_) for page in item.pages or (0, 0)}
    neighbours = {piece.role, other.role} & {"sibling", "cross_page"}
    return shared == 0 and len(pages) == 1 and bool(neighbours)


def _reach(ranges: Iterable[Range | None]) -> Range | None:
    """From the first to the last of the pages or lines of pieces; None if they have none."""
    found = [one for one in ranges if one]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _joined(ranges: Iterable[Range | None]) -> Range | None:
    """Row or item numbers of pieces in order as one range, None if they don't make one."""
    joined: Range | None = None
    for found in ranges:
        if found is None or (joined and not joined[0] <= found[0] <= joined[1] + 1):
            return None
        joined = (joined[0], max(joined[1], found[1])) if joined else found
    return joined
