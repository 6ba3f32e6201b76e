"""Embedders: texts to vectors. `base` holds the contract, each implementation its own file."""

from lagotto.embedders.base import Embedder, EmbedderInfo, Role, TokenEmbedder, checked
from lagotto.embedders.cached import CachedEmbedder
from lagotto.embedders.registry import EMBEDDERS, EmbedderFactory, create_embedder

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
