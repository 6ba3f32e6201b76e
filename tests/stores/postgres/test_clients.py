"""Several clients at once, and several servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import StoreBusyError, StoreUnavailableError
from lagotto.filters import And, Eq
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import DOCUMENTS, entries, semantic_ids, text_ids
from tests.servers.postgres import PostgresServer
from tests.stores.postgres.schemas import opened, reader_of, server_to_stop


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop and start."""
    with server_to_stop() as server:
        yield server


async def test_a_standby_serves_searches_when_the_primary_is_down_and_takes_over(
    own_server: PostgresServer,
) -> None:
    with PostgresServer({}, primary=own_server) as standby:
        async with opened(own_server.url(standby)) as store:
            await store.write(await entries())
            await followed(own_server, standby)
            async with store.view(And()) as view:
                assert await reader_of(view).rows("SELECT pg_is_in_recovery()") == [(True,)]
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
            own_server.stop(mode="immediate")
            standby.promote()
            await store.delete(Eq("document_id", "dog"))
            assert await text_ids(store, "truffles") == []
            assert "problem" not in [finding.level for finding in await store.check()]


async def test_a_base_opens_and_is_searched_when_the_primary_is_down(
    own_server: PostgresServer,
) -> None:
    with PostgresServer({}, primary=own_server) as standby:
        location = own_server.url(standby)
        embedder = HashEmbedder()
        async with AsyncKnowledgeBase(location, embedder=embedder) as base:
            await base.add(*DOCUMENTS)
            await followed(own_server, standby)
        own_server.stop(mode="immediate")
        async with AsyncKnowledgeBase(location, embedder=embedder) as base:
            assert (await base.retrieve("truffles", top_k=1))[0].document_id in {"dog", "truffle"}
            with pytest.raises(StoreUnavailableError):
                await base.add(Document(id="new", text="Hazel grows near truffles."))


async def test_a_standby_that_may_not_wait_for_a_search(own_server: PostgresServer) -> None:
    async def search() -> None:
        async with store.view(And()) as view:
            with psycopg.connect(own_server.url()) as primary:
                primary.execute("LOCK TABLE counter IN ACCESS EXCLUSIVE MODE")
            await followed(own_server, standby)
            await reader_of(view).rows("SELECT 1")

    with PostgresServer({"max_standby_streaming_delay": "0"}, primary=own_server) as standby:
        async with opened(own_server.url(standby)) as store:
            await followed(own_server, standby)
            with pytest.raises(StoreBusyError, match=r"conflict with recovery.* try again"):
                await search()
            assert await text_ids(store, "truffles") == []


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
