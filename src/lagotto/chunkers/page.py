"""`page:SIZE/OVERLAP`: no chunk crosses a page break."""

from __future__ import annotations

from collections.abc import Iterable

from lagotto.chunkers.spans import SpanChunker
from lagotto.documents import Document, Span
from lagotto.tokens import Tokenizer


def page(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Create `page`: one chunk per page, or several if the page is larger than SIZE."""
    return SpanChunker("page", parameters, tokenizer, defaults=(512, 0), regions=pages)


def pages(document: Document) -> Iterable[Span]:
    """The pages; text before the first or after the last belongs to the nearest."""
    starts = [0, *(item.start for item in document.pages[1:])]
    ends = [*starts[1:], len(document.text)]
    return [Span(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
