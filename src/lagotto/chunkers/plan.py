"""Cutting at the best boundary that fits: the one algorithm behind every chunker.

From a start, look as far as the size allows, and cut at the coarsest boundary in the further half
of that stretch; the next chunk starts a little before the cut if there is an overlap. A row of a
table or an item of a list is cut only where it alone is larger than a chunk, and no overlap
reaches back into another section, table or list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagotto.chunkers.boundaries import Boundaries, BoundaryKind, Offsets
from lagotto.documents import Span
from lagotto.token_ruler import TokenRuler


@dataclass(frozen=True, slots=True)
class Cuts:
    """Boundaries in the order in which they are preferred; `last_resort` ones split a row.

    `fences` are the ones that an overlap doesn't cross.
    """

    preferred: tuple[Offsets, ...]
    last_resort: tuple[Offsets, ...]
    fences: Offsets

    @classmethod
    def ranked(cls, boundaries: Boundaries, ranks: Sequence[BoundaryKind]) -> Cuts:
        """Cuts at the given kinds of boundary, coarsest first."""
        ranked = [boundaries.of(kind) for kind in ranks]
        splits_part = [boundaries.within_part(offsets) for offsets in ranked]
        pairs = list(zip(ranked, splits_part, strict=True))
        return cls(
            preferred=tuple(offsets[~splits] for offsets, splits in pairs),
            last_resort=tuple(offsets[splits] for offsets, splits in pairs),
            fences=boundaries.of("section"),
        )


def plan(stretch: Span, *, cuts: Cuts, ruler: TokenRuler, size: int, overlap: int) -> list[Span]:
    """Spans that cover `stretch` in order, each of at most `size` tokens as the ruler counts."""
    spans: list[Span] = []
    start = covered = stretch.start
    while covered < stretch.end:
        limit = ruler.forward(start, size)
        if limit >= stretch.end:
            end = stretch.end
        else:
            end = _cut(cuts, covered, ruler.forward(start, size // 2), limit)
        spans.append(Span(start, end))
        earliest = max(ruler.backward(end, overlap), start + 1, _last(cuts.fences, end))
        start = _resume(cuts, earliest, end)
        covered = end
    return spans


def _cut(cuts: Cuts, covered: int, middle: int, limit: int) -> int:
    """The best boundary behind `covered` and up to `limit`, if possible behind `middle` too."""
    for group in (cuts.preferred, cuts.last_resort):
        latest = [_last(offsets, limit) for offsets in group]
        for offset in latest:
            if offset > max(covered, middle):
                return offset
        if latest and max(latest) > covered:
            return max(latest)
    return limit


def _resume(cuts: Cuts, earliest: int, end: int) -> int:
    """Where the next chunk starts: at the best boundary that makes use of most of the overlap."""
    halfway = (earliest + end) // 2
    for offsets in cuts.preferred:
        index = int(np.searchsorted(offsets, earliest))
        if index < len(offsets) and offsets[index] <= halfway:
            return int(offsets[index])
    return end


def _last(offsets: Offsets, limit: int) -> int:
    index = int(np.searchsorted(offsets, limit, side="right"))
    return int(offsets[index - 1]) if index else -1
