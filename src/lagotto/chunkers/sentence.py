"""`sentence:SIZE/OVERLAP`: as many whole sentences as fit."""

from __future__ import annotations

from lagotto.chunkers.spans import SpanChunker
from lagotto.tokens import Tokenizer


def sentence(parameters: str, tokenizer: Tokenizer) -> SpanChunker:
    """Create `sentence`: fills chunks with sentences; table rows and list items count as such."""
    return SpanChunker(
        "sentence",
        parameters,
        tokenizer,
        defaults=(256, 32),
        ranks=("sentence", "part", "word"),
    )
