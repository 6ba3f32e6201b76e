"""SpanChunker: cut a document into token-sized spans at the best boundary that fits.

A chunk extends as far as the size allows and ends at the coarsest boundary in the second half of
that range; with an overlap, the next chunk starts a little earlier, at a boundary as well: at a
sentence if one starts there, since a line of a PDF may end anywhere. A table row or a list item is
cut only if it is larger than a chunk, a heading stays with its text, and no overlap reaches into
another section, table or list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lagotto._internal.concurrency import checkpoint
from lagotto._internal.tokens import CHARACTERS_PER_TOKEN, PIECE, Tokenizer, TokenRuler
from lagotto.chunkers.base import parse_sizes
from lagotto.chunkers.boundaries import Boundaries, BoundaryKind, Offsets
from lagotto.chunkers.structure import Structure
from lagotto.documents import Chunk, ChunkLevel, Document, Span, chunk_id

Regions = Callable[[Document], Iterable[Span]]
"""Splits a document into regions that no chunk crosses; together they are the whole text."""

ANYWHERE: tuple[BoundaryKind, ...] = ("section", "paragraph", "part", "statement", "line", "word")
LAST_START: BoundaryKind = "statement"
"""Kinds of boundary up to this one start a sentence, or at least a line of code."""

COUNTED = 64
"""Texts whose tokens are counted in one call, which can't be interrupted."""


def whole(document: Document) -> Iterable[Span]:
    return (Span(0, len(document.text)),)


class SpanChunker:
    """Cuts flat chunks within `regions`, at the kinds of boundary in `ranks`, coarsest first."""

    def __init__(
        self,
        name: str,
        parameters: str,
        tokenizer: Tokenizer,
        *,
        defaults: tuple[int, int],
        regions: Regions = whole,
        ranks: Sequence[BoundaryKind] = ANYWHERE,
    ) -> None:
        self._size, self._overlap = parse_sizes(name, parameters, defaults)
        self.id = f"{name}:{self._size}/{self._overlap}"
        self._tokenizer = tokenizer
        self._regions = regions
        self._ranks = ranks

    def chunk(self, document: Document) -> list[Chunk]:
        cutter = Cutter(document, self._tokenizer, self._ranks)
        cuts = (
            cut
            for region in self._regions(document)
            for cut in cutter.cut(region, size=self._size, overlap=self._overlap)
        )
        return make_chunks(document, self.id, cuts)


class Cut(NamedTuple):
    """A span that becomes a chunk, with its token count."""

    start: int
    end: int
    tokens: int


