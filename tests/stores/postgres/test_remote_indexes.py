"""A base on PostgreSQL with its indexes on a Qdrant server keeps the contract of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from lagotto._internal import trust
from lagotto.filters import And, Eq
from lagotto.stores.base import Store
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.stores import StoreContract, entries
from tests.stores.postgres.schemas import opened, own_schema
from tests.stores.qdrant.followers import check_that_one_waits


@asynccontextmanager
async def made(location: str, address: str, *, text: bool = True) -> AsyncIterator[PostgresStore]:
    text_index = address if text else None
    store = PostgresStore(location, text_index=text_index, vector_index=address)
    await store.open()
    try:
        yield store
    finally:
        for index in store.remote.open.by_role().values():
            index.delete()
        await store.close()


class TestPostgresAndQdrant(StoreContract):
    @pytest.fixture(autouse=True)
    def _servers(self, server_url: str, qdrant_address: str) -> None:
        self.server_url, self.address = server_url, qdrant_address

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Store]:
        with own_schema(self.server_url) as location:
            async with made(location, self.address) as store:
                yield store


def rows_of_indexes(connection: Connection) -> int:
    tables = ("segment", "chunk_terms", "term", "posting")
    statements = (f"SELECT count(*) FROM {name}" for name in tables)
    return sum(int(connection.exec_driver_sql(one).scalar_one()) for one in statements)


async def test_nothing_is_indexed_in_tables(location: str, qdrant_address: str) -> None:
    async with made(location, qdrant_address) as store:
        await store.write(await entries())
        await store.update_indexes()
        info = await store.info()
        states = {state.role: (state.kind, state.applied_seq) for state in info.indexes}
        last = info.indexes[0].changes
        assert states == {"text": ("qdrant", last), "vectors": ("qdrant", last)}
        assert await store.ask(rows_of_indexes) == 0
        assert not [item for item in await store.check() if item.level == "problem"]
        removed = await store.delete(Eq("document_id", "truffle"))
        assert removed == ["truffle"]
        async with store.view(And()) as view:
            assert await view.idf([]) is not None
        assert not [item for item in await store.check() if item.level == "problem"]


async def test_another_user_has_to_name_the_indexes(
    location: str, qdrant_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(location, qdrant_address) as store:
        await store.write(await entries())
        await store.update_indexes()
        monkeypatch.setattr(trust, "_named", set())
        monkeypatch.setenv("LAGOTTO_CONFIG", str(tmp_path))
        async with opened(location) as other:
            async with other.view(And()) as view:
                assert len(view.degraded) == 2
                assert all("LAGOTTO_TRUST" in leg.why for leg in view.degraded)
            problems = [item for item in await other.check() if item.level == "problem"]
            assert ["not used" in item.what for item in problems] == [True, True]
            assert len((await other.info()).degraded) > 0


async def test_one_index_may_stay_in_tables(location: str, qdrant_address: str) -> None:
    async with made(location, qdrant_address, text=False) as store:
        await store.write(await entries())
        await store.update_indexes()
        kinds = {state.role: state.kind for state in (await store.info()).indexes}
        assert kinds == {"text": "postings", "vectors": "qdrant"}
        assert not [item for item in await store.check() if item.level == "problem"]


async def test_one_process_follows_at_a_time(
    location: str, qdrant_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(location, qdrant_address) as one, made(location, qdrant_address) as other:
        await check_that_one_waits(one, other, monkeypatch)
