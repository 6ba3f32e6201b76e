"""`recursive:SIZE/OVERLAP`: cut at the coarsest boundary that fits."""

from __future__ import annotations

from lagotto.chunkers.spans import SpanChunker
from lagotto.tokens import Tokenizer


def recursive(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Create `recursive`: prefers sections, then paragraphs, sentences, lines and words."""
    return SpanChunker("recursive", parameters, tokenizer, defaults=(256, 32))
