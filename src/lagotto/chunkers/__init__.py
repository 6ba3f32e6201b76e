"""Chunkers: cut documents into chunks, exact spans of the text sized in tokens.

Public: the Chunker protocol and the registry that creates chunkers from ids such as
`recursive:256/32`. `lagotto.chunkers.spans` has SpanChunker, to build a chunker of your own on; all
other modules are private.
"""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from lagotto._internal.registry import exports
from lagotto.chunkers.base import (
    CHUNKERS as CHUNKERS,
    DEFAULT_CHUNKER as DEFAULT_CHUNKER,
    Chunker as Chunker,
    ChunkerFactory as ChunkerFactory,
    ChunkerRegistry as ChunkerRegistry,
    chunk_document as chunk_document,
)

__all__, __getattr__, __dir__ = exports(__name__)
