"""SpanChunker: cut a document into token-sized spans at the best boundary that fits.

A chunk extends as far as the size allows and ends at the coarsest boundary in the second half of
that range; with an overlap, the next chunk starts a little earlier, at a boundary as well: at a
sentence if one starts there, since a line of a PDF may end anywhere. A table row or a list item is
cut only if it is larger than a chunk, a heading stays with its text, and no overlap reaches into
another section, table or list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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

ANYWHERE: tuple[BoundaryKind, ...] = (
    "section",
    "paragraph",
    "part",
    "statement",
    "line",
    "word",
)
LAST_START: BoundaryKind = "statement"
"""Kinds of boundary up to this one start a sentence, or at least a line of code."""

COUNTED = 64
"""Texts whose tokens are counted in one call, which can't be interrupted."""


def whole(document: Document) -> Iterable[Span]:
    """The whole document as one region."""
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
        cuts = [
            cut
            for region in self._regions(document)
            for cut in cutter.cut(region, size=self._size, overlap=self._overlap)
        ]
        return ChunkBuilder(document, self.id).make(cuts)


class Cut(NamedTuple):
    """A span that becomes a chunk, with its token count."""

    start: int
    end: int
    tokens: int


class Cutter:
    """Cuts regions of one document; its tokens and boundaries are computed once, if at all."""

    def __init__(
        self,
        document: Document,
        tokenizer: Tokenizer,
        ranks: Sequence[BoundaryKind] = ANYWHERE,
        *,
        strict: bool = False,
    ) -> None:
        self._document = document
        self._text = document.text
        self._tokenizer = tokenizer
        self._ranks = ranks
        self._strict = strict

    def tokens(self, span: Span) -> int:
        """The number of tokens in `span`, nearly: a word at either end may be cut."""
        return self._ruler.between(*span)

    def cut(self, region: Span, *, size: int, overlap: int) -> list[Cut]:
        """Cover `region` with spans that are neither blank nor larger than `size`."""
        if region.start == region.end:
            return []
        if tokens := self._whole_text(region, size):
            return [Cut(*region, tokens)]
        if self._ruler.forward(region.start, size) >= region.end:
            return self._fit(size, [region])
        spans = plan(region, cuts=self._cuts, ruler=self._ruler, size=size, overlap=overlap)
        return self._fit(size, spans)

    def _whole_text(self, region: Span, size: int) -> int:
        """The tokens of a region that is the whole text and one chunk, as most short texts are.

        0 if it is not, or if only a ruler can tell.
        """
        longest = min(size * CHARACTERS_PER_TOKEN, PIECE)
        if len(self._text) > longest or region != (0, len(self._text)) or not self._text.strip():
            return 0
        (tokens,) = self._tokenizer.count([self._text])
        return tokens if tokens <= size else 0

    @cached_property
    def _ruler(self) -> TokenRuler:
        return TokenRuler(self._text, self._tokenizer)

    @cached_property
    def _cuts(self) -> Cuts:
        document = self._document
        boundaries = Boundaries(
            document.text,
            headings=document.headings,
            blocks=document.blocks,
            language=document.language,
        )
        return Cuts.ranked(boundaries, self._ranks, strict=self._strict)

    def _fit(self, size: int, spans: Sequence[Span]) -> list[Cut]:
        """Count exactly: a cut inside a word can add tokens; such a span is halved."""
        texts = [self._text[span.start : span.end] for span in spans]
        fitting: list[Cut] = []
        for span, text, tokens in zip(spans, texts, self._counts(texts), strict=True):
            if text.isspace():
                continue
            if tokens <= size or len(text) == 1:
                fitting.append(Cut(*span, tokens))
            else:
                middle = (span.start + span.end) // 2
                fitting += self._fit(size, [Span(span.start, middle), Span(middle, span.end)])
        return fitting

    def _counts(self, texts: Sequence[str]) -> Iterator[int]:
        for start in range(0, len(texts), COUNTED):
            checkpoint()
            yield from self._tokenizer.count(texts[start : start + COUNTED])


