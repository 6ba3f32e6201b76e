"""`code:SIZE/OVERLAP`: source code, cut between definitions, then at blank lines, then at lines."""

from __future__ import annotations

from lagotto.chunkers.spans import SpanChunker
from lagotto.tokens import Tokenizer


def code(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Any language: what starts at the margin behind a blank line is taken for a definition."""
    return SpanChunker(
        "code",
        parameters,
        tokenizer,
        defaults=(256, 0),
        ranks=("definition", "paragraph", "line", "word"),
    )
