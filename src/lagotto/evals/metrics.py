"""Metrics of one ranking, given the relevance of what was judged. Pure functions.

A ranking is a list of document names, best first; what was not judged counts as not relevant.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import log2
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def ndcg(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """Normalised discounted cumulative gain with linear gains, as trec_eval has it."""
    gains = (relevance.get(name, 0) for name in ranking[:depth])
    ideal = sorted((gain for gain in relevance.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(ideal) if ideal else 0.0


def recall(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """The share of the relevant documents that are among the first `depth`."""
    relevant = _relevant(relevance)
    return len(relevant.intersection(ranking[:depth])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[Name], relevance: Mapping[Name, int], *, depth: int) -> float:
    """1 / the rank of the first relevant document, 0 if it is not among the first `depth`."""
    relevant: Collection[Name] = _relevant(relevance)
    ranks = (rank for rank, name in enumerate(ranking[:depth], 1) if name in relevant)
    return 1 / next(ranks, float("inf"))


def _relevant(relevance: Mapping[Name, int]) -> set[Name]:
    return {name for name, gain in relevance.items() if gain > 0}


def _discounted(gains: Iterable[int]) -> float:
    return sum(max(gain, 0) / log2(rank + 1) for rank, gain in enumerate(gains, 1))
