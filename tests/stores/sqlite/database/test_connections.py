"""Connections of the sqlite3 module: one state each, and used again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagotto.stores.sql.statements import Statement
from lagotto.stores.sqlite.database import KEPT_OPEN, SqliteDatabase, connect

COUNT = Statement("SELECT count(*) FROM thing")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[SqliteDatabase]:
    file = tmp_path / "some.db"
    driver = connect(file)
    driver.execute("CREATE TABLE thing (number INTEGER, value JSON)")
    driver.close()
    pool = SqliteDatabase(file)
    yield pool
    pool.close()


def add(pool: SqliteDatabase) -> None:
    with pool.connection() as writer:
        writer.driver.execute("INSERT INTO thing VALUES (1, '[1]')")


def test_all_queries_see_the_state_of_the_first(pool: SqliteDatabase) -> None:
    with pool.connection() as connection:
        assert COUNT.scalar(connection) == 0
        add(pool)
        assert COUNT.scalar(connection) == 0
        connection.rollback()
        assert COUNT.scalar(connection) == 1


def test_a_connection_is_used_again_without_its_transaction(pool: SqliteDatabase) -> None:
    with pool.connection() as first:
        assert COUNT.scalar(first) == 0
    add(pool)
    with pool.connection() as second:
        assert second.driver is first.driver
        assert COUNT.scalar(second) == 1


def test_a_connection_is_released_after_an_error(pool: SqliteDatabase) -> None:
    with pytest.raises(sqlite3.OperationalError), pool.connection() as first:
        Statement("SELECT * FROM nowhere").rows(first)
    with pool.connection() as second:
        assert second.driver is first.driver
        assert COUNT.scalar(second) == 0


def test_only_some_connections_are_kept(pool: SqliteDatabase) -> None:
    borrowed = [pool.connection() for _ in range(KEPT_OPEN + 2)]
    connections = [each.__enter__() for each in borrowed]
    for each in borrowed:
        each.__exit__(None, None, None)
    assert sum(map(is_closed, (each.driver for each in connections))) == 2


def test_closing_closes_what_is_in_use_when_it_is_released(pool: SqliteDatabase) -> None:
    add(pool)
    with pool.connection() as one, pool.connection() as other:
        pool.close()
        assert COUNT.scalar(one) == COUNT.scalar(other) == 1
    assert is_closed(one.driver)
    assert is_closed(other.driver)


def test_json_is_decoded_and_lists_are_json(pool: SqliteDatabase) -> None:
    add(pool)
    query = Statement(
        "SELECT number, value AS metadata, NULL AS sections FROM thing "
        "WHERE number IN (:some number)"
    )
    with pool.connection() as connection:
        assert query.rows(connection, some=[1, 5]) == [[1, [1], None]]
        assert query.rows(connection, some=(2,)) == []


def test_no_connection_is_left_open_where_a_file_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are notes. " * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        connect(file)


def is_closed(driver: sqlite3.Connection) -> bool:
    try:
        driver.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False
