"""Match the words of a query against passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.rerankers.base import Candidate
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
    return [_matches(words[one.language], one) for one in candidates]


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
    for one in matches:
        found = one.found()
        for term, number in one.words.numbers.items():
            holders[term] = holders.get(term, 0) + (number in found)
    idf = {term: 1 + np.log((len(matches) + 1) / (count + 1)) for term, count in holders.items()}
    return [np.array([idf[term] for term in one.words.numbers]) for one in matches]
