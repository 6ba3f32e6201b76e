"""Rerankers without a model of their own: words, token vectors, a threshold on the fused score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from itertools import pairwise, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import in_thread, with_checkpoints
from lagotto.documents import Record, Vectors, digest, in_context
from lagotto.embedders.base import TokenEmbedder, TokenVectors
from lagotto.errors import ConfigError, EmbeddingError, RerankError
from lagotto.rerankers.base import (
    LOGIT,
    UNIT,
    Candidate,
    Judgement,
    ScoreScale,
    Verdict,
    WithEmbedder,
    refuse_parameters,
)
from lagotto.terms import analyze, content_terms, query_terms
from lagotto.terms.languages import alphabet_share

Numbers = NDArray[np.float64]
"""The weight of each word of a query, or features: a row per candidate, a column per feature."""

LEXICAL_FEATURES = ("fused", "coverage", "close", "near", "frequency", "pairs", "digits")
"""How a passage matches a query, as IDF-weighted shares of the query's words.

`fused` is the fused score; `coverage` the words in text or title; `close` and `near` the words
in the best small and large window; `frequency` the saturated term frequency; `pairs` the share
of adjacent query words that are adjacent in the text; `digits` the words that contain digits.
"""

MAXSIM_FEATURES = (*LEXICAL_FEATURES, "maxsim", "stretch")
"""`maxsim` is the mean over the query's tokens of the cosine with the most similar token of the
passage; `stretch` is the cosine of the query's mean with its best window of the passage."""

CLOSE, NEAR = 6, 25
"""Window sizes in words: about a phrase, and about a sentence."""

HALF_AT = 1.2
"""Term frequency at which a word has half of its maximum weight."""

WINDOW = 32
"""Consecutive tokens that are compared as one: about a sentence."""


@dataclass(frozen=True, slots=True)
class Matches:
    """The query's content words in a passage, as index terms of its language.

    `query` has all terms of the query in order, `words` maps its distinct content words to 0, 1, 2,
    ...; stop words are content only if there is nothing else. `offsets` has the word offset and the
    number of each match in the `terms` of the text, in order; `numbers` those of the words in text
    or title.
    """

    query: Sequence[str]
    words: Mapping[str, int]
    terms: Sequence[str]
    offsets: Sequence[tuple[int, int]]
    numbers: frozenset[int]


def match(query: str, candidates: Sequence[Candidate]) -> list[Matches]:
    """Match each candidate, analysed in its own language."""
    queries: dict[str | None, tuple[Sequence[str], Mapping[str, int]]] = {}
    for language in {one.language for one in candidates}:
        content = content_terms(query_terms(query, [language]))
        variants = dict.fromkeys(variant for word in content for variant in word.variants)
        words = {term: number for number, term in enumerate(variants)}
        queries[language] = analyze(query, language), words
    return [_matches(*queries[one.language], one) for one in with_checkpoints(candidates)]


def _matches(query: Sequence[str], words: Mapping[str, int], candidate: Candidate) -> Matches:
    terms = analyze(candidate.text, candidate.language)
    offsets = [(offset, words[term]) for offset, term in enumerate(terms) if term in words]
    title = analyze(candidate.title or "", candidate.language)
    in_title = frozenset(words[term] for term in title if term in words)
    numbers = in_title.union(number for _, number in offsets)
    return Matches(query, words, terms, offsets, numbers)


def idf_weights(matches: Sequence[Matches]) -> list[Numbers]:
    """Weight words by their IDF among the candidates, for each candidate.

    No weight is zero: a word that all candidates have is still part of the query.
    """
    holders: dict[str, int] = {}
    for one in with_checkpoints(matches):
        for term, number in one.words.items():
            holders[term] = holders.get(term, 0) + (number in one.numbers)
    idf = {term: 1 + np.log((len(matches) + 1) / (count + 1)) for term, count in holders.items()}
    return [np.array([idf[term] for term in one.words]) for one in with_checkpoints(matches)]


class LinearWeights(Record):
    """A linear model: the weighted sum of features plus `bias` is the log-odds of relevance."""

    weights: dict[str, float]
    bias: float

    @property
    def id(self) -> str:
        return digest(self.model_dump())[:12]

    def log_odds(self, features: Numbers) -> list[float]:
        """A score for each row of features, which are in the order of the weights."""
        return list(map(float, features @ np.array([*self.weights.values()]) + self.bias))


