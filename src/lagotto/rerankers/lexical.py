"""Rerankers without a model: lexical features, word overlap, a threshold on the fused score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from importlib import resources
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.documents import Record, digest
from lagotto.errors import ConfigError
from lagotto.rerankers.base import (
    LOGIT,
    UNIT,
    Candidate,
    Judgement,
    LocalReranker,
    ScoreScale,
    Verdict,
    refuse_parameters,
)
from lagotto.terms import analyze, content_terms, query_terms

Weights = NDArray[np.float64]
"""The weight of each word of a query."""


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The words of a query, as index terms of one language.

    `terms` are all of them in order; `numbers` maps the distinct content words to 0, 1, 2, ...
    """

    terms: tuple[str, ...]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, query: str, language: str | None) -> QueryWords:
        """Analyse `query`; stop words count as content only if there is nothing else."""
        content = content_terms(query_terms(query, [language]))
        variants = dict.fromkeys(variant for word in content for variant in word.variants)
        numbers = {term: number for number, term in enumerate(variants)}
        return cls(tuple(analyze(query, language)), numbers)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class Matches:
    """The query's content words in a passage.

    `offsets` has the word offset and the number of each match in the text, in order; `in_title`
    the numbers of the words in the title.
    """

    words: QueryWords
    terms: Sequence[str]
    offsets: Sequence[tuple[int, int]]
    in_title: frozenset[int]

    def found(self) -> set[int]:
        """The numbers of the words in text or title."""
        return {number for _, number in self.offsets} | self.in_title


def match(query: str, candidates: Sequence[Candidate]) -> list[Matches]:
    """Match each candidate, analysed in its own language."""
    languages = {one.language for one in candidates}
    words = {language: QueryWords.of(query, language) for language in languages}
    return [_matches(words[one.language], one) for one in with_checkpoints(candidates)]


def _matches(words: QueryWords, candidate: Candidate) -> Matches:
    terms = analyze(candidate.text, candidate.language)
    numbers = words.numbers
    offsets = [(offset, numbers[term]) for offset, term in enumerate(terms) if term in numbers]
    title = analyze(candidate.title or "", candidate.language)
    in_title = frozenset(numbers[term] for term in title if term in numbers)
    return Matches(words, terms, offsets, in_title)


def equal_weights(matches: Sequence[Matches]) -> list[Weights]:
    """Give every word the weight 1, for each candidate."""
    return [np.ones(len(one.words)) for one in matches]


def idf_weights(matches: Sequence[Matches]) -> list[Weights]:
    """Weight words by their IDF among the candidates, for each candidate.

    No weight is zero: a word that all candidates have is still part of the query.
    """
    holders: dict[str, int] = {}
    for one in with_checkpoints(matches):
        found = one.found()
        for term, number in one.words.numbers.items():
            holders[term] = holders.get(term, 0) + (number in found)
    idf = {term: 1 + np.log((len(matches) + 1) / (count + 1)) for term, count in holders.items()}
    return [
        np.array([idf[term] for term in one.words.numbers]) for one in with_checkpoints(matches)
    ]


Features = NDArray[np.float64]
"""One row per candidate, one column per feature."""


class LinearWeights(Record):
    """The weights of a linear model: weighted sum plus `bias` is the log-odds of relevance."""

    weights: dict[str, float]
    bias: float

    @property
    def id(self) -> str:
        """A short hash of the weights."""
        return digest(self.model_dump())[:12]

    def scores(self, features: Features, names: Sequence[str]) -> list[float]:
        """The log-odds of each row; `names` are the names of the columns."""
        row = np.array([self.weights[name] for name in names])
        scores: list[float] = (features @ row + self.bias).tolist()
        return scores


@cache
def learned_weights(name: str) -> LinearWeights:
    """Load weights that ship with Lagotto, trained by `python benchmarks train`."""
    file = resources.files("lagotto.rerankers") / f"{name}.json"
    return LinearWeights.model_validate_json(file.read_text(encoding="utf-8"))


CLOSE, NEAR = 6, 25
"""Window sizes in words: about a phrase, and about a sentence."""

HALF_AT = 1.2
"""Term frequency at which a word has half of its maximum weight."""


class LexicalReranker(LocalReranker):
    """Scores passages by a weighted sum of the fused score and lexical features.

    The features are how many of the query's words a passage has, how close together, how often, and
    in the query's order. Words are weighted by their IDF among the candidates, so a verdict also
    depends on the other candidates. The weights were trained on scores of the default fusion.
    """

    scale = LOGIT
    reads_only_text = False

    def __init__(self, weights: LinearWeights | None = None) -> None:
        self._weights = weights or learned_weights("lexical")
        self.id = f"lexical#{self._weights.id}"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        if not candidates:
            return Judgement([])
        features = await in_thread(lexical_features, query, candidates)
        return Judgement(list(map(Verdict, self._weights.scores(features, LEXICAL_FEATURES))))


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
    weighted = zip(candidates, matches, idf_weights(matches), strict=True)
    rows = [
        astuple(_features(candidate.score, found, weights))
        for candidate, found, weights in with_checkpoints(weighted)
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


class OverlapReranker(LocalReranker):
    """Scores a passage by the share of the query's words in its title and text.

    Words are compared by their stems in the language of the passage, without stop words. With `idf`
    words are weighted by their IDF among the candidates, so a verdict also depends on the other
    candidates.
    """

    scale = UNIT

    def __init__(self, *, idf: bool = False) -> None:
        self.idf = idf
        self.id = "overlap-idf" if idf else "overlap"
        self.reads_only_text = not idf

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        shares = await in_thread(self._shares, query, candidates) if candidates else []
        return Judgement([Verdict(share) for share in shares])

    def _shares(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        matches = match(query, candidates)
        weights = idf_weights(matches) if self.idf else equal_weights(matches)
        return [
            float(weight[sorted(one.found())].sum() / weight.sum()) if len(weight) else 0.0
            for one, weight in zip(matches, weights, strict=True)
        ]


class LiteralOverlapReranker(LocalReranker):
    """Orders passages by the share of the query's words in their text, as they are written.

    Words are lower-cased and split at blanks, and nothing else; titles don't count. Passages keep
    the score that they had.
    """

    id = "overlap:literal"
    scale = ScoreScale(order_only=True)
    reads_only_text = True

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        shares = await in_thread(self._shares, query, candidates)
        return Judgement([Verdict(share) for share in shares])

    def _shares(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        wanted = set(query.lower().split(" "))
        texts = (one.text.lower().split(" ") for one in with_checkpoints(candidates))
        return [len(wanted.intersection(words)) / len(wanted) for words in texts]


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


class ScoreReranker(LocalReranker):
    """Drops candidates with a fused score below `minimum`; uses no model."""

    scale = UNIT
    reads_only_text = False

    def __init__(self, minimum: float) -> None:
        if not 0 <= minimum <= 1:
            raise ConfigError(
                f"score:{minimum:g} is out of range; fused scores are between 0 and 1"
            )
        self.minimum = minimum
        self.id = f"score:{minimum!r}"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        return Judgement(
            [Verdict(one.score) if one.score >= self.minimum else None for one in candidates]
        )


def threshold_from_name(minimum: str) -> ScoreReranker:
    """Create `score:MIN`, as in `score:0.1`."""
    try:
        return ScoreReranker(float(minimum))
    except ValueError as exc:  # ConfigErrors are ValueErrors as well
        if isinstance(exc, ConfigError):
            raise
        raise ConfigError(
            f'score needs a number from 0 to 1, got "{minimum}"; write score:0.1'
        ) from exc
