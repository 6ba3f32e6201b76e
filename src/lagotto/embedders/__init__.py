"""Embedders: turn texts into vectors.

Public: the Embedder and TokenEmbedder protocols, `create_embedder` and the registry behind it, a
cache on disk, and `checked` and `normalised` for embedders of your own. All other modules are
private.
"""

from lagotto.embedders.base import (
    EMBEDDERS,
    Embedder,
    EmbedderFactory,
    EmbedderInfo,
    Role,
    TokenEmbedder,
    TokenVectors,
    checked,
    create_embedder,
    normalised,
)
from lagotto.embedders.cached import CachedEmbedder

__all__ = [
    "EMBEDDERS",
    "CachedEmbedder",
    "Embedder",
    "EmbedderFactory",
    "EmbedderInfo",
    "Role",
    "TokenEmbedder",
    "TokenVectors",
    "checked",
    "create_embedder",
    "normalised",
]
