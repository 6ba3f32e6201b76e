"""`section:SIZE/OVERLAP`: sections, whole where they fit; chunks begin at sentences.

A chunk crosses a heading only where a section is small: then it is merged with its neighbours under
the same parent, and the chunk has the headings that all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lagotto.chunkers.base import parse_sizes
from lagotto.chunkers.spans import ChunkBuilder, Cutter
from lagotto.chunkers.structure import is_bare
from lagotto.documents import Chunk, Document, Heading, Span
from lagotto.tokens import Tokenizer

SMALL = 0.25
"""Sections of up to this share of the size join their siblings."""


class SectionChunker:
    """Cuts a document into its sections, larger ones further, and merges small ones."""

    def __init__(self, parameters: str, tokenizer: Tokenizer) -> None:
        self._size, self._overlap = parse_sizes("section", parameters, (256, 32))
        self.id = f"section:{self._size}/{self._overlap}"
        self._tokenizer = tokenizer

    def chunk(self, document: Document) -> list[Chunk]:
        cutter = Cutter(document, self._tokenizer, strict=True)
        cuts = [
            cut
            for region in regions(document, tokens=cutter.tokens, size=self._size)
            for cut in cutter.cut(region, size=self._size, overlap=self._overlap)
        ]
        return ChunkBuilder(document, self.id, common_headings=True).make(cuts)


def regions(document: Document, *, tokens: Callable[[Span], int], size: int) -> Iterator[Span]:
    """The stretches of a document that no chunk leaves; together they are the whole text.

    A section that fits into a chunk stays whole. It joins the stretch before if that is of its
    parent or of its siblings, both fit into one chunk, and one of them is small. A heading without
    text is never alone.
    """
    text = document.text
    start = last = covered = 0
    level: int | None = None  # of the first heading of the stretch
    bare = True
    for heading in document.headings:
        if heading.start < covered:
            continue
        bare = bare and _is_bare(text[last : heading.start], under_heading=level is not None)
        if not bare and not _joins(heading, start, level or 0, tokens, size):
            yield Span(start, heading.start)
            start, level, bare = heading.start, heading.level, True
        elif level is None and bare:
            level = heading.level
        last = heading.start
        if tokens(Span(start, heading.end)) <= size:
            covered, bare = heading.end, False
    yield Span(start, len(text))


def _joins(
    heading: Heading, start: int, level: int, tokens: Callable[[Span], int], size: int
) -> bool:
    """Whether a section belongs to the stretch from `start` on, whose first heading has `level`."""
    if heading.level < level or tokens(Span(start, heading.end)) > size:
        return False
    parts = tokens(Span(start, heading.start)), tokens(Span(heading.start, heading.end))
    return min(parts) <= SMALL * size


def _is_bare(section: str, *, under_heading: bool) -> bool:
    return is_bare(section) if under_heading else not section.strip()
