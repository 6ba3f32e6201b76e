"""The terms of an index, read once for each of its states: by likeness, by prefix, counted."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable

from lagotto.indexes.base import LogPosition
from lagotto.indexes.text_query import Word
from lagotto.indexes.vocabulary_cache import TermLookup, VocabularyCache

MOST_COUNTED = 100_000
"""Words whose frequencies are kept."""

ReadTerms = Callable[[], Iterable[str]]


class TermDictionary:
    """The terms of the last state that was asked for."""

    def __init__(self) -> None:
        self._likeness = VocabularyCache()
        self._position: LogPosition | None = None
        self._terms: list[str] = []
        self._reading = threading.Lock()
        self._counted: tuple[LogPosition | None, dict[Word, int]] = (None, {})

    def frequencies(self, position: LogPosition) -> dict[Word, int]:
        """The document frequencies at a position, as far as they have been counted."""
        known, counted = self._counted
        if known != position or len(counted) >= MOST_COUNTED:
            counted = {}
            self._counted = (position, counted)
        return counted

    def lookup(self, position: LogPosition, read: ReadTerms) -> TermLookup:
        """The terms by likeness; `read` is called if need be."""
        return self._likeness.at(position, lambda: self._sorted(position, read))

    def beginning_with(self, start: str, position: LogPosition, read: ReadTerms) -> list[str]:
        """The terms with a prefix."""
        terms = self._sorted(position, read)
        first = bisect_left(terms, start)
        last = next(
            (index for index in range(first, len(terms)) if not terms[index].startswith(start)),
            len(terms),
        )
        return terms[first:last]

    def _sorted(self, position: LogPosition, read: ReadTerms) -> list[str]:
        with self._reading:
            if self._position != position:
                self._terms = sorted(read())
                self._position = position
            return self._terms
