"""The chunks around hits: parents, siblings of the same parent or page, chunks of other pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    """A hit with its parent and neighbours."""

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
    """The chunk of a hit, with the fields that the hit has."""
    return Chunk(
        id=hit.chunk_id,
        collection=hit.collection,
        document_id=hit.document_id,
        chunker_id="",
        ordinal=0,
        text=hit.content,
        token_count=0,
        **hit.location_fields(),
    )


def expand_neighbors(
    chunk: Chunk, all_chunks: Sequence[Chunk], prefs: ContextPrefs | None = None
) -> list[Chunk]:
    """The chunk with its siblings and the nearest chunks of adjacent pages, in document order.

    `all_chunks` are those of the chunk's document, in any order; the others don't count.
    """
    wanted = prefs or ContextPrefs()
    near = siblings(chunk, all_chunks, count=wanted.neighbor_same_page)
    across = cross_page(chunk, all_chunks, count=wanted.neighbor_cross_page)
    found = {item.id: item for item in (chunk, *near, *across)}
    return sorted(found.values(), key=lambda item: (item.start, item.end))


def siblings(chunk: Chunk, all_chunks: Sequence[Chunk], *, count: int) -> list[Chunk]:
    """Up to `count` on each side: of the same parent, or else of the same page.

    In a document without pages they are simply the chunks before and behind.
    """
    before, behind = _sides(chunk, all_chunks)
    near_before = [item for item in before if _related(chunk, item)]
    near_behind = [item for item in behind if _related(chunk, item)]
    return _last(near_before, count) + near_behind[:count]


def cross_page(chunk: Chunk, all_chunks: Sequence[Chunk], *, count: int) -> list[Chunk]:
    """Up to `count` on each side, from the nearest page that has text and that it is not on."""
    if chunk.pages is None:
        return []
    first, last = chunk.pages
    before, behind = _sides(chunk, all_chunks)
    earlier = [(item.pages[1], item) for item in before if item.pages and item.pages[1] < first]
    later = [(item.pages[0], item) for item in behind if item.pages and item.pages[0] > last]
    page_before = [item for page, item in earlier if page == earlier[-1][0]]
    page_behind = [item for page, item in later if page == later[0][0]]
    return _last(page_before, count) + page_behind[:count]


def _sides(chunk: Chunk, all_chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """The chunks of the same level before and behind, both in document order."""
    same = [
        item
        for item in all_chunks
        if (item.collection, item.document_id, item.level)
        == (chunk.collection, chunk.document_id, chunk.level)
    ]
    same.sort(key=lambda item: item.ordinal)
    before = [item for item in same if item.ordinal < chunk.ordinal]
    return before, [item for item in same if item.ordinal > chunk.ordinal]


def _related(chunk: Chunk, other: Chunk) -> bool:
    if chunk.parent_id is not None:
        return chunk.parent_id == other.parent_id
    if chunk.pages is None or other.pages is None:
        return chunk.pages == other.pages
    return chunk.pages[0] <= other.pages[1] and other.pages[0] <= chunk.pages[1]


def _last(chunks: list[Chunk], count: int) -> list[Chunk]:
    return chunks[max(0, len(chunks) - count) :]
