"""`page:SIZE/OVERLAP`: no chunk reaches beyond its page."""

from __future__ import annotations

from collections.abc import Iterable

from lagotto.chunkers.spans import SpanChunker
from lagotto.documents import Document, Span
from lagotto.tokens import Tokenizer


def page(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """One chunk per page, or several where the page is larger than SIZE."""
    return SpanChunker("page", parameters, tokenizer, defaults=(512, 0), stretches=pages)


def pages(document: Document) -> Iterable[Span]:
    """The pages; text before the first or behind the last belongs to the nearest."""
    starts = [0, *(item.start for item in document.pages[1:])]
    ends = [*starts[1:], len(document.text)]
    return [Span(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
