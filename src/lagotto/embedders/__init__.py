"""Embedders: turn texts into vectors.

Public: the Embedder and TokenEmbedder protocols, `create_embedder` and the registry behind it,
`fetch_model` and `model_status` for known models, a cache on disk, and `checked`, `normalised` and
`ApproximateTokenizer` for embedders of your own. All other modules are private.
"""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from typing import TYPE_CHECKING

from lagotto._internal.registry import exports
from lagotto.embedders.base import (
    EMBEDDERS as EMBEDDERS,
    Embedder as Embedder,
    EmbedderFactory as EmbedderFactory,
    EmbedderInfo as EmbedderInfo,
    Role as Role,
    TokenEmbedder as TokenEmbedder,
    TokenVectors as TokenVectors,
    checked as checked,
    create_embedder as create_embedder,
    normalised as normalised,
)

if TYPE_CHECKING:
    from lagotto.embedders.cached import CachedEmbedder as CachedEmbedder
    from lagotto.models.fetch import (
        ModelStatus as ModelStatus,
        fetch_model as fetch_model,
        model_status as model_status,
    )
    from lagotto.models.tokenizer import ApproximateTokenizer as ApproximateTokenizer

__all__, __getattr__, __dir__ = exports(
    __name__,
    {
        "embedders.cached": "CachedEmbedder",
        "models.fetch": "ModelStatus fetch_model model_status",
        "models.tokenizer": "ApproximateTokenizer",
    },
)
