"""`heading:SIZE/OVERLAP`: no chunk crosses a heading. For Markdown, HTML and similar formats."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from lagotto.chunkers.spans import SpanChunker
from lagotto.chunkers.structure import is_bare
from lagotto.documents import Document, Span
from lagotto.tokens import Tokenizer


def heading(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Create `heading`: cut at every heading, and within sections as `recursive` does."""
    return SpanChunker("heading", parameters, tokenizer, defaults=(256, 32), regions=sections)


def sections(document: Document) -> Iterable[Span]:
    """Yield the text from each heading to the next; a heading without text joins the next one."""
    text = document.text
    starts = [item.start for item in document.headings]
    headings = set(starts)
    start = 0
    for before, end in pairwise([0, *starts, len(text)]):
        bare = is_bare(text[before:end]) if before in headings else not text[:end].strip()
        if end == len(text) or not bare:
            yield Span(start, end)
            start = end
