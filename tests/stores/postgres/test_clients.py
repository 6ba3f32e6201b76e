"""Several clients at once, servers that go away, and searches that are called off."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Iterator

import psycopg
import pytest

from lagotto.documents import Document
from lagotto.errors import StoreUnavailableError
from lagotto.filters import And, Eq
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.postgres import PostgresServer
from lagotto.testing.stores import DOCUMENTS, entries, entry, semantic_ids, text_ids

WRITER = """
import asyncio, sys
from lagotto.documents import Document
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.stores import entry

async def main(location, name):
    store = PostgresStore(location)
    await store.open()
    for turn in range(6):
        own = Document(id=f"{name}-{turn}", text=f"Written by {name} in turn {turn}.")
        shared = Document(id=f"shared-{turn % 2}", text=f"Last by {name} in turn {turn}.")
        await store.write([await entry(own), await entry(shared)])
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_that_write_at_once_lose_nothing(location: str) -> None:
    """They also all find an empty schema, and make one base of it."""
    names = ["ann", "bob", "cem"]
    commands = [(sys.executable, "-c", WRITER, location, name) for name in names]
    writers = [await create_subprocess_exec(*command, stderr=PIPE) for command in commands]
    for writer in writers:
        _, problem = await writer.communicate()
        assert writer.returncode == 0, problem.decode()
    store = PostgresStore(location)
    await store.open()
    try:
        info = await store.info()
        assert info.documents == len(names) * 6 + 2
        assert info.chunks == info.documents
        for name in names:
            found = await text_ids(store, name)
            assert {f"{name}-{turn}" for turn in range(6)} <= set(found)
    finally:
        await store.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop and start."""
    with PostgresServer({}) as server:
        yield server


async def test_a_server_that_crashes_and_comes_back(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.url())
    await store.open()
    try:
        await store.write(await entries())
        own_server.stop(mode="immediate")
        with pytest.raises(StoreUnavailableError):
            await text_ids(store, "dog")
        with pytest.raises(StoreUnavailableError):
            await store.write([await entry(Document(id="new", text="New."))])
        own_server.start()
        assert set(await text_ids(store, "truffles")) == {"dog", "truffle"}
        assert (await store.info()).documents == len(DOCUMENTS)
        await store.write([await entry(Document(id="new", text="New."))])
    finally:
        await store.close()


async def test_a_server_that_crashes_during_a_search(own_server: PostgresServer) -> None:
    async def search() -> None:
        async with store.view(And()) as view:
            own_server.stop(mode="immediate")
            await view.corrections(["romagnollo"])

    store = PostgresStore(own_server.url())
    await store.open()
    try:
        await store.write(await entries())
        with pytest.raises(StoreUnavailableError):
            await search()
        own_server.start()
        assert await text_ids(store, "Romagna") == ["dog"]
    finally:
        await store.close()


async def test_a_search_that_is_called_off_ends_on_the_server(
    store: PostgresStore, location: str
) -> None:
    async def sleep() -> None:
        async with store.view(And()) as view:
            await view._reader.rows("SELECT pg_sleep(600)")

    def sleeping() -> int:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'"
        with psycopg.connect(location) as connection:
            (row,) = connection.execute(f"{asked} AND state = 'active'").fetchall()
        return int(row[0])

    task = asyncio.create_task(sleep())
    while not sleeping():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sleeping() == 0
    assert await text_ids(store, "dog") == []


async def test_a_standby_serves_searches_when_the_primary_is_down(
    own_server: PostgresServer,
) -> None:
    with PostgresServer({}, primary=own_server) as standby:
        store = PostgresStore(own_server.url(standby))
        await store.open()
        try:
            await store.write(await entries())
            await followed(own_server, standby)
            async with store.view(And()) as view:
                assert await view._reader.rows("SELECT pg_is_in_recovery()") == [(True,)]
            own_server.stop(mode="immediate")
            assert set(await text_ids(store, "truffles")) == {"dog", "truffle"}
            assert set(await semantic_ids(store, "truffles")) >= {"dog", "truffle"}
            assert (await store.info()).documents == len(DOCUMENTS)
            with pytest.raises(StoreUnavailableError):
                await store.delete(And())
            own_server.start()
            await store.delete(Eq("document_id", "truffle"))
            await followed(own_server, standby)
            assert set(await text_ids(store, "truffles")) == {"dog"}
        finally:
            await store.close()


async def followed(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has all that the primary has."""
    with (
        psycopg.connect(primary.url(), autocommit=True) as one,
        psycopg.connect(standby.url(), autocommit=True) as other,
    ):
        (written,) = one.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
        behind = "SELECT coalesce(pg_last_wal_replay_lsn() < %s, true)"
        while other.execute(behind, [written]).fetchone() == (True,):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
