"""From hits to all pieces that may go into a pack: hits, parents, siblings, cross-page chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lagotto.context.neighbours import cross_page, siblings
from lagotto.context.passages import Piece
from lagotto.documents import Chunk
from lagotto.prefs import ContextPrefs
from lagotto.results import RetrievalResult

Known = Mapping[tuple[str, str], Sequence[Chunk]]
"""The chunks that were read of each document, by collection and id."""


def by_document(chunks: Iterable[Chunk]) -> Known:
    """The distinct chunks of each document."""
    known: dict[tuple[str, str], dict[str, Chunk]] = {}
    for chunk in chunks:
        known.setdefault((chunk.collection, chunk.document_id), {})[chunk.id] = chunk
    return {name: tuple(found.values()) for name, found in known.items()}


def expand(results: Sequence[RetrievalResult], known: Known, prefs: ContextPrefs) -> list[Piece]:
    """The pieces of a pack in its order, each chunk once, in its strongest role.

    Hits by rank, each followed by its parent; then their siblings; then chunks of other pages.
    A hit that is not among the known chunks stands for itself.
    """
    families = [_Family(result, known, prefs) for result in results]
    found: dict[tuple[str, str, str], Piece] = {}
    for piece in (
        *(piece for family in families for piece in family.hit_and_parent()),
        *(piece for family in families for piece in family.siblings()),
        *(piece for family in families for piece in family.cross_page()),
    ):
        former = found.get(piece.name)
        if former is None or piece.weakness < former.weakness:
            found[piece.name] = piece
    return list(found.values())


class _Family:
    """A hit and what belongs to it."""

    def __init__(self, hit: RetrievalResult, known: Known, prefs: ContextPrefs) -> None:
        self._hit = hit
        self._prefs = prefs
        self._chunks = known.get((hit.collection, hit.document_id), ())
        name = hit.child_id or hit.chunk_id
        self._stored = next((chunk for chunk in self._chunks if chunk.id == name), None)

    def hit_and_parent(self) -> Iterator[Piece]:
        primary = self._stored or _standing_alone(self._hit)
        yield Piece(primary, "primary", self._hit)
        if self._prefs.include_parents and primary.parent_id:
            for chunk in self._chunks:
                if chunk.id == primary.parent_id:
                    yield Piece(chunk, "parent", self._hit)

    def siblings(self) -> Iterator[Piece]:
        count = self._prefs.neighbor_same_page
        if self._stored:
            for chunk in siblings(self._stored, self._chunks, count=count):
                yield Piece(chunk, "sibling", self._hit)

    def cross_page(self) -> Iterator[Piece]:
        count = self._prefs.neighbor_cross_page
        if self._stored:
            for chunk in cross_page(self._stored, self._chunks, count=count):
                yield Piece(chunk, "cross_page", self._hit)


def _standing_alone(hit: RetrievalResult) -> Chunk:
    """The chunk of a hit, as far as the hit tells."""
    return Chunk(
        id=hit.chunk_id,
        collection=hit.collection,
        document_id=hit.document_id,
        chunker_id="",
        ordinal=0,
        text=hit.content,
        token_count=0,
        **dict(hit.location),
    )
