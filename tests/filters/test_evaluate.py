from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from lagotto.documents import Chunk, Document, Page
from lagotto.filters import (
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    Gt,
    Gte,
    In,
    Lt,
    Lte,
    Ne,
    Not,
    NotIn,
    Or,
    matches,
)

DOCUMENT = Document(
    id="d1",
    collection="notes",
    kind="pdf",
    title="Straße",
    text="one two six",
    pages=(
        Page(number=1, start=0, end=4),
        Page(number=2, start=4, end=8),
        Page(number=6, start=8, end=11),
    ),
    created_at=datetime(2024, 1, 31, 12, 0, tzinfo=UTC),
    metadata={
        "year": 2024,
        "big": 2**53 + 1,
        "ratio": 0.5,
        "whole": 3.0,
        "draft": False,
        "note": "Zebra",
        "empty": "",
        "none": None,
        "tags": ["a", "b", 7, True, None, ["nested"], {"k": "v"}],
        "no_tags": [],
        "nulls": [None],
        "author": {"name": "Ada", "langs": ["en", "fr"], "age": None},
        "people": [{"name": "Bob"}],
        "title": 99,
        "a.b": "dotted",
        "day": date(2024, 1, 31),
        "moment": datetime(2024, 1, 31, 0, 0),
    },
)


def chunk(pages: tuple[int, int] | None) -> Chunk:
    return Chunk(
        id="c",
        collection="notes",
        document_id="d1",
        chunker_id="any",
        ordinal=0,
        start=0,
        end=3,
        text="one",
        token_count=1,
        pages=pages,
    )


TRUE: list[Filter] = [
    # numbers: int and float together, exactly
    Eq("year", 2024),
    Eq("year", 2024.0),
    Eq("whole", 3),
    Gt("year", 2023.5),
    Gte("year", 2024),
    Lt("ratio", 1),
    Lte("ratio", 0.5),
    Ne("big", float(2**53)),
    Gt("big", float(2**53)),
    # text: by code point, case matters
    Eq("note", "Zebra"),
    Lt("note", "a"),
    Gt("note", "Z"),
    Gt("title", "Strasse"),
    Ne("note", "zebra"),
    # types don't mix
    Ne("year", "2024"),
    Ne("draft", 0),
    Eq("draft", False),
    In("draft", [False]),
    NotIn("draft", [True, 0, ""]),
    # missing, null and a path that leads nowhere
    Eq("nothing", None),
    Eq("none", None),
    Eq("author.age", None),
    Eq("note.length", None),
    Eq("people.name", None),
    Ne("nothing", 1),
    NotIn("none", [1, 2]),
    In("none", [1, None]),
    NotIn("year", [1, None]),
    Ne("year", None),
    Eq("language", None),
    Exists("empty"),
    Exists("no_tags"),
    Exists("nulls"),
    Exists("author"),
    Exists("source"),
    Ne("nulls", None),
    # lists: one element is enough; dicts only exist
    Eq("tags", "a"),
    Eq("tags", 7),
    Eq("tags", True),
    In("tags", ["x", "b"]),
    Gt("tags", 6),
    Gt("tags", "a"),
    Eq("author.langs", "fr"),
    And(Lt("tags", "b"), Gt("tags", "a")),
    Ne("tags", 1),
    Ne("tags", "nested"),
    Ne("author", "Ada"),
    # paths
    Eq("author.name", "Ada"),
    Eq("metadata.author.name", "Ada"),
    Eq("metadata.title", 99),
    Eq(r"a\.b", "dotted"),
    # contains
    Contains("note", "ebr"),
    Contains("note", ""),
    Contains("title", "ß"),
    Contains("tags", "a"),
    Contains("tags", 7),
    Contains("tags", True),
    Contains("page", 6),
    # reserved fields
    Eq("document_id", "d1"),
    Eq("collection", "notes"),
    Eq("kind", "pdf"),
    Eq("page", 6),
    Gte("page", 6),
    In("page", [4, 2.0]),
    # times
    Eq("created_at", "2024-01-31T13:00:00+01:00"),
    Gte("created_at", date(2024, 1, 31)),
    Lt("created_at", "2024-02-01"),
    Gt("created_at", datetime(2024, 1, 31, 11, 59, 59, 999_999)),
    Eq("updated_at", None),
    # dates in metadata are text, and a date sorts before every moment of that day
    Eq("day", date(2024, 1, 31)),
    Eq("day", "2024-01-31"),
    Gte("moment", date(2024, 1, 31)),
    Lt("moment", date(2024, 2, 1)),
    Gt("moment", date(2024, 1, 31)),
    Ne("moment", date(2024, 1, 31)),
    Eq("moment", datetime(2024, 1, 31, tzinfo=UTC)),
    Lt("day", datetime(2024, 1, 31)),
    # connectives
    And(),
    NotIn("year", []),
    NotIn("nothing", []),
    Or(Eq("year", 1), Eq("year", 2024)),
    And(Eq("year", 2024), Exists("note")),
]

FALSE: list[Filter] = [
    Gt("year", 2024),
    Eq("big", float(2**53)),
    Eq("note", "zebra"),
    Eq("title", "STRASSE"),
    Eq("year", "2024"),
    Gt("year", "1"),
    Lt("note", 5),
    Eq("draft", 0),
    Lt("draft", 1),
    Lt("nothing", 1),
    Gte("none", ""),
    Exists("nothing"),
    Exists("none"),
    Exists("author.age"),
    Exists("author.langs.0"),
    Exists("summary"),
    Eq("no_tags", None),
    Eq("nulls", None),
    Eq("empty", None),
    Eq("no_tags", ""),
    Eq("tags", 1),
    Eq("tags", "nested"),
    Eq("tags", "v"),
    Ne("tags", "a"),
    NotIn("tags", ["a", "zzz"]),
    Eq("author", "Ada"),
    Contains("author", "name"),
    Contains("tags", "nest"),
    Contains("people", "Bob"),
    Contains("note", 7),
    Contains("year", 2024),
    Contains("year", "2"),
    Contains("nothing", ""),
    Contains("tags", 1),
    Eq("page", 3),
    Gt("page", 6),
    Lt("page", 1),
    Lte("moment", date(2024, 1, 31)),
    Gte("day", datetime(2024, 1, 31)),
    Lt("created_at", "2024-01-31"),
    In("year", []),
    In("nothing", []),
    Or(),
    Not(And()),
    And(Eq("year", 2024), Eq("year", 1)),
]


@pytest.mark.parametrize(
    ("root", "expected"),
    [*((root, True) for root in TRUE), *((root, False) for root in FALSE)],
    ids=repr,
)
def test_matches(root: Filter, expected: bool) -> None:
    assert matches(root, DOCUMENT) is expected
    assert matches(Not(root), DOCUMENT) is not expected


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (Eq("page", 3), True),
        (Eq("page", 2), True),
        (Eq("page", 3.5), False),
        (Gt("page", 3), True),
        (Gt("page", 4), False),
        (Lt("page", 2), False),
        (Eq("page", 6), False),
        (Exists("page"), True),
        (Eq("document_id", "d1"), True),
        (Eq("year", 2024), True),
    ],
)
def test_a_chunk_has_the_pages_it_touches(root: Filter, expected: bool) -> None:
    assert matches(root, DOCUMENT, chunk((2, 4))) is expected


def test_without_pages_page_is_missing() -> None:
    unpaged = Document(text="x")
    for root in (Eq("page", None), Not(Exists("page")), Ne("page", 1)):
        assert matches(root, unpaged)
        assert matches(root, DOCUMENT, chunk(None))
    assert not matches(Gte("page", 1), unpaged)