@dataclass(eq=False)
class Cutter:
    """Cuts regions of one document; its tokens and boundaries are computed once, if at all."""

    document: Document
    tokenizer: Tokenizer
    ranks: Sequence[BoundaryKind] = ANYWHERE
    strict: bool = False

    def tokens(self, span: Span) -> int:
        """The number of tokens in `span`, nearly: a word at either end may be cut."""
        return self._ruler.between(*span)

    @cached_property
    def all_tokens(self) -> int:
        """The number of tokens in the document; to count takes a third of locating them."""
        text = self.document.text
        if len(text) <= PIECE:
            return self.tokenizer.count([text])[0]
        return self.tokens(Span(0, len(text)))

    def cut(self, region: Span, *, size: int, overlap: int) -> list[Cut]:
        """Cover `region` with spans that are neither blank nor larger than `size`."""
        text, longest = self.document.text, min(size * CHARACTERS_PER_TOKEN, PIECE)
        is_all = len(text) <= longest and region == (0, len(text))
        # most short texts are one chunk, and need no ruler
        if is_all and text.strip() and self.all_tokens <= size:
            return [Cut(*region, self.all_tokens)]
        spans = self._plan(region, size, overlap) if region.start < region.end else []
        return self._fit(size, spans)

    @cached_property
    def _ruler(self) -> TokenRuler:
        return TokenRuler(self.document.text, self.tokenizer)

    @cached_property
    def _cuts(self) -> _Cuts:
        return _Cuts(self.document, self.ranks, strict=self.strict)

    def _plan(self, region: Span, size: int, overlap: int) -> list[Span]:
        """Cover `region` with spans of at most `size` tokens, as the ruler counts."""
        ruler = self._ruler
        spans: list[Span] = []
        start = covered = region.start
        while (limit := ruler.forward(start, size)) < region.end:
            checkpoint()
            half, quarter = (ruler.forward(start, size // part) for part in (2, 4))
            covered = self._cuts.end(covered, half, quarter, limit)
            spans.append(Span(start, covered))
            start = self._cuts.resume(max(ruler.backward(covered, overlap), start + 1), covered)
        return [*spans, Span(start, region.end)]

    def _fit(self, size: int, spans: Sequence[Span]) -> list[Cut]:
        """Count exactly: a cut inside a word can add tokens; such a span is halved."""
        fitting: list[Cut] = []
        for first in range(0, len(spans), COUNTED):
            checkpoint()
            batch = spans[first : first + COUNTED]
            texts = [self.document.text[start:end] for start, end in batch]
            counts = self.tokenizer.count(texts)
            for (start, end), text, tokens in zip(batch, texts, counts, strict=True):
                if text.isspace():
                    continue
                if tokens <= size or len(text) == 1:
                    fitting.append(Cut(start, end, tokens))
                else:
                    middle = (start + end) // 2
                    fitting += self._fit(size, [Span(start, middle), Span(middle, end)])
        return fitting


def make_chunks(
    document: Document,
    chunker_id: str,
    cuts: Iterable[Cut],
    *,
    level: ChunkLevel = "flat",
    parents: Sequence[Chunk] | None = None,
    common_headings: bool = False,
) -> list[Chunk]:
    """Create a chunk per cut, numbered in order; `parents` has one parent per cut.

    The headings of a chunk are those of all its sections with `common_headings`, else those above
    its first character.
    """
    structure = Structure(document, common_headings=common_headings)
    chunks = []
    for ordinal, (start, end, tokens) in enumerate(cuts):
        checkpoint()
        span = Span(start, end)
        chunk = Chunk(
            id=chunk_id(document, chunker_id, level, span),
            collection=document.collection,
            document_id=document.id,
            chunker_id=chunker_id,
            level=level,
            parent_id=parents[ordinal].id if parents else None,
            ordinal=ordinal,
            start=start,
            end=end,
            text=document.text[start:end],
            token_count=tokens,
            **structure.describe(span),
        )
        chunks.append(chunk)
    return chunks


class _Cuts:
    """The boundaries of a document in order of preference.

    Those in `_last_resort` split what belongs together: a row, an item, a heading and its text. At
    the first `_starts` kinds of boundary a sentence or line starts, so chunks start there rather
    than elsewhere; `strict` ones even if they have to be half as large for that, or to do without
    an overlap.
    """

    def __init__(self, document: Document, ranks: Sequence[BoundaryKind], *, strict: bool) -> None:
        boundaries = Boundaries(document.text, document)
        ranked = [boundaries.of(kind) for kind in ranks]
        pairs = [(offsets, boundaries.split_parts(offsets)) for offsets in ranked]
        self._preferred = [offsets[~bad] for offsets, bad in pairs]
        self._last_resort = [offsets[bad] for offsets, bad in pairs]
        self._sections = boundaries.of("section")
        self._starts = ranks.index(LAST_START) + 1 if LAST_START in ranks else 0
        self._strict = strict

    def end(self, covered: int, half: int, quarter: int, limit: int) -> int:
        """The best boundary after `covered` and up to `limit`, if possible after `half`.

        For one at which a sentence starts, a strict chunk may also be filled to a `quarter` only.
        """
        for group in (self._preferred, self._last_resort):
            latest = [_last(offsets, limit) for offsets in group]
            wishes = [(half, latest)]
            if self._strict:
                good = latest[: self._starts]
                wishes = [(half, good), (quarter, good), *wishes]
            for least, offsets in wishes:
                for offset in offsets:
                    if offset > max(covered, least):
                        return offset
            if latest and max(latest) > covered:
                return max(latest)
        return limit

    def resume(self, earliest: int, end: int) -> int:
        """The start of the next chunk, not in another section than what ends before it.

        That is a sentence, or else the best boundary that uses most of the overlap.
        """
        earliest = max(earliest, _last(self._sections, end))
        sentences = self._preferred[: self._starts]
        start = min((_first(offsets, earliest, end) for offsets in sentences), default=end)
        if start < end or self._strict:
            return start
        halfway = (earliest + end) // 2
        for offsets in self._preferred:
            cut = _first(offsets, earliest, end)
            if cut <= halfway:
                return cut
        return end


def _first(offsets: Offsets, earliest: int, end: int) -> int:
    """The first offset from `earliest` on, at most `end`."""
    index = int(np.searchsorted(offsets, earliest))
    return min(int(offsets[index]), end) if index < len(offsets) else end


def _last(offsets: Offsets, limit: int) -> int:
    """The last offset up to `limit`, or -1."""
    index = int(np.searchsorted(offsets, limit, side="right"))
    return int(offsets[index - 1]) if index else -1
