"""The languages of a base: which ones a query is stemmed in, and what stands in for an unknown one.

A document of unknown language (too short to tell, or code) is indexed as if it were in the main
language of its collection, as far as that is known when it is indexed; the record keeps None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from lagotto.documents import Document

MOST_LANGUAGES = 8
"""A query is stemmed in this many of a base's languages."""

LanguageCounts = Mapping[str, Mapping[str, int]]
"""How many documents of each collection are in each language, without unknown ones."""


def count_languages(documents: Iterable[Document]) -> dict[str, Counter[str]]:
    """The languages of documents, by collection."""
    counts: dict[str, Counter[str]] = {}
    for document in documents:
        if document.language:
            counts.setdefault(document.collection, Counter())[document.language] += 1
    return counts


def with_languages_of(documents: Iterable[Document], stored: LanguageCounts) -> LanguageCounts:
    """The counts once `documents` are stored as well."""
    new = count_languages(documents)
    return {
        name: Counter(stored.get(name, {})) + new.get(name, Counter()) for name in {*stored, *new}
    }


def main_language(counts: LanguageCounts, collection: str) -> str | None:
    """The language of most documents of a collection, None if none is known."""
    return next(iter(by_frequency(counts.get(collection, {}))), None)


def by_frequency(counts: Mapping[str, int]) -> list[str]:
    """Languages, the most frequent first, equally frequent ones by name."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def query_languages(counts: Mapping[str | None, int]) -> list[str | None]:
    """The languages to stem a query in, given how many documents are in each.

    Unknown comes last, however frequent it is: it matters only for documents that were indexed
    before any language of their collection was known.
    """
    known = by_frequency({name: count for name, count in counts.items() if name})
    return [*known[:MOST_LANGUAGES], *([None] if None in counts else [])]
