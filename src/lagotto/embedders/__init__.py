"""Embedders: turn texts into vectors.

Public: the Embedder and TokenEmbedder protocols, `create_embedder` and the registry behind it,
`fetch_model` and `model_status` for known models, a cache on disk, and `checked`, `normalised` and
`ApproximateTokenizer` for embedders of your own. All other modules are private.
"""

from typing import TYPE_CHECKING

from lagotto._internal.registry import lazy_exports
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

if TYPE_CHECKING:
    from lagotto.embedders.cached import CachedEmbedder
    from lagotto.models.fetch import ModelStatus, fetch_model, model_status
    from lagotto.models.tokenizer import ApproximateTokenizer

__all__ = [
    "EMBEDDERS",
    "ApproximateTokenizer",
    "CachedEmbedder",
    "Embedder",
    "EmbedderFactory",
    "EmbedderInfo",
    "ModelStatus",
    "Role",
    "TokenEmbedder",
    "TokenVectors",
    "checked",
    "create_embedder",
    "fetch_model",
    "model_status",
    "normalised",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "cached": ("CachedEmbedder",),
        ".models.fetch": ("ModelStatus", "fetch_model", "model_status"),
        ".models.tokenizer": ("ApproximateTokenizer",),
    },
)
