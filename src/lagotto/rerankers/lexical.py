"""A local reranker without a model: the fused score, corrected by lexical features.

It takes a few milliseconds for a list of candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lagotto.concurrency import in_thread
from lagotto.rerankers.base import (
    LOGIT,
    Candidate,
    Judgement,
    ScoreScale,
    Verdict,
    refuse_parameters,
)
from lagotto.rerankers.linear import LinearWeights, learned_weights
from lagotto.rerankers.matching import Matches, Weights, idf_weights, match

CLOSE, NEAR = 6, 25
"""Window sizes in words: about a phrase, and about a sentence."""

HALF_AT = 1.2
"""Term frequency at which a word has half of its maximum weight."""


class LexicalReranker:
    """Scores passages by a weighted sum of the fused score and lexical features.

    The features are how many of the query's words a passage has, how close together, how often, and
    in the query's order. Words are weighted by their IDF among the candidates, so a verdict also
    depends on the other candidates. The weights were trained on scores of the default fusion.
    """

    reads_only_text = False

    def __init__(self, weights: LinearWeights | None = None) -> None:
        self._weights = weights or learned_weights("lexical")

    @property
    def id(self) -> str:
        """A hash of the weights."""
        return f"lexical#{self._weights.id}"

    @property
    def scale(self) -> ScoreScale:
        """Log-odds of being relevant, as in the training questions."""
        return LOGIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """Score each candidate by the weighted sum of its features."""
        if not candidates:
            return Judgement([])
        features = await in_thread(lexical_features, query, candidates)
        return Judgement(list(map(Verdict, self._weights.scores(features, LEXICAL_FEATURES))))

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""


def from_name(parameters: str) -> LexicalReranker:
    """`lexical`."""
    refuse_parameters("lexical", parameters)
    return LexicalReranker()


@dataclass(frozen=True, slots=True)
class LexicalFeatures:
    """How a passage matches a query, as IDF-weighted shares of the query's words.

    `fused` is the fused score; `coverage` the words in text or title; `close` and `near` the words
    in the best small and large window; `frequency` the saturated term frequency; `pairs` the share
    of adjacent query words that are adjacent in the text; `digits` the words that contain digits.
    """

    fused: float
    coverage: float
    close: float
    near: float
    frequency: float
    pairs: float
    digits: float


LEXICAL_FEATURES = tuple(field.name for field in fields(LexicalFeatures))


def lexical_features(query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """One row per candidate, with the columns of `LEXICAL_FEATURES`."""
    matches = match(query, candidates)
    rows = [
        astuple(_features(candidate.score, found, weights))
        for candidate, found, weights in zip(candidates, matches, idf_weights(matches), strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(candidates), len(LEXICAL_FEATURES))


def _features(fused: float, matches: Matches, weights: Weights) -> LexicalFeatures:
    found = matches.found()
    shares = (weights / weights.sum()).tolist() if len(weights) else []
    counts = Counter(number for _, number in matches.offsets)
    return LexicalFeatures(
        fused=fused,
        coverage=sum(shares[number] for number in sorted(found)),
        close=_best_window(matches.offsets, shares, CLOSE),
        near=_best_window(matches.offsets, shares, NEAR),
        frequency=sum(shares[word] * count / (count + HALF_AT) for word, count in counts.items()),
        pairs=_shared_pairs(matches.words.terms, matches.terms),
        digits=_share_of_digits(matches, found),
    )


def _best_window(offsets: Sequence[tuple[int, int]], shares: Sequence[float], length: int) -> float:
    """The greatest sum of shares in any window of `length` words."""
    best = 0.0
    inside: Counter[int] = Counter()
    first = 0
    for offset, number in offsets:
        inside[number] += 1
        while offsets[first][0] <= offset - length:
            inside[offsets[first][1]] -= 1
            first += 1
        best = max(best, sum(shares[word] for word, count in inside.items() if count))
    return best


def _shared_pairs(query: Sequence[str], text: Sequence[str]) -> float:
    pairs = list(pairwise(query))
    there = set(pairwise(text))
    return sum(pair in there for pair in pairs) / len(pairs) if pairs else 0.0


def _share_of_digits(matches: Matches, found: set[int]) -> float:
    numbers = matches.words.numbers.items()
    wanted = [number for term, number in numbers if any(map(str.isdigit, term))]
    return sum(number in found for number in wanted) / len(wanted) if wanted else 0.0
