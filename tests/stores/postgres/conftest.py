"""A server for the whole session, and a schema of its own for each base."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from lagotto.stores.postgres.database import EXTENSIONS
from lagotto.stores.postgres.store import PostgresStore
from tests.servers.postgres import PostgresServer
from tests.stores.postgres.schemas import GIVEN, opened, own_schema


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
async def store(location: str) -> AsyncIterator[PostgresStore]:
    """An empty base, open."""
    async with opened(location) as store:
        yield store
