"""Named queries: compiled ahead of time, and the same answers with SQLAlchemy and without it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lagotto
from lagotto.filters import And, Contains, Eq, Filter, Gte, In, Not
from lagotto.stores.sql.filters import chunks_that_match
from lagotto.stores.sql.queries import COMPILED_FILE, NamedQuery, Query, SqlText
from lagotto.stores.sql.query_compiler import ExpressionQuery, compiled_queries
from lagotto.stores.sqlite.database import SqliteConnection, connect
from lagotto.stores.sqlite.write import create_engine
from tests.stores.sqlite.bases import made

COMPILED: dict[str, Any] = json.loads(COMPILED_FILE.read_text(encoding="utf-8"))

PARAMETER = re.compile(r":(\w+)")

VALUES: dict[str, Any] = {
    "collection": "default",
    "collections": ["default", "other"],
    "document_id": "d001",
    "documents": [2, 4, 1_000],
    "field": "version",
    "first_page": 1,
    "ids": ["d001", "d003"],
    "keys": [1, 2, 3, 1_000],
    "kind": "number",
    "last_page": 1,
    "level": "flat",
    "model_id": "hash",
    "most": 3,
    "name": "text_index",
    "names": ["text_index", "model_id", "nothing"],
    "number": 2,
    "ordinal": 0,
    "ordinals": [0, 1, 2],
    "owner": 1,
    "owners": [1, 2],
    "parents": [],
    "skipped": 1,
    "start": 0,
    "stop": 4,
    "until": 5,
}
"""A value for every parameter."""

EMPTY = {"COUNTER", "PARENTS", "UPDATED"}
"""Queries that find nothing with these values: no counter has the name of a setting."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries") / "kb.db"
    made(path, count=5)
    return path


def answers(base: Path, query: Query, values: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """What a query gives on a connection of sqlite3, and on one of SQLAlchemy."""
    with closing(connect(base)) as driver:
        yield query.records(SqliteConnection(driver), **values)
    engine = create_engine(base)
    with engine.connect() as connection:
        yield query.records(connection, **values)
    engine.dispose()


def test_the_compiled_queries_are_those_of_the_statements() -> None:
    assert COMPILED_FILE.read_text(encoding="utf-8") == compiled_queries(), "run `make queries`"


def test_every_named_query_is_used_and_known() -> None:
    root = Path(lagotto.__file__).parent / "stores"
    calls = [
        node
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NamedQuery"
    ]
    named = [ast.literal_eval(call.args[0]) for call in calls]
    assert sorted(named) == sorted(COMPILED)


@pytest.mark.parametrize("name", COMPILED)
def test_the_same_answer_on_every_connection(base: Path, name: str) -> None:
    query = NamedQuery(name)
    asked = {name: VALUES[name] for name in PARAMETER.findall(query.compiled.sql) if name in VALUES}
    plain, by_sqlalchemy = answers(base, query, asked)
    assert plain == by_sqlalchemy
    assert bool(plain) == (name not in EMPTY)


@pytest.mark.parametrize(
    "where",
    [
        And(),
        Eq("document_id", "d001"),
        In("document_id", ["d001", "d002", "absent"]),
        Gte("version", 3),
        Not(Eq("version", 3)),
        Contains("title", "1"),
        Gte("page", 1),
        In("page", [1, 2]),
    ],
    ids=str,
)
def test_a_filter_is_compiled_at_the_search(base: Path, where: Filter) -> None:
    with closing(connect(base)) as driver:
        chunks = chunks_that_match(SqliteConnection(driver), where)
    plain, by_sqlalchemy = answers(base, ExpressionQuery(chunks), {})
    assert plain == by_sqlalchemy


def test_text_takes_parameters(base: Path) -> None:
    query = SqlText("SELECT :first AS first, count(*) AS count FROM document")
    for answer in answers(base, query, {"first": "x"}):
        assert answer == [{"first": "x", "count": 5}]


def test_one_value(base: Path) -> None:
    with closing(connect(base)) as driver:
        connection = SqliteConnection(driver)
        assert NamedQuery("SETTING").scalar(connection, name="text_index") == "tantivy"
        assert NamedQuery("SETTING").scalar(connection, name="nothing") is None
        assert NamedQuery("COLLECTION_SIZES").column(connection) == ["default"]