@cache
def learned_weights(name: str) -> LinearWeights:
    """Load weights that ship with Lagotto, trained by `python benchmarks train`."""
    file = resources.files("lagotto.rerankers") / f"{name}.json"
    return LinearWeights.model_validate_json(file.read_text(encoding="utf-8"))


Score = Callable[[str, Sequence[Candidate]], Awaitable[Sequence[float | None]]]
"""Gives each candidate its score, or None to drop it."""


@dataclass(frozen=True, slots=True)
class LocalReranker:
    """A reranker without resources, which asks `score` if there are candidates."""

    id: str
    score: Score
    scale: ScoreScale = LOGIT
    reads_only_text: bool = False

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        scores = await self.score(query, candidates) if candidates else ()
        return Judgement([None if score is None else Verdict(score) for score in scores])

    async def close(self) -> None: ...


def threaded(score: Callable[[str, Sequence[Candidate]], Sequence[float]]) -> Score:
    return lambda query, candidates: in_thread(score, query, candidates)


def lexical(parameters: str = "") -> LocalReranker:
    """Create `lexical`: a weighted sum of the fused score and lexical features.

    The features are how many of the query's words a passage has, how close together, how often, and
    in the query's order. Words are weighted by their IDF among the candidates, so a verdict also
    depends on the other candidates. The weights were trained on scores of the default fusion.
    """
    refuse_parameters("lexical", parameters)
    weights = learned_weights("lexical")
    score = threaded(lambda query, some: weights.log_odds(lexical_features(query, some)))
    return LocalReranker(f"lexical#{weights.id}", score)


def lexical_features(query: str, candidates: Sequence[Candidate]) -> Numbers:
    matches = match(query, candidates)
    weighted = zip(candidates, matches, idf_weights(matches), strict=True)
    rows = list(starmap(_features, with_checkpoints(weighted)))
    return np.array(rows, dtype=np.float64).reshape(len(candidates), len(LEXICAL_FEATURES))


def _features(candidate: Candidate, matches: Matches, weights: Numbers) -> list[float]:
    shares = (weights / weights.sum()).tolist() if len(weights) else []
    counts = Counter(number for _, number in matches.offsets).items()
    pairs, there = list(pairwise(matches.query)), set(pairwise(matches.terms))
    digits = [number for term, number in matches.words.items() if any(map(str.isdigit, term))]
    values = {
        "fused": candidate.score,
        "coverage": sum(shares[number] for number in sorted(matches.numbers)),
        "close": _best_window(matches.offsets, shares, CLOSE),
        "near": _best_window(matches.offsets, shares, NEAR),
        "frequency": sum(shares[word] * count / (count + HALF_AT) for word, count in counts),
        "pairs": sum(pair in there for pair in pairs) / max(1, len(pairs)),
        "digits": sum(number in matches.numbers for number in digits) / max(1, len(digits)),
    }
    return [values[name] for name in LEXICAL_FEATURES]


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


def _maxsim(parameters: str, embedder: object) -> LocalReranker:
    """Create `maxsim`: lexical features, as `lexical` has them, and the tokens' vectors.

    The single vector of a passage blurs what its sentences say. Comparing tokens costs one run of
    the base's embedder per candidate (late interaction). `embedder` must be a TokenEmbedder, as the
    ONNX embedders are; the weights were trained with MiniLM. Its owner closes it, the reranker does
    not.
    """
    refuse_parameters("maxsim", parameters)
    if not isinstance(embedder, TokenEmbedder):
        raise ConfigError(
            f"maxsim needs an embedder with token vectors, but {type(embedder).__name__} has "
            "none; use minilm or an onnx: embedder, or the reranker lexical"
        )
    weights = learned_weights("maxsim")
    name = f"maxsim:{embedder.info.model_id}#{weights.id}/{lexical().id}"
    return LocalReranker(name, partial(maxsim_scores, embedder, weights))


maxsim = WithEmbedder(_maxsim)


