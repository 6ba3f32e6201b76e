"""Word overlap: the share of the query's words that a passage has. Fast, and a baseline."""

from __future__ import annotations

from collections.abc import Sequence

from lagotto.concurrency import in_thread
from lagotto.rerankers.base import (
    UNIT,
    Candidate,
    Judgement,
    ScoreScale,
    Verdict,
    refuse_parameters,
)
from lagotto.rerankers.matching import equal_weights, idf_weights, match


class OverlapReranker:
    """Scores a passage by the share of the query's words in its title and text.

    Words are compared by their stems in the language of the passage, without stop words. With `idf`
    words are weighted by their IDF among the candidates, so a verdict also depends on the other
    candidates.
    """

    def __init__(self, *, idf: bool = False) -> None:
        self.idf = idf
        self.reads_only_text = not idf

    @property
    def id(self) -> str:
        """`overlap` or `overlap-idf`."""
        return "overlap-idf" if self.idf else "overlap"

    @property
    def scale(self) -> ScoreScale:
        """A share, from 0 to 1."""
        return UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Return the share of words that each candidate has."""
        shares = await in_thread(self._shares, query, candidates) if candidates else []
        return Judgement([Verdict(share) for share in shares])

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _shares(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        matches = match(query, candidates)
        weights = idf_weights(matches) if self.idf else equal_weights(matches)
        return [
            float(weight[sorted(one.found())].sum() / weight.sum()) if len(weight) else 0.0
            for one, weight in zip(matches, weights, strict=True)
        ]


class LiteralOverlapReranker:
    """Orders passages by the share of the query's words in their text, as they are written.

    Words are lower-cased and split at blanks, and nothing else; titles don't count. Passages keep
    the score that they had.
    """

    id = "overlap:literal"
    scale = ScoreScale(order_only=True)
    reads_only_text = True

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Return the share of words that each candidate has."""
        asked = set(query.lower().split(" "))
        shares = [len(asked & set(one.text.lower().split(" "))) / len(asked) for one in candidates]
        return Judgement([Verdict(share) for share in shares])

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""


def overlap(parameters: str) -> OverlapReranker | LiteralOverlapReranker:
    """Create `overlap`: every word has the same weight; `overlap:literal` for words as written."""
    if parameters == "literal":
        return LiteralOverlapReranker()
    refuse_parameters("overlap", parameters)
    return OverlapReranker()


def overlap_idf(parameters: str) -> OverlapReranker:
    """Create `overlap-idf`: words are weighted by their IDF."""
    refuse_parameters("overlap-idf", parameters)
    return OverlapReranker(idf=True)
