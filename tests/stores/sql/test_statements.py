"""Statements: the same answers on every connection, and what each database gets of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

import lagotto
from lagotto.stores.sql import statements
from lagotto.stores.sql.statements import Statement
from lagotto.stores.sqlite.database import SqliteConnection, connect
from tests.stores.sqlite.bases import made

STATEMENTS = {
    name: value for name, value in vars(statements).items() if isinstance(value, Statement)
}

PARAMETER = re.compile(r":(\w+)")

VALUES: dict[str, Any] = {
    "after": "",
    "chunkers": ["x"],
    "models": ["hash"],
    "collection": "default",
    "document_id": "d001",
    "documents": [2, 4, 1_000],
    "field": "version",
    "first_page": 1,
    "generation": 0,
    "ids": ["d001", "d003"],
    "keys": [1, 2, 3, 1_000],
    "hashes": ["none"],
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
    "refs": '[["default", "d001"], ["other", "d003"], ["default", "d003"]]',
    "skipped": 1,
    "start": 0,
    "stop": 4,
    "until": 5,
}
"""A value for every parameter."""

EMPTY = {
    "CACHED_CHUNKS",
    "COUNTER",
    "DOCUMENTS_WITHOUT_SET",
    "KEYED_DATA",
    "KEYED_VALUE",
    "KEYED_VALUES",
    "PARENTS",
    "SOURCE_FILES",
    "TEXTS_OF_FIELD",
    "UPDATED",
    "WITH_CONTENTS",
}
"""Queries that find nothing with these values: no counter has the name of a setting."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("statements") / "kb.db"
    made(path, count=5)
    return path


def answers(
    base: Path, statement: Statement, values: dict[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """What a statement gives on a connection of sqlite3, and on one of SQLAlchemy."""
    with closing(connect(base)) as driver:
        yield statement.records(SqliteConnection(driver), **values)
    engine = create_engine(f"sqlite:///{base}")
    with engine.connect() as connection:
        yield statement.records(connection, **values)
    engine.dispose()


def test_every_statement_is_used() -> None:
    root = Path(lagotto.__file__).parent / "stores"
    code = "".join(path.read_text(encoding="utf-8") for path in root.rglob("*.py"))
    assert not [name for name in STATEMENTS if f"statements.{name}" not in code]


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_same_answer_on_every_connection(base: Path, name: str) -> None:
    statement = STATEMENTS[name]
    asked = {name: VALUES[name] for name in PARAMETER.findall(statement.sql)}
    plain, by_sqlalchemy = answers(base, statement, asked)
    assert plain == by_sqlalchemy
    assert bool(plain) == (name not in EMPTY)


def test_one_value(base: Path) -> None:
    with closing(connect(base)) as driver:
        connection = SqliteConnection(driver)
        assert statements.SETTING.scalar(connection, name="text_index") == "tantivy"
        assert statements.SETTING.scalar(connection, name="nothing") is None
        assert statements.COLLECTION_SIZES.column(connection) == ["default"]


class Server:
    """Takes what PostgreSQL's driver would get."""

    class dialect:  # noqa: N801
        name = "postgresql"

    def exec_driver_sql(self, statement: str, parameters: Any, /) -> Any:
        self.got = (statement, parameters)
        return self

    def keys(self) -> list[str]:
        return []

    def all(self) -> list[tuple[Any, ...]]:
        return []


def test_a_server_gets_arrays_and_exact_numbers() -> None:
    server = Server()
    sql = "SELECT 1 FROM (:pages number) WHERE value IN (:keys key) AND name = :name || '%'"
    Statement(sql).rows(server, pages=[1, 0.5], keys=(1, 2), name="x")
    assert server.got == (
        "SELECT 1 FROM unnest(%(pages)s::numeric[]) AS each (value) "
        "WHERE value = ANY(%(keys)s::bigint[]) AND name = %(name)s || '%%'",
        {"pages": [Decimal(1), Decimal("0.5")], "keys": [1, 2], "name": "x"},
    )
