"""Embedders: texts to vectors. `base` holds the contract, each implementation its own file."""

from lagotto.embedders.base import (
    EMBEDDERS,
    Embedder,
    EmbedderFactory,
    EmbedderInfo,
    Role,
    TokenEmbedder,
    checked,
    create_embedder,
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
    "checked",
    "create_embedder",
]
