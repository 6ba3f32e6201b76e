"""BM25 as the dot product of sparse vectors, and how far it may be from the exact score.

A chunk's vector has the part of BM25 that does not depend on other chunks, computed with a mean
length m0 that stays the same as long as its collection: tf (K1 + 1) / D(m0), where
D(m) = tf + K1 (1 - B + B length / m). The query's vector has weight and IDF. Three things differ
from the exact score, whose mean m is the true one:

- of a word's alternatives the exact score counts the best, the product all of them: it is not less;
- terms that share a dimension by chance add up: that makes the product greater, never less;
- the mean. The exact weight of a term is D(m0) / D(m) times the one in the vector. If m <= m0, that
  is at most 1. If m > m0 it is above 1; adding the same to both parts of a fraction above 1 brings
  it nearer to 1, so it is greatest for the least tf, which is 1. It grows with the length, so it is
  greatest for the longest chunk.

So exact <= bound * product, for all chunks: if the k-th best exact score among those seen is above
bound * product of the last one seen, no other chunk belongs to the best k.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from zlib import crc32

from qdrant_client import grpc

from lagotto.indexes.bm25 import K1, B, term_weight
from lagotto.indexes.text_query import Term

ROUNDING = 1.0001
"""The server adds 32-bit floats: relative errors far below this, for any number of words."""


def dimension_of(term: str) -> int:
    """The dimension of a term, one of 2**32; different terms may share one."""
    return crc32(term.encode("utf-8", "surrogatepass"))


def chunk_vector(counts: Mapping[str, int], *, length: int, mean: float) -> grpc.SparseVector:
    """The vector of a chunk of `length` terms, given how often it holds each."""
    weights: dict[int, float] = defaultdict(float)
    for term, count in counts.items():
        weights[dimension_of(term)] += term_weight(float(count), float(length), mean=mean, idf=1.0)
    return _sparse(weights)


def query_vector(words: Sequence[Sequence[Term]], idfs: Sequence[float]) -> grpc.SparseVector:
    """The vector of a query; its dot product with a chunk's is about the BM25 score."""
    weights: dict[int, float] = defaultdict(float)
    for word, idf in zip(words, idfs, strict=True):
        for text, weight in _best_weights(word).items():
            weights[dimension_of(text)] += weight * idf
    return _sparse(weights)


def score_bound(*, longest: int, mean: float, fixed_mean: float) -> float:
    """The greatest ratio of an exact score to the product; see above."""
    ratio = _divisor(longest, fixed_mean) / _divisor(longest, mean)
    return max(1.0, ratio) * ROUNDING


def _divisor(length: int, mean: float) -> float:
    """D for a term that occurs once."""
    return 1 + K1 * (1 - B + B * length / mean)


def _best_weights(word: Sequence[Term]) -> Mapping[str, float]:
    best: Counter[str] = Counter()
    for term in word:
        best[term.text] = max(best[term.text], term.weight)  # type: ignore[assignment]
    return best


def _sparse(weights: Mapping[int, float]) -> grpc.SparseVector:
    return grpc.SparseVector(indices=weights, values=weights.values())
