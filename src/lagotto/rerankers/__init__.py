"""Rerankers: a second look at the best candidates. `base` holds the contract, each its own file."""

from lagotto.rerankers.base import (
    LOGIT,
    UNIT,
    Candidate,
    Judgement,
    Reranker,
    Scale,
    Verdict,
)
from lagotto.rerankers.blended import BlendedReranker
from lagotto.rerankers.cached import CachedReranker
from lagotto.rerankers.fallback import FallbackReranker
from lagotto.rerankers.gated import GatedReranker
from lagotto.rerankers.registry import RERANKERS, RerankerFactory, create_reranker

__all__ = [
    "LOGIT",
    "RERANKERS",
    "UNIT",
    "BlendedReranker",
    "CachedReranker",
    "Candidate",
    "FallbackReranker",
    "GatedReranker",
    "Judgement",
    "Reranker",
    "RerankerFactory",
    "Scale",
    "Verdict",
    "create_reranker",
]
