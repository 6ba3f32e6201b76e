"""The languages of a base, in the order of their frequency, without counting every document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, insert

from lagotto.documents import Document
from lagotto.stores.base import count_languages, main_language, query_languages
from lagotto.stores.sql import changelog
from lagotto.stores.sql.changelog import main_languages, main_languages_of
from lagotto.stores.sql.read import document_row
from lagotto.stores.sql.tables import DocumentRow, Tables

Stored = Sequence[tuple[str, str | None]]
"""Collections and languages of documents."""


@contextmanager
def stored(documents: Stored) -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        Tables.metadata.create_all(connection, tables=[Tables.metadata.tables["document"]])
        if documents:
            connection.execute(insert(DocumentRow), [*rows(documents)])
        yield connection
    engine.dispose()


def rows(documents: Stored) -> Iterator[dict[str, Any]]:
    for key, document in enumerate(as_documents(documents)):
        yield document_row(key, document)


def as_documents(documents: Stored) -> Iterator[Document]:
    for number, (collection, language) in enumerate(documents):
        yield Document(id=str(number), collection=collection, language=language, text="x")


COLLECTIONS = st.sampled_from(["a", "b"])
TAGS = st.sampled_from([None, "en", "en", "en", "de", "ru", "fr", "cs", "da", "el", "es", "fi"])


@settings(deadline=None)
@given(st.lists(st.tuples(COLLECTIONS, TAGS), max_size=40), st.integers(1, 4))
def test_the_order_is_that_of_complete_counts(documents: Stored, limit: int) -> None:
    right = query_languages(Counter(language for _, language in documents))
    counts = count_languages(as_documents(documents))
    with (
        stored(documents) as connection,
        patch.object(changelog, "FIRST_LIMIT", limit),
        patch.object(changelog, "GROWTH", 2),
    ):
        assert main_languages(connection) == right
        for names in (["a"], ["b"], ["a", "b"], []):
            assert main_languages_of(connection, names) == {
                name: main_language(counts, name) for name in names
            }


def steps(connection: Connection, question: Any) -> int:
    """How many instructions SQLite executes for a question."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1

    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(count, 1)
    question(connection)
    driver.set_progress_handler(None, 1)
    return done


@pytest.mark.parametrize(
    "question",
    [main_languages, lambda connection: main_languages_of(connection, ["a"])],
    ids=["of the base", "of a collection"],
)
def test_more_documents_in_the_main_language_are_not_more_work(question: Any) -> None:
    others: Stored = [*[("a", "de")] * 150, *[("a", "fr")] * 3, ("a", None)]
    with (
        stored([*others, *[("a", "en")] * 2_000]) as small,
        stored([*others, *[("a", "en")] * 6_000]) as large,
    ):
        assert steps(large, question) == steps(small, question)
