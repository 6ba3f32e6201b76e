"""Which words of a query a passage has, and where it has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.rerankers.base import Candidate
from lagotto.terms import analyze, content_terms, query_terms

Weights = NDArray[np.float64]
"""What each word of a query counts for."""


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The words of a query as passages in one language have them.

    `terms` are all of its index terms in order, `numbers` the content words among them, counted
    from 0; a word that stands there twice is one word.
    """

    terms: tuple[str, ...]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, query: str, language: str | None) -> QueryWords:
        """Stop words are no content words, unless there is nothing else."""
        content = content_terms(query_terms(query, [language]))
        variants = dict.fromkeys(variant for word in content for variant in word.variants)
        numbers = {term: number for number, term in enumerate(variants)}
        return cls(tuple(analyze(query, language)), numbers)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class Matches:
    """The query's content words in a passage: place and number of each, and those of its title."""

    words: QueryWords
    terms: Sequence[str]
    places: Sequence[tuple[int, int]]
    in_title: frozenset[int]

    def found(self) -> set[int]:
        """The numbers of the words that text or title have."""
        return {number for _, number in self.places} | self.in_title


def match(query: str, candidates: Sequence[Candidate]) -> list[Matches]:
    """The matches of each candidate, by the rules of its own language."""
    languages = {one.language for one in candidates}
    words = {language: QueryWords.of(query, language) for language in languages}
    return [_matches(words[one.language], one) for one in candidates]


def _matches(words: QueryWords, candidate: Candidate) -> Matches:
    terms = analyze(candidate.text, candidate.language)
    numbers = words.numbers
    places = [(place, numbers[term]) for place, term in enumerate(terms) if term in numbers]
    title = analyze(candidate.title or "", candidate.language)
    in_title = frozenset(numbers[term] for term in title if term in numbers)
    return Matches(words, terms, places, in_title)


def equal_weights(matches: Sequence[Matches]) -> list[Weights]:
    """For each candidate, every word counts alike."""
    return [np.ones(len(one.words)) for one in matches]


def idf_weights(matches: Sequence[Matches]) -> list[Weights]:
    """For each candidate, a word counts for more the fewer of the candidates have it.

    It never counts for nothing: what all candidates have is still what was asked for.
    """
    holders: dict[str, int] = {}
    for one in matches:
        found = one.found()
        for term, number in one.words.numbers.items():
            holders[term] = holders.get(term, 0) + (number in found)
    idf = {term: 1 + np.log((len(matches) + 1) / (count + 1)) for term, count in holders.items()}
    return [np.array([idf[term] for term in one.words.numbers]) for one in matches]
