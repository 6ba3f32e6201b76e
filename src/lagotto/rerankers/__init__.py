"""Rerankers: score the best candidates of a search again, more precisely.

Public: the Reranker protocol with its records, `create_reranker` and the registry behind it, and
wrappers around other rerankers. Rerankers with settings of their own are in
`lagotto.rerankers.api` and `lagotto.rerankers.llm`; all other modules are private.
"""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from typing import TYPE_CHECKING

from lagotto._internal.registry import exports
from lagotto.rerankers.base import (
    LOGIT as LOGIT,
    RERANKERS as RERANKERS,
    UNIT as UNIT,
    Candidate as Candidate,
    Judgement as Judgement,
    Reranker as Reranker,
    RerankerFactory as RerankerFactory,
    RerankResult as RerankResult,
    ScoreScale as ScoreScale,
    Verdict as Verdict,
    WithEmbedder as WithEmbedder,
    create_reranker as create_reranker,
    rerank_results as rerank_results,
)

if TYPE_CHECKING:
    from lagotto.rerankers.wrappers import (
        BlendedReranker as BlendedReranker,
        CachedReranker as CachedReranker,
        FallbackReranker as FallbackReranker,
        GatedReranker as GatedReranker,
    )

__all__, __getattr__, __dir__ = exports(
    __name__,
    {"rerankers.wrappers": "BlendedReranker CachedReranker FallbackReranker GatedReranker"},
)
