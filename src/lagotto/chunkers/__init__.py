"""From a document to chunks of it: exact spans, sized in tokens, cut where the text allows."""

from lagotto.chunkers.base import (
    CHUNKERS,
    DEFAULT_CHUNKER,
    Chunker,
    ChunkerFactory,
    ChunkerRegistry,
)

__all__ = ["CHUNKERS", "DEFAULT_CHUNKER", "Chunker", "ChunkerFactory", "ChunkerRegistry"]
