"""Index terms that are like a word, from the vocabulary of an index, which is read once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from lagotto.indexes.base import LogPosition
from lagotto.indexes.text_query import Term, as_terms
from lagotto.terms.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class TermLookup:
    """The terms of one state of an index, looked up by likeness."""

    vocabulary: Vocabulary

    def corrected(self, words: Sequence[str], unknown: Collection[str]) -> list[tuple[Term, ...]]:
        """For each word that is `unknown`, the terms it may be a misspelling of."""
        find = self.vocabulary.corrections
        return [as_terms(find(word)) if word in unknown else () for word in words]

    def alike(self, words: Sequence[str], *, threshold: float) -> list[tuple[Term, ...]]:
        """For each word, the terms that are like it by their trigrams."""
        find = self.vocabulary.similar
        return [as_terms(find(word, threshold=threshold)) for word in words]


class VocabularyCache:
    """The vocabulary of the last state of an index that was asked for."""

    def __init__(self) -> None:
        self._position: LogPosition | None = None
        self._lookup = TermLookup(Vocabulary(()))
        self._reading = threading.Lock()

    def at(self, position: LogPosition, terms: Callable[[], Iterable[str]]) -> TermLookup:
        """The vocabulary at a position, which `terms` reads if need be."""
        with self._reading:
            if self._position != position:
                self._lookup = TermLookup(Vocabulary(terms()))
                self._position = position
            return self._lookup
