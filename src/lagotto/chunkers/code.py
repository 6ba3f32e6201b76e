"""`code:SIZE/OVERLAP`: source code, cut between definitions, then at blank lines, then at lines."""

from __future__ import annotations

from lagotto.chunkers.spans import SpanChunker
from lagotto.tokens import Tokenizer


def code(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Create `code`, for any language: an unindented line after a blank line is a definition."""
    return SpanChunker(
        "code",
        parameters,
        tokenizer,
        defaults=(256, 0),
        ranks=("definition", "paragraph", "line", "word"),
    )
