"""Chunkers: cut documents into chunks, exact spans of the text sized in tokens.

Public: the Chunker protocol and the registry that creates chunkers from ids such as
`recursive:256/32`. `lagotto.chunkers.spans` has SpanChunker, to build a chunker of your own on; all
other modules are private.
"""

from lagotto.chunkers.base import (
    CHUNKERS,
    DEFAULT_CHUNKER,
    Chunker,
    ChunkerFactory,
    ChunkerRegistry,
    chunk_document,
)

__all__ = [
    "CHUNKERS",
    "DEFAULT_CHUNKER",
    "Chunker",
    "ChunkerFactory",
    "ChunkerRegistry",
    "chunk_document",
]
