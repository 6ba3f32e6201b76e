"""The vocabulary of an index: similar terms, and corrections of misspelt words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from lagotto.terms.compounds import JOINER
from lagotto.terms.features import deletion_pairs, trigram_pairs
from lagotto.terms.postings import FeaturePostings, distinct
from lagotto.terms.similarity import edit_distance

SHORTEST_CORRECTED = 3
"""Characters; too many shorter words are one edit apart."""

MIN_LIKENESS = 0.5
TRIGRAM_SHARE = 1 / 3
FREQUENCY_SHARE = 0.2
"""Weights of trigrams against edits, and of term frequency. Chosen by measurement."""

CANDIDATES = 50
LEAST_SIMILARITY = 0.1
"""Edit distances are computed for this many terms, with at least this trigram similarity."""


class Vocabulary:
    """An immutable set of index terms, searchable by trigrams and by edit distance.

    `terms` are results of `index_terms`, of which compounds are left out: nobody misspells a
    number as a whole. If they are given with document frequencies, `corrections` prefers frequent
    ones. Takes about 200 bytes per term.
    """

    def __init__(self, terms: Iterable[str] | Mapping[str, int]) -> None:
        self.terms = tuple(sorted({term for term in terms if JOINER not in term}))
        self._factors = self._frequency_factors(terms)
        self._trigrams = FeaturePostings.of_pairs(*trigram_pairs(self.terms))
        self._sizes = np.bincount(self._trigrams.ids, minlength=len(self.terms))
        self._deletions = FeaturePostings.of_pairs(*deletion_pairs(self.terms))

    def __len__(self) -> int:
        return len(self.terms)

    def __contains__(self, term: str) -> bool:
        index = bisect_left(self.terms, term)
        return index < len(self.terms) and self.terms[index] == term

    def similar(
        self, word: str, *, threshold: float = 0.3, limit: int = 10
    ) -> list[tuple[str, float]]:
        """Terms with a trigram similarity to `word` of at least `threshold`, and above 0.

        The most similar first; ties in the order of the terms.
        """
        similarities = self._similarities(word)
        nearest = _nearest(similarities, threshold=threshold, limit=limit)
        return [(self.terms[term], float(similarities[term])) for term in nearest.tolist()]

    def corrections(self, word: str, *, limit: int = 3) -> list[tuple[str, float]]:
        """Terms to search for instead of `word`, an analysed term, with weights in (0, 1].

        Best first. A word in the vocabulary is its own correction; words of one or two characters
        are not corrected. Digits stay as they are: `fy21` is not a misspelling of `fy23`.
        """
        if word in self:
            return [(word, 1.0)]
        if len(word) < SHORTEST_CORRECTED or word.isdigit() or JOINER in word:
            return []
        weighted = []
        similarities, digits = self._similarities(word), _digits(word)
        for term in self._candidates(word, similarities).tolist():
            likeness = _likeness(word, self.terms[term], float(similarities[term]))
            if likeness >= MIN_LIKENESS and _digits(self.terms[term]) == digits:
                weighted.append((self.terms[term], likeness * float(self._factors[term])))
        return sorted(weighted, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _similarities(self, word: str) -> NDArray[np.float64]:
        """The trigram similarity of every term to `word`."""
        codes = distinct(trigram_pairs([word])[0])
        shared = np.bincount(self._trigrams.having(codes), minlength=len(self.terms))
        similarities: NDArray[np.float64] = shared / (len(codes) + self._sizes - shared)
        return similarities

    def _candidates(self, word: str, similarities: NDArray[np.float64]) -> NDArray[np.int64]:
        neighbours = self._deletions.having(deletion_pairs([word])[0])
        nearest = _nearest(similarities, threshold=LEAST_SIMILARITY, limit=CANDIDATES)
        return distinct(np.concatenate([neighbours, nearest]))

    def _frequency_factors(self, terms: Iterable[str] | Mapping[str, int]) -> NDArray[np.float64]:
        if not isinstance(terms, Mapping) or not terms:
            return np.ones(len(self.terms))
        counts = np.log1p([terms[term] for term in self.terms])
        factors: NDArray[np.float64] = 1 - FREQUENCY_SHARE * (1 - counts / (counts.max() or 1))
        return factors


def _nearest(
    similarities: NDArray[np.float64], *, threshold: float, limit: int
) -> NDArray[np.int64]:
    """The ids of the most similar terms, best first; ties by id."""
    ids = np.flatnonzero((similarities >= threshold) & (similarities > 0))
    return ids[np.argsort(-similarities[ids], kind="stable")[:limit]]


def _digits(word: str) -> str:
    return "".join(filter(str.isdigit, word))


def _likeness(word: str, term: str, similarity: float) -> float:
    edits = edit_distance(word, term) / max(len(word), len(term))
    return (1 - TRIGRAM_SHARE) * (1 - edits) + TRIGRAM_SHARE * similarity
