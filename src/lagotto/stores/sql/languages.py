"""The languages of stored documents, counted only as far as their order needs."""

from __future__ import annotations

from collections.abc import Collection

from lagotto.stores.languages import LanguageCounts, main_language, query_languages
from lagotto.stores.sql.queries import NamedQuery, ReadConnection

FIRST_LIMIT = 100
GROWTH = 16

_IN_BASE = NamedQuery("LANGUAGES")
_IN_COLLECTION = NamedQuery("LANGUAGES_OF_COLLECTION")
_ANY_UNKNOWN = NamedQuery("ANY_UNKNOWN_LANGUAGE")
_COUNTS = NamedQuery("LANGUAGE_COUNTS")


def main_languages(connection: ReadConnection) -> list[str | None]:
    """The languages to stem a query in."""
    counts = dict[str | None, int](_ordering_counts(connection, _IN_BASE).items())
    if _ANY_UNKNOWN.scalar(connection):
        counts[None] = 1
    return query_languages(counts)


def main_languages_of(
    connection: ReadConnection, collections: Collection[str]
) -> dict[str, str | None]:
    """The language of most documents of each collection, None if none is known."""
    if len(collections) > 1:  # all are counted in the time of a few
        counts = language_counts(connection)
    else:
        counts = {
            name: _ordering_counts(connection, _IN_COLLECTION, collection=name)
            for name in collections
        }
    return {name: main_language(counts, name) for name in collections}


def language_counts(connection: ReadConnection) -> LanguageCounts:
    """How many documents of each collection are in each language."""
    counts: dict[str, dict[str, int]] = {}
    for collection, language, count in _COUNTS.rows(connection):
        counts.setdefault(collection, {})[language or ""] = count
    return counts


def _ordering_counts(connection: ReadConnection, query: NamedQuery, **asked: str) -> dict[str, int]:
    """Numbers of documents that put the languages in their order.

    Most bases have one main language, so the others are counted soon, and of the main one it is
    enough to know that it has more: a search after a write need not walk through all documents.
    """
    limit = FIRST_LIMIT
    while True:
        rows = query.rows(connection, most=limit, **asked)
        counts = {language: count for language, count in rows if count}
        if sum(count == limit for count in counts.values()) < 2:
            return counts
        limit *= GROWTH
