"""`heading:SIZE/OVERLAP`: no chunk reaches beyond its section. For Markdown, HTML and the like."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from lagotto.chunkers.spans import SpanChunker
from lagotto.documents import Document, Span
from lagotto.tokens import Tokenizer


def heading(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Cuts at every heading, and within a section as `recursive` does."""
    return SpanChunker("heading", parameters, tokenizer, defaults=(256, 32), stretches=sections)


def sections(document: Document) -> Iterable[Span]:
    """The text between one heading and the next; a bare heading stays with what follows it."""
    text = document.text
    starts = [item.start for item in document.headings]
    headings = set(starts)
    start = 0
    for before, end in pairwise([0, *starts, len(text)]):
        bare = _is_bare(text[before:end]) if before in headings else not text[:end].strip()
        if end == len(text) or not bare:
            yield Span(start, end)
            start = end


def _is_bare(section: str) -> bool:
    """Whether it is but a heading (which may be underlined, as Markdown does)."""
    _, *below = section.strip().splitlines() or [""]
    return not any(line.strip("=- ") for line in below)
