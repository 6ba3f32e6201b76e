"""The languages of stored documents, counted only as far as their order needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Select,
    bindparam,
    exists,
    func,
    literal,
    select,
    true,
)

from lagotto.stores.languages import LanguageCounts, main_language, query_languages
from lagotto.stores.sql.tables import DocumentRow

FIRST_LIMIT = 100
GROWTH = 16


def main_languages(connection: Connection) -> list[str | None]:
    """The languages to stem a query in."""
    counts = dict[str | None, int](_ordering_counts(connection, _IN_BASE).items())
    if connection.scalar(_UNKNOWN):
        counts[None] = 1
    return query_languages(counts)


def main_languages_of(
    connection: Connection, collections: Collection[str]
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


def language_counts(connection: Connection) -> LanguageCounts:
    """How many documents of each collection are in each language."""
    names = (DocumentRow.collection, DocumentRow.language)
    counted = select(*names, func.count()).where(DocumentRow.language.is_not(None)).group_by(*names)
    counts: dict[str, dict[str, int]] = {}
    for collection, language, count in connection.execute(counted):
        counts.setdefault(collection, {})[language or ""] = count
    return counts


def _ordering_counts(
    connection: Connection, statement: Select[Any], **asked: str
) -> dict[str, int]:
    """Numbers of documents that put the languages in their order.

    Most bases have one main language, so the others are counted soon, and of the main one it is
    enough to know that it has more: a search after a write need not walk through all documents.
    """
    limit = FIRST_LIMIT
    while True:
        rows = connection.execute(statement, {"most": limit, **asked})
        counts = {language: count for language, count in rows if count}
        if sum(count == limit for count in counts.values()) < 2:
            return counts
        limit *= GROWTH


def _counted(where: ColumnElement[bool]) -> Select[Any]:
    """Asks for each known language with the number of documents in it, up to `most`.

    The next language is looked up in the index, which has a step per language then, not per
    document.
    """
    found = select(func.min(DocumentRow.language).label("language")).cte("found", recursive=True)
    following: ScalarSelect[str] = (
        select(func.min(DocumentRow.language))
        .where(DocumentRow.language > found.c.language)
        .scalar_subquery()
    )
    found = found.union_all(select(following).where(found.c.language.is_not(None)))
    some = (
        select(literal(1, Integer).label("one"))
        .select_from(DocumentRow)
        .where(DocumentRow.language == found.c.language, where)
        .limit(bindparam("most", type_=Integer))
        .correlate(found)
        .subquery()
    )
    number = select(func.count()).select_from(some).scalar_subquery()
    return select(found.c.language, number).where(found.c.language.is_not(None))


# Built once: every new state of a base asks for them.
_IN_BASE = _counted(true())
_IN_COLLECTION = _counted(DocumentRow.collection == bindparam("collection"))
_UNKNOWN = select(exists().where(DocumentRow.language.is_(None)))
