"""Searches that end early: the server hears of it, and connections are fit for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import make_url

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.errors import DeadlineExceeded, StoreBusyError, StoreError
from lagotto.filters import And
from lagotto.request_context import RequestContext, cancel_scope
from lagotto.stores.postgres import database
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import DOCUMENTS, entries, text_ids
from tests.stores.postgres.schemas import opened, reader_of, sql

LIMIT = "SELECT 1000 * extract(epoch FROM current_setting('statement_timeout')::interval)::float8"


async def limit_of_a_view(store: PostgresStore) -> float:
    """Milliseconds that the server gives a statement of a search; 0 for any time."""
    async with store.view(And()) as view:
        ((milliseconds,),) = await reader_of(view).rows(LIMIT)
    return float(milliseconds)


async def limit_of_a_question(store: PostgresStore) -> float:
    return await store._read(
        lambda connection: float(connection.exec_driver_sql(LIMIT).scalar_one())
    )


def with_options(location: str, **options: str) -> str:
    return make_url(location).update_query_dict(options).render_as_string(hide_password=False)


def at_work(location: str, query: str) -> list[str]:
    """The states of connections whose last statement was `query`."""
    asked = "SELECT state FROM pg_stat_activity WHERE query = %(query)s"
    return [state for (state,) in sql(location, asked, query=query)]


async def until_at_work(location: str, query: str) -> None:
    while "active" not in at_work(location, query):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class TestDeadline:
    async def test_the_server_knows_it(self, store: PostgresStore) -> None:
        for limit in (limit_of_a_view, limit_of_a_question):
            assert await limit(store) == 0
            async with cancel_scope(RequestContext(timeout=50)):
                assert 20_000 < await limit(store) <= 1000 * (50 + database.SLACK)
            assert await limit(store) == 0

    async def test_a_shorter_limit_of_the_server_stays(self, location: str) -> None:
        option = make_url(location).query["options"]
        place = with_options(location, options=f"{option} -cstatement_timeout=7s")
        async with opened(place) as store:
            assert await limit_of_a_view(store) == 7_000
            async with cancel_scope(RequestContext(timeout=50)):
                assert await limit_of_a_view(store) == 7_000
            async with cancel_scope(RequestContext(timeout=5)):
                assert 0 < await limit_of_a_view(store) <= 1000 * (5 + database.SLACK) < 7_000

    async def test_one_that_is_far_away(self, store: PostgresStore) -> None:
        async with cancel_scope(RequestContext(timeout=10**8)):
            assert await limit_of_a_view(store) == 1000 * database.LONGEST

    async def test_a_deadline_long_past_is_a_limit_too(
        self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server takes no negative time, and none at all for no limit."""
        monkeypatch.setattr(database, "SLACK", -100.0)
        async with cancel_scope(RequestContext(timeout=60)):
            assert database.limit() == database.SHORTEST

    async def test_the_server_ends_what_the_client_does_not(
        self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As if the client were gone: nobody cancels anything."""
        monkeypatch.setattr(database, "SLACK", -59.9)
        with pytest.raises(StoreBusyError, match=r"statement timeout.*give the search more time"):
            async with cancel_scope(RequestContext(timeout=60)), store.view(And()) as view:
                await reader_of(view).rows("SELECT pg_sleep(30)")
        assert await text_ids(store, "dog") == []

    async def test_the_client_ends_it_first(self, store: PostgresStore, location: str) -> None:
        with pytest.raises(DeadlineExceeded):
            async with cancel_scope(RequestContext(timeout=0.3)), store.view(And()) as view:
                await reader_of(view).rows("SELECT pg_sleep(31)")
        assert at_work(location, "SELECT pg_sleep(31)").count("active") == 0
        assert await text_ids(store, "dog") == []


async def sleep(store: PostgresStore, query: str) -> None:
    async with store.view(And()) as view:
        await reader_of(view).rows(query)


class TestCalledOff:
    async def test_it_ends_on_the_server(self, store: PostgresStore, location: str) -> None:
        query = "SELECT pg_sleep(600)"
        task = asyncio.create_task(sleep(store, query))
        await until_at_work(location, query)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert at_work(location, query).count("active") == 0
        assert await text_ids(store, "dog") == []

    async def test_by_an_administrator(self, store: PostgresStore, location: str) -> None:
        query = "SELECT pg_sleep(601)"
        task = asyncio.create_task(sleep(store, query))
        await until_at_work(location, query)
        cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = %(query)s"
        sql(location, cancel, query=query)
        with pytest.raises(StoreBusyError, match="user request"):
            await task

    async def test_what_one_leg_leaves_when_another_fails(
        self, store: PostgresStore, location: str
    ) -> None:
        """A question under way ends, one that waits is refused; none reaches the next search."""
        under_way, waiting = "SELECT pg_advisory_xact_lock(4711)", "SELECT 'waiting'"
        with psycopg.connect(location) as other:
            other.execute(under_way)
            async with store.view(And()) as view:
                legs = [asyncio.create_task(reader_of(view).rows(under_way))]
                await until_at_work(location, under_way)
                legs.append(asyncio.create_task(reader_of(view).rows(waiting)))
                await asyncio.sleep(0.02)
                asyncio.get_running_loop().call_later(0.05, other.rollback)
        assert len(await legs[0]) == 1
        with pytest.raises(StoreError, match="view of the base is closed"):
            await legs[1]
        assert at_work(location, waiting) == []
        await asyncio.sleep(0.5)  # nobody waits for the end of the transaction
        assert "idle in transaction" not in at_work(location, under_way)
        assert await text_ids(store, "dog") == []


@pytest.fixture
async def narrow(location: str) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base with few connections."""
    place = with_options(location, pool_size="1", max_connections="2", pool_timeout="15")
    async with AsyncKnowledgeBase(place, embedder=HashEmbedder()) as base:
        await base.add(*DOCUMENTS)
        yield base


class TestPool:
    async def test_more_than_it_has_wait_in_vain(self, location: str) -> None:
        place = with_options(location, pool_size="1", max_connections="2", pool_timeout="0.1")
        async with opened(place) as store:
            await store.write(await entries())
            async with store.view(And()), store.view(And()):
                with pytest.raises(StoreBusyError, match=r"in use.*max_connections"):
                    await text_ids(store, "dog")
                assert (await store.info()).documents == len(DOCUMENTS)
            assert await text_ids(store, "Romagna") == ["dog"]

    async def test_searches_that_ask_meanwhile_do_not_wait_for_one_another(
        self, narrow: AsyncKnowledgeBase
    ) -> None:
        """Late chunking looks into the chunk cache while its view is open."""
        prefs = narrow.prefs.replace(query_text="truffles", chunking={"strategy": "late"})
        bundles = await asyncio.gather(
            *(narrow.retriever.search(RequestContext(), prefs) for _ in range(12))
        )
        assert all(bundle.evidence for bundle in bundles)
