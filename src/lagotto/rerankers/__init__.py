"""Rerankers: score the best candidates of a search again, more precisely.

Public: the Reranker protocol with its records, `create_reranker` and the registry behind it, and
wrappers around other rerankers. Rerankers with settings of their own are in
`lagotto.rerankers.api` and `lagotto.rerankers.llm`; all other modules are private.
"""

from typing import TYPE_CHECKING

from lagotto._internal.registry import lazy_exports
from lagotto.rerankers.base import (
    LOGIT,
    RERANKERS,
    UNIT,
    Candidate,
    Judgement,
    Reranker,
    RerankerFactory,
    RerankResult,
    ScoreScale,
    Verdict,
    WithEmbedder,
    create_reranker,
    rerank_results,
)

if TYPE_CHECKING:
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
    "RerankResult",
    "Reranker",
    "RerankerFactory",
    "ScoreScale",
    "Verdict",
    "WithEmbedder",
    "create_reranker",
    "rerank_results",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "wrappers": (
            "BlendedReranker",
            "CachedReranker",
            "FallbackReranker",
            "GatedReranker",
        ),
    },
)
