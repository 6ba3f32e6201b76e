"""What goes wrong with a server is said clearly, with what to do about it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack

import psycopg
import pytest
from sqlalchemy import make_url

from lagotto.errors import (
    ConfigError,
    ModelMismatchError,
    NotABaseError,
    StoreBusyError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from lagotto.stores.base import Entry
from lagotto.stores.postgres import database
from lagotto.stores.postgres.database import WRITER, parse_location
from lagotto.stores.postgres.store import PostgresStore
from lagotto.stores.registry import create_store
from lagotto.testing.stores import DOCUMENTS, entries, entry, text_ids
from tests.stores.postgres.schemas import opened, own_database, own_schema, schema_of, sql


@pytest.fixture
def guest(server_url: str, location: str, visitor: str) -> str:
    """The address for somebody who may read the tables that will be made there."""
    grant = f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema_of(location)} GRANT SELECT ON TABLES"
    sql(server_url, f"{grant} TO guest")
    return visitor


async def test_no_server() -> None:
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/kb")
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1/kb can't be reached") as error:
        await store.open()
    assert "secret" not in str(error.value)
    assert "check the address" in str(error.value)
    await store.close()


async def test_no_such_database(server_url: str) -> None:
    url = make_url(server_url).set(database="nothing_like_it")
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        await PostgresStore(url.render_as_string(hide_password=False)).open()


def test_several_hosts() -> None:
    address = parse_location("postgresql://me:secret@one:6000,two/kb?sslmode=require")
    options = {"host": "one,two", "port": "6000,5432", "sslmode": "require"}
    assert address.url.query == {**options, "connect_timeout": "10"}
    assert address.has_several_hosts
    assert (address.url.username, address.url.password) == ("me", "secret")
    assert address.url.database == "kb"


@pytest.mark.parametrize("location", ["me:secret@host/kb", "host/kb?password=secret"])
def test_a_password_is_not_shown(location: str) -> None:
    assert "secret" not in parse_location(f"postgresql://{location}").location


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", (8, 32, 30)),
        ("?pool_size=20&pool_timeout=0.5", (20, 20, 0.5)),
        ("?pool_size=50", (50, 0, 30)),
        ("?max_connections=100", (8, 92, 30)),
    ],
)
def test_pool_settings(options: str, settings: tuple[int, int, float]) -> None:
    address = parse_location(f"postgresql://host/kb{options}")
    names = ("pool_size", "max_overflow", "pool_timeout")
    assert address.pool == dict(zip(names, settings, strict=True))
    assert address.url.query == {"connect_timeout": "10"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("pool_size=0", "pool_size is '0'; give a whole number, 1 or more"),
        ("pool_size=many", "pool_size is 'many'"),
        ("max_connections=1", "max_connections is '1'; give a whole number, 8 or more"),
        ("pool_size=1&max_connections=1", "a whole number, 2 or more"),
        ("pool_timeout=soon", "pool_timeout is 'soon'; give a number of seconds above 0"),
        ("pool_timeout=0", "pool_timeout is '0'"),
        ("pool_timeout=inf", "pool_timeout is 'inf'"),
        ("poolsize=3", 'invalid connection option "poolsize"; .* pool_size'),
        ("sslmode=a&sslmode=b", "gives sslmode more than once"),
    ],
)
def test_bad_options(options: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_location(f"postgresql://host/kb?{options}")


@pytest.mark.parametrize("location", ["postgresql://", "postgresql://host", "postgresql://h:x/db"])
def test_no_address(location: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://"):
        create_store(location)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lagotto.stores.postgres.store", None)
    with pytest.raises(ConfigError, match=r"pip install 'lagotto\[postgresql\]'"):
        create_store("postgresql://host/kb")


async def test_tables_of_somebody_else(location: str) -> None:
    sql(location, "CREATE TABLE document (id int)")
    with pytest.raises(NotABaseError, match="search_path"):
        await PostgresStore(location).open()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("value = '999'", "upgrade Lagotto"),
        ("name = 'schema_version', value = '11'", r"`lagotto export .*`lagotto import "),
    ],
)
@pytest.mark.usefixtures("store")
async def test_a_base_of_another_version(location: str, change: str, problem: str) -> None:
    sql(location, f"UPDATE setting SET {change} WHERE name = 'schema'")
    with pytest.raises(NotABaseError, match=problem):
        await PostgresStore(location).open()


async def test_a_base_that_is_dropped_meanwhile(store: PostgresStore, location: str) -> None:
    sql(location, "DROP TABLE chunk CASCADE")
    with pytest.raises(NotABaseError, match="chunk"):
        await store.info()


async def test_no_right_to_make_a_base(guest: str) -> None:
    with pytest.raises(StoreReadOnlyError, match="permission denied"):
        await PostgresStore(guest).open()


async def test_a_guest_may_search_but_not_write(
    guest: str, store: PostgresStore, location: str
) -> None:
    await store.write(await entries())
    async with opened(guest) as visitor:
        assert (await visitor.info()).documents == len(DOCUMENTS)
        with pytest.raises(StoreReadOnlyError, match="permission denied"):
            await visitor.write(await entries())


async def test_a_busy_base(location: str, store: PostgresStore) -> None:
    async with opened(location, busy_timeout=0.05) as impatient:
        with psycopg.connect(location) as other:
            schema = "current_schema()::regnamespace::oid::int"
            other.execute(f"SELECT pg_advisory_xact_lock({WRITER}, {schema})")
            with pytest.raises(StoreBusyError, match="another process is writing"):
                await impatient.write(await entries())
        await impatient.write(await entries())


async def test_an_extension_that_the_server_does_not_have(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(database.EXTENSIONS, "no_such_extension", "1.0")
    with pytest.raises(StoreError, match="CREATE EXTENSION no_such_extension;"):
        await PostgresStore(location).open()


async def test_an_extension_that_only_an_administrator_may_add(server_url: str, guest: str) -> None:
    with own_database(server_url) as empty:
        url = make_url(empty).set(username="guest").render_as_string(hide_password=False)
        with pytest.raises(StoreReadOnlyError, match="CREATE EXTENSION vector;"):
            await PostgresStore(url).open()


async def test_bases_in_schemas_of_one_database(server_url: str) -> None:
    """The first one adds the extensions; when it is dropped, the other one lives on."""
    with own_database(server_url) as empty, own_schema(empty) as second:
        with own_schema(empty) as first:
            for location in (first, second):
                async with opened(location) as store:
                    await store.write([await entry(DOCUMENTS[0])])
        async with opened(second) as store:
            assert await text_ids(store, "oak") == ["truffle"]


async def test_bases_that_are_made_at_once_in_one_database(server_url: str) -> None:
    """Each would add the extensions; the first one does."""
    with own_database(server_url) as empty, ExitStack() as schemas:
        locations = [schemas.enter_context(own_schema(empty)) for _ in range(6)]
        stores = [PostgresStore(location) for location in locations]
        await asyncio.gather(*(store.open() for store in stores))
        for store in stores:
            await store.close()


async def test_an_extension_that_is_too_old(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database.EXTENSIONS, "vector", "99.0")
    with pytest.raises(StoreError, match=r"99\.0 is needed.*ALTER EXTENSION vector UPDATE;"):
        await PostgresStore(location).open()


async def test_another_embedder(store: PostgresStore) -> None:
    good = await entry(DOCUMENTS[0])
    await store.write([good])
    alien = Entry(good.document, good.chunks, good.vectors[:, :16].copy(), good.model_id)
    with pytest.raises(ModelMismatchError, match=r"dimension 32, not of .* dimension 16"):
        await store.write([alien])


async def test_a_closed_store(location: str) -> None:
    with pytest.raises(StoreError, match="is closed; open it first"):
        await PostgresStore(location).info()
