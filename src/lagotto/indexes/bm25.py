"""BM25: one formula for every store; and the vocabulary of an index, cached."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.base import Hits, LogPosition
from lagotto.indexes.text_query import Term, TextQuery, holds
from lagotto.terms import index_terms
from lagotto.terms.vocabulary import Vocabulary

Answer = TypeVar("Answer")
Numbers = TypeVar("Numbers", float, NDArray[np.float64])

K1, B, K3 = 1.2, 0.75, 8.0


def idf(having: int, *, count: int) -> float:
    """Inverse document frequency of a term that `having` of `count` chunks hold; always above 0."""
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


def term_weight(counts: Numbers, lengths: Numbers, *, mean: float, idf: Numbers | float) -> Numbers:
    """The BM25 score of a term that occurs `counts` times in chunks of `lengths` terms.

    `mean` is the average length. One number or arrays, which must broadcast.
    """
    return idf * counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean))


def repeated(times: int) -> float:
    """The weight of a word that a query repeats `times` times, by BM25's saturation; 1 for once.

    A long question repeats what it is about.
    """
    return (K3 + 1) * times / (K3 + times)


ScoredKeys = tuple[NDArray[np.integer], NDArray[np.float64]]
"""The keys of chunks, ascending, each with a score."""


def score_words(
    words: Sequence[Sequence[Term]], score_term: Callable[[Term], ScoredKeys], *, count: int
) -> Hits:
    """Every chunk that holds a term of some words, by ascending keys, with its BM25 score.

    `score_term` gives the chunks that hold a term, with its weighted scores without an IDF: that
    of a word is one, whichever of its alternatives a chunk holds, of which the best one counts.
    """
    scored = []
    for word in words:
        keys, best = _merged([score_term(term) for term in word], np.maximum)
        scored.append((keys, best * idf(len(keys), count=count)))
    keys, total = _merged(scored, np.add)
    return Hits(keys.astype(np.int64), total.astype(np.float32))


def _merged(lists: Sequence[ScoredKeys], scores_of_one: np.ufunc) -> ScoredKeys:
    """The chunks of several lists that ascend, each with its scores made one.

    Merging takes time and memory by what words find: of a million chunks, words in 10 and .2 % take
    2.1 ms and 4.9 MB, in place of 2.5 and 12.1 with a row for every chunk (benchmarks/RESULTS.md).
    """
    if len(lists) < 2:
        return lists[0] if lists else (np.empty(0, np.int64), np.empty(0))
    keys = np.concatenate([keys for keys, _ in lists])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
    scores = np.concatenate([scores for _, scores in lists])[order]
    return keys[firsts], scores_of_one.reduceat(scores, firsts)


@dataclass(frozen=True, slots=True)
class CountedTerms:
    """The terms of a chunk that no index scores, in their order and counted."""

    terms: Sequence[str]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, text: str, language: str | None) -> CountedTerms:
        """The terms that a text would be indexed by."""
        terms = index_terms(text, language)
        return cls(terms, Counter(terms))

    def found_by(self, query: TextQuery) -> bool:
        """Whether a query finds the chunk at all."""
        if query.where is not None:
            return holds(query.where, self.terms)
        return any(term.text in self.counts for word in query.words for term in word)

    def score(self, query: TextQuery, idfs: Sequence[float], *, mean: float) -> float:
        """The BM25 score, 0 if the query does not find the chunk.

        `idfs` are those of the words, whichever of a word's alternatives the chunk holds.
        """
        if not self.found_by(query):
            return 0.0
        counts, length = self.counts, len(self.terms)
        return sum(
            max(
                (
                    term.weight * term_weight(float(counts[term.text]), length, mean=mean, idf=idf)
                    for term in word
                    if counts.get(term.text)
                ),
                default=0.0,
            )
            for word, idf in zip(query.words, idfs, strict=True)
        )


class AtPosition(Generic[Answer]):
    """What was made of the last state of an index that was asked for."""

    def __init__(self) -> None:
        self._known: tuple[LogPosition, Answer] | None = None
        self._making = threading.Lock()

    def ready(self, position: LogPosition) -> Answer | None:
        """What was made at a position, if anything was."""
        known = self._known
        return known[1] if known is not None and known[0] == position else None

    def at(self, position: LogPosition, make: Callable[[], Answer]) -> Answer:
        """What `make` gives, or gave at this position before."""
        with self._making:
            ready = self.ready(position)
            if ready is None:
                ready = make()
                self._known = (position, ready)
            return ready


VocabularyCache = AtPosition[Vocabulary]
