"""The section that a passage is cited by: the innermost one that covers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from lagotto.documents import Chunk, ChunkSection

Range = tuple[int, int]

COVERED = 0.92
"""The least share of a passage, in characters, that lies in the section which it is cited by."""


def sections_of(chunks: Iterable[Chunk]) -> list[ChunkSection]:
    """The sections of one stretch of text that `chunks`, in document order, make up."""
    found: list[ChunkSection] = []
    reach = 0
    for chunk in chunks:
        own = chunk.sections or (_whole(chunk),)
        edges = [*(section.start for section in own[1:]), chunk.end]
        for section, end in zip(own, edges, strict=True):
            if found and found[-1].heading_path == section.heading_path:
                found[-1] = _continued(found[-1], section)
            elif end > reach or not found:  # the span of a mere title is empty
                found.append(section._replace(start=max(section.start, reach)))
        reach = max(reach, chunk.end)
    return found


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


def _whole(chunk: Chunk) -> ChunkSection:
    return ChunkSection(chunk.start, chunk.heading_path, chunk.row_range, chunk.item_range)


def _continued(section: ChunkSection, more: ChunkSection) -> ChunkSection:
    """One section of two parts that follow on each other."""
    return section._replace(
        row_range=joined(section.row_range, more.row_range),
        item_range=joined(section.item_range, more.item_range),
    )


def joined(first: Range | None, second: Range | None) -> Range | None:
    """Row or item numbers of two parts in order as one range, None if they don't make one."""
    if first is None or second is None or not first[0] <= second[0] <= first[1] + 1:
        return None
    return first[0], max(first[1], second[1])