class ChunkBuilder:
    """Turns cuts of one document into chunks.

    The headings of a chunk are those of all its sections with `common_headings`, else those above
    its first character.
    """

    def __init__(
        self, document: Document, chunker_id: str, *, common_headings: bool = False
    ) -> None:
        self._document = document
        self._chunker_id = chunker_id
        self._structure = Structure(document, common_headings=common_headings)

    def make(
        self,
        cuts: Sequence[Cut],
        *,
        level: ChunkLevel = "flat",
        parents: Sequence[Chunk] | None = None,
    ) -> list[Chunk]:
        """Create a chunk per cut, numbered in order; `parents` has one parent per cut."""
        document = self._document
        chunks = []
        for ordinal, (start, end, tokens) in enumerate(cuts):
            checkpoint()
            span = Span(start, end)
            chunk = Chunk(
                id=chunk_id(document, self._chunker_id, level, span),
                collection=document.collection,
                document_id=document.id,
                chunker_id=self._chunker_id,
                level=level,
                parent_id=parents[ordinal].id if parents else None,
                ordinal=ordinal,
                start=start,
                end=end,
                text=document.text[start:end],
                token_count=tokens,
                **self._structure.describe(span),
            )
            chunks.append(chunk)
        return chunks


@dataclass(frozen=True, slots=True)
class Cuts:
    """Boundaries in order of preference.

    Those in `last_resort` split what belongs together: a row, an item, a heading and its text. An
    overlap doesn't cross `fences`. At the first `starts` kinds of boundary a sentence or line
    starts, so chunks start there rather than elsewhere. With `strict`, they do so even if they have
    to be half as large for that, or to do without an overlap.
    """

    preferred: tuple[Offsets, ...]
    last_resort: tuple[Offsets, ...]
    fences: Offsets
    starts: int = 0
    strict: bool = False

    @classmethod
    def ranked(
        cls, boundaries: Boundaries, ranks: Sequence[BoundaryKind], *, strict: bool = False
    ) -> Cuts:
        """Collect the given kinds of boundary, coarsest first."""
        ranked = [boundaries.of(kind) for kind in ranks]
        splits = [
            boundaries.within_part(offsets) | boundaries.below_heading(offsets)
            for offsets in ranked
        ]
        pairs = list(zip(ranked, splits, strict=True))
        return cls(
            preferred=tuple(offsets[~bad] for offsets, bad in pairs),
            last_resort=tuple(offsets[bad] for offsets, bad in pairs),
            fences=boundaries.of("section"),
            starts=ranks.index(LAST_START) + 1 if LAST_START in ranks else 0,
            strict=strict,
        )


def plan(region: Span, *, cuts: Cuts, ruler: TokenRuler, size: int, overlap: int) -> list[Span]:
    """Cover `region` with spans of at most `size` tokens, as the ruler counts."""
    spans: list[Span] = []
    start = covered = region.start
    while covered < region.end:
        checkpoint()
        limit = ruler.forward(start, size)
        if limit >= region.end:
            end = region.end
        else:
            half, quarter = (ruler.forward(start, size // part) for part in (2, 4))
            end = _cut(cuts, covered, half, quarter, limit)
        spans.append(Span(start, end))
        earliest = max(ruler.backward(end, overlap), start + 1, _last(cuts.fences, end))
        start = _resume(cuts, earliest, end)
        covered = end
    return spans


def _cut(cuts: Cuts, covered: int, half: int, quarter: int, limit: int) -> int:
    """The best boundary after `covered` and up to `limit`, if possible after `half`.

    For one at which a sentence starts, a strict chunk may also be filled to a `quarter` only.
    """
    for group in (cuts.preferred, cuts.last_resort):
        latest = [_last(offsets, limit) for offsets in group]
        wishes = [(half, latest)]
        if cuts.strict:
            good = latest[: cuts.starts]
            wishes = [(half, good), (quarter, good), *wishes]
        for least, offsets in wishes:
            for offset in offsets:
                if offset > max(covered, least):
                    return offset
        if latest and max(latest) > covered:
            return max(latest)
    return limit


def _resume(cuts: Cuts, earliest: int, end: int) -> int:
    """The start of the next chunk: a sentence, or else the best boundary that uses most overlap."""
    sentences = cuts.preferred[: cuts.starts]
    start = min((_first(offsets, earliest, end) for offsets in sentences), default=end)
    if start < end or cuts.strict:
        return start
    halfway = (earliest + end) // 2
    for offsets in cuts.preferred:
        index = int(np.searchsorted(offsets, earliest))
        if index < len(offsets) and offsets[index] <= halfway:
            return int(offsets[index])
    return end


def _first(offsets: Offsets, earliest: int, end: int) -> int:
    index = int(np.searchsorted(offsets, earliest))
    return min(int(offsets[index]), end) if index < len(offsets) else end


def _last(offsets: Offsets, limit: int) -> int:
    index = int(np.searchsorted(offsets, limit, side="right"))
    return int(offsets[index - 1]) if index else -1
