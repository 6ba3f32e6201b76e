"""Rerankers: a second look at the best candidates. `base` holds the contract, each its own file."""

from lagotto.rerankers.base import (
    LOGIT,
    RERANKERS,
    UNIT,
    Candidate,
    Judgement,
    Reranker,
    RerankerFactory,
    ScoreScale,
    Verdict,
    create_reranker,
)
from lagotto.rerankers.wrappers import (
    BlendedReranker,
    CachedReranker,
    FallbackReranker,
    GatedReranker,
)

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
    "ScoreScale",
    "Verdict",
    "create_reranker",
]
