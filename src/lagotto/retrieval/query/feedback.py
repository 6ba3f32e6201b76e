"""Pseudo-relevance feedback: words that the best passages have in common and the query lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from lagotto.indexes.text_query import Term
from lagotto.terms import analyze, stop_words
from lagotto.terms.words import fold, words

FEEDBACK_WEIGHT = 0.3
"""What the best of the added words counts beside a word of the query."""


def feedback_candidates(texts: Sequence[str], languages: Sequence[str | None]) -> list[str]:
    """The terms that feedback may add, for looking up how rare they are: sorted, each once.

    Of several passages, terms that two of them hold; no stop words, no single characters.
    `languages` are those of the texts, one each.
    """
    bags = [set(_terms(*pair)) for pair in zip(texts, languages, strict=True)]
    holders = Counter(term for bag in bags for term in bag)
    return sorted(term for term, count in holders.items() if count > 1 or len(bags) == 1)


def feedback_terms(
    texts: Sequence[str],
    scores: Sequence[float],
    languages: Sequence[str | None],
    idf: Mapping[str, float],
    count: int,
    *,
    known: Collection[str] = (),
) -> tuple[tuple[Term, ...], ...]:
    """The `count` terms that tell the passages apart from the rest of the base, best first.

    A term is worth its share of each passage, weighted by the passage's score, times how rare it
    is (a relevance model, as in RM3). The best gets `FEEDBACK_WEIGHT`, others less in proportion.
    Only terms of `idf` come in question, and none of `known`, the query's own.
    """
    worth: dict[str, float] = {}
    for text, language, weight in zip(texts, languages, _weights(scores), strict=True):
        terms = Counter(_terms(text, language))
        for term, times in terms.items():
            value = weight * times / terms.total() * idf.get(term, 0.0)
            worth[term] = worth.get(term, 0.0) + value
    kept = [(term, value) for term, value in worth.items() if value > 0 and term not in known]
    best = sorted(kept, key=lambda pair: (-pair[1], pair[0]))[:count]
    return tuple((Term(term, FEEDBACK_WEIGHT * (value / best[0][1])),) for term, value in best)


def _weights(scores: Sequence[float]) -> list[float]:
    """Shares of the scores; equal ones if there is none above 0."""
    above = [max(score, 0.0) for score in scores]
    total = sum(above)
    return [score / total for score in above] if total else [1.0] * len(above)


def _terms(text: str, language: str | None) -> list[str]:
    stops = stop_words(language)
    pairs = zip(words(text), analyze(text, language), strict=True)
    return [term for word, term in pairs if len(term) > 1 and fold(word) not in stops]
