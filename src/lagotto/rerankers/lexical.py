"""A free local reranker: the fused score, put right by how a passage words what was asked.

It needs no model beside the search that found the candidates, and takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.concurrency import in_thread
from lagotto.errors import ConfigError
from lagotto.rerankers.base import LOGIT, Candidate, Judgement, Scale, Verdict
from lagotto.rerankers.lexical_features import NAMES, lexical_features
from lagotto.rerankers.linear import LinearWeights, learned_weights


class LexicalReranker:
    """Scores passages by a weighted sum of the fused score and features of their wording.

    The features: how many of the query's words a passage has, how close together, how often, and
    in the query's order. Words count for more the fewer of the candidates have them, so a verdict
    also depends on the other candidates. The weights fit fused scores of the default fusion.
    """

    reads_only_text = False

    def __init__(self, weights: LinearWeights | None = None) -> None:
        self._weights = weights or learned_weights("lexical")

    @property
    def id(self) -> str:
        """The weights, as a hash."""
        return f"lexical#{self._weights.id}"

    @property
    def scale(self) -> Scale:
        """Log-odds of being relevant, as in the questions learned from."""
        return LOGIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The weighted sum for each candidate."""
        if not candidates:
            return Judgement([])
        features = await in_thread(lexical_features, query, candidates)
        return Judgement(list(map(Verdict, self._weights.scores(features, NAMES))))

    async def close(self) -> None:
        """Nothing to free."""


def from_name(parameters: str) -> LexicalReranker:
    """`lexical`."""
    if parameters:
        raise ConfigError(f"lexical takes no parameters, but got {parameters!r}")
    return LexicalReranker()
