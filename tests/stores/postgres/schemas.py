"""Servers, schemas, databases and bases that tests have for themselves."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import make_url

from lagotto.stores.base import View
from lagotto.stores.postgres.database import BUSY_TIMEOUT, ReadTransaction
from lagotto.stores.postgres.native import PostgresNative
from lagotto.stores.postgres.store import PostgresStore
from lagotto.stores.sql.view import SqlView
from tests.servers.postgres import PostgresServer, contrib_folder

GIVEN = "LAGOTTO_TEST_POSTGRES"


def need_a_server_to_stop() -> None:
    """Somebody else's is not ours to stop: where there is no other, skip, which pytest reports."""
    if os.environ.get(GIVEN) and not contrib_folder().is_dir():
        pytest.skip(
            f"needs a server that it may stop, not that of {GIVEN}; "
            "run `python -m tests.servers.postgres` to have one"
        )


@contextmanager
def server_to_stop() -> Iterator[PostgresServer]:
    """A server that keeps what it acknowledges, and that tests may stop and start."""
    need_a_server_to_stop()
    with PostgresServer({}) as server:
        yield server


@contextmanager
def own_schema(server_url: str) -> Iterator[str]:
    """The address of an empty schema, which is gone afterwards."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
        try:
            yield in_schema(server_url, name)
        finally:
            connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(name)))


@asynccontextmanager
async def own_store(server_url: str) -> AsyncIterator[PostgresStore]:
    """An empty base, open, which is gone afterwards."""
    with own_schema(server_url) as location:
        async with opened(location) as store:
            yield store


@asynccontextmanager
async def opened(
    location: str, *, busy_timeout: float = BUSY_TIMEOUT
) -> AsyncIterator[PostgresStore]:
    """A store of its own on a base."""
    store = PostgresStore(location, busy_timeout=busy_timeout)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def in_schema(server_url: str, name: str) -> str:
    """The same server, another schema."""
    url = make_url(server_url).update_query_dict({"options": f"-csearch_path={name},public"})
    return url.render_as_string(hide_password=False)


def schema_of(location: str) -> str:
    """The name of the schema in an address of `in_schema`."""
    return str(make_url(location).query["options"]).partition("=")[2].partition(",")[0]


@contextmanager
def own_database(server_url: str) -> Iterator[str]:
    """The address of an empty database, which is gone afterwards."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def sql(location: str, *statements: str, **values: object) -> list[tuple[Any, ...]]:
    """Run statements, each in a transaction of its own; the rows of the last one."""
    with psycopg.connect(location, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def native_of(view: View) -> PostgresNative:
    """What only the server can do, for one view."""
    assert isinstance(view, SqlView)
    assert view.native is not None
    return view.native


def reader_of(view: SqlView) -> ReadTransaction:
    """The reader of a view, to ask the server what no view is asked."""
    assert isinstance(view._record, ReadTransaction)
    return view._record