async def maxsim_scores(
    embedder: TokenEmbedder, weights: LinearWeights, query: str, candidates: Sequence[Candidate]
) -> Sequence[float | None]:
    """For a query in an alphabet that the embedder was not trained on, the scores of `lexical`."""
    if alphabet_share(query, embedder.info.alphabets) < 0.5:
        return await lexical().score(query, candidates)
    texts = [in_context(one.title, one.text, context=one.context) for one in candidates]
    try:
        (of_query,) = await embedder.token_vectors([query], role="query")
        passages = await embedder.token_vectors(texts, role="document")
    except EmbeddingError as exc:
        raise RerankError(f"maxsim can't compute token vectors: {exc}") from exc
    features = await in_thread(maxsim_features, query, candidates, of_query, passages)
    return weights.log_odds(features)


def maxsim_features(
    query: str,
    candidates: Sequence[Candidate],
    of_query: TokenVectors,
    passages: Sequence[TokenVectors],
) -> Numbers:
    return np.hstack([lexical_features(query, candidates), token_features(of_query, passages)])


def token_features(query: TokenVectors, passages: Sequence[TokenVectors]) -> Numbers:
    """One row per passage: `maxsim` and `stretch`; zeros if there are no tokens."""
    query_words = _words(query)
    rows = np.zeros((len(passages), 2))
    for row, passage in zip(rows, with_checkpoints(passages), strict=True):
        passage_words = _words(passage)
        if not len(query_words) or not len(passage_words):
            continue
        length = min(WINDOW, len(passage_words))
        sums = np.cumsum(np.vstack([np.zeros_like(passage_words[:1]), passage_words]), axis=0)
        windows = sums[length:] - sums[:-length]
        row[0] = (_unit(query_words) @ _unit(passage_words).T).max(axis=1).mean()
        row[1] = (_unit(windows) @ _unit(query_words.mean(axis=0, keepdims=True)).T).max()
    return rows


def _words(tokens: TokenVectors) -> Vectors:
    """The vectors of tokens with a span in the text, so without special tokens."""
    return tokens.vectors[tokens.ends > tokens.starts]


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.floating[Any]] = vectors / np.maximum(lengths, 1e-12)
    return unit


def overlap(parameters: str) -> LocalReranker:
    """Create `overlap`: the share of the query's words in a passage's title and text.

    Words are compared by their stems in the language of the passage, without stop words.
    `overlap:literal` orders passages by the words in their text as they are written: lower-cased
    and split at blanks, and nothing else; passages keep the score that they had.
    """
    if parameters == "literal":
        order = ScoreScale(order_only=True)
        return LocalReranker(
            "overlap:literal", threaded(literal_shares), order, reads_only_text=True
        )
    refuse_parameters("overlap", parameters)
    return LocalReranker("overlap", threaded(overlap_shares), UNIT, reads_only_text=True)


def overlap_idf(parameters: str) -> LocalReranker:
    """Create `overlap-idf`, which weights words by their IDF among all candidates."""
    refuse_parameters("overlap-idf", parameters)
    return LocalReranker("overlap-idf", threaded(partial(overlap_shares, idf=True)), UNIT)


def overlap_shares(
    query: str, candidates: Sequence[Candidate], *, idf: bool = False
) -> list[float]:
    matches = match(query, candidates)
    equal = [np.ones(len(one.words)) for one in matches]
    weights = idf_weights(matches) if idf else equal
    return [
        float(weight[sorted(one.numbers)].sum() / weight.sum()) if len(weight) else 0.0
        for one, weight in zip(matches, weights, strict=True)
    ]


def literal_shares(query: str, candidates: Sequence[Candidate]) -> list[float]:
    query_words = set(query.lower().split(" "))
    texts = (one.text.lower().split(" ") for one in with_checkpoints(candidates))
    return [len(query_words.intersection(words)) / len(query_words) for words in texts]


def threshold(parameters: str) -> LocalReranker:
    """Create `score:MIN`: drops candidates with a fused score below it; uses no model."""
    try:
        minimum = float(parameters)
    except ValueError as exc:
        raise ConfigError(
            f'score needs a number from 0 to 1, got "{parameters}"; write score:0.1'
        ) from exc
    if not 0 <= minimum <= 1:
        raise ConfigError(f"score:{minimum:g} is out of range; fused scores are between 0 and 1")

    async def score(_: str, candidates: Sequence[Candidate]) -> list[float | None]:
        return [one.score if one.score >= minimum else None for one in candidates]

    return LocalReranker(f"score:{minimum!r}", score, UNIT)
