"""A server for the whole session, and a schema of its own for each base."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from sqlalchemy import make_url

from lagotto.stores.postgres.database import EXTENSIONS
from lagotto.stores.postgres.store import PostgresStore
from tests.servers.postgres import PostgresServer
from tests.stores.postgres.schemas import GIVEN, opened, own_schema, schema_of


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The server that LAGOTTO_TEST_POSTGRES names, or one started for this session."""
    if given := os.environ.get(GIVEN):
        yield given
        return
    with PostgresServer() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            for name in EXTENSIONS:
                connection.execute(f"CREATE EXTENSION {name}")
        yield server.url()


@pytest.fixture
def location(server_url: str) -> Iterator[str]:
    """An empty schema."""
    with own_schema(server_url) as location:
        yield location


@pytest.fixture
def visitor(server_url: str, location: str) -> Iterator[str]:
    """The address of the schema for the role `guest`, which may do nothing there but look."""
    schema = schema_of(location)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO guest")
        yield make_url(location).set(username="guest").render_as_string(hide_password=False)
        connection.execute("DROP OWNED BY guest")
        connection.execute("DROP ROLE guest")


@pytest.fixture
async def store(location: str) -> AsyncIterator[PostgresStore]:
    """An empty base, open."""
    async with opened(location) as store:
        yield store
