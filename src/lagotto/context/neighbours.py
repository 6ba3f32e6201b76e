"""What stands around a chunk: siblings of the same parent or page, chunks of the next pages."""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.documents import Chunk
from lagotto.prefs import ContextPrefs


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
