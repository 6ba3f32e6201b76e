"""Writers side by side: nothing is lost, nobody waits for nothing, and the indexes stay right."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from lagotto.documents import Document
from lagotto.errors import ModelMismatchError, StoreBusyError
from lagotto.filters import And, Gte
from lagotto.indexes.text_query import single_words
from lagotto.stores.base import CachedChunks, CacheKey, Entry, Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.postgres import database, text_index
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.stores import entries, entry, text_ids
from tests.base.ingest.test_vector_reuse import ReuseContract
from tests.stores.postgres.schemas import opened, reader_of, sql
from tests.stores.postgres.text_index.test_text_index import assert_same_texts, documents

WRITER = """
import asyncio, json, random, sys
from lagotto.documents import Document
from lagotto.filters import Eq
from lagotto.stores.postgres import text_index
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.stores import entries

text_index.AT_ONCE, text_index.FEW_GONE = 3, 8
WORDS = ("oak", "dog", "truffle", "hazel", "water", "smell")

async def main(location, name):
    chance = random.Random(name)
    store = PostgresStore(location)
    await store.open()
    for turn in range(25):
        numbers = chance.sample(range(16), 4)
        text = f"{' '.join(chance.choices(WORDS, k=5))} only{name}{turn}"
        some = [
            Document(id=f"d{n}", language="en", text=text, metadata={"group": n % 8, "by": name})
            for n in numbers
        ]
        if turn % 5 == 3:
            await store.delete(Eq("group", chance.randrange(8)))
        elif turn % 5 == 4:
            stored = [await store.get("default", document.id) for document in some]
            found = [document for document in stored if document]
            await store.update([item.model_copy(update={"summary": name}) for item in found])
        else:
            some.append(Document(id=f"{name}-{turn}", language="en", text=text))
            await store.write(await entries(some))
            print(json.dumps([[document.id, text] for document in some]), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""

COUNTED = "SELECT chunks, terms FROM indexed"
RECOUNTED = "SELECT count(*), coalesce(sum(length), 0) FROM chunk_terms"
WITHOUT_TERM = """
SELECT count(*) FROM posting WHERE NOT EXISTS (SELECT 1 FROM term WHERE text = posting.term)
"""


async def test_processes_that_write_the_same_documents(location: str) -> None:
    """They also all find an empty schema, and make one base of it."""
    names = ["ann", "bob", "cem", "dan"]
    commands = [(sys.executable, "-c", WRITER, location, name) for name in names]
    processes = [
        await create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE) for command in commands
    ]
    async with opened(location) as store:
        reader = asyncio.create_task(search_all_the_time(store))
        ended = await asyncio.gather(*(process.communicate() for process in processes))
        reader.cancel()
        for process, (_, problem) in zip(processes, ended, strict=True):
            assert process.returncode == 0, problem.decode()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await assert_whole(store, location)
        written = [map(json.loads, said.splitlines()) for said, _ in ended]
        last = [{name: text for line in lines for name, text in line} for lines in written]
        stored = set()
        async for document in store.documents(And()):
            whole = await store.get("default", document.id)
            assert whole is not None
            assert whole.text in [by_one.get(document.id) for by_one in last]
            stored.add(document.id)
        own = {f"{name}-{turn}" for name in names for turn in range(25) if turn % 5 < 3}
        assert own <= stored


async def search_all_the_time(store: PostgresStore) -> None:
    """What a view finds belongs to one state: all chunks that it counts, and no others."""
    while True:
        async with store.view(And()) as view:
            counted = (await view._text.statistics()).chunks
            everything = len(await view._all_keys())
            keys = (await reader_of(view).rows("SELECT count(*) FROM embedding"))[0][0]
            assert (everything, keys) == (counted, counted)
            frequencies = await view._text.frequencies(single_words(["oak", "dog", "truffl"]))
            assert all(having <= counted for having in frequencies)
        await asyncio.sleep(0.02)


async def assert_whole(store: PostgresStore, location: str) -> None:
    """The base is as one that was made of its documents in one go."""
    assert "problem" not in [finding.level for finding in await store.check()]
    assert sql(location, COUNTED) == sql(location, RECOUNTED)
    assert sql(location, WITHOUT_TERM) == [(0,)]
    oracle = MemoryStore()
    stored = [await store.get("default", item.id) async for item in store.documents(And())]
    await oracle.write(await entries([document for document in stored if document]))
    await assert_same_texts(store, oracle)


async def test_writers_of_different_documents_work_side_by_side(location: str) -> None:
    async with opened(location) as store:
        await store.write(await entries(documents(3)))
        with somebody_adds(location, "zebra") as done:
            slow = asyncio.create_task(store.write([await entry(Document(id="d1", text="zebra"))]))
            await waiting(location, "transactionid")
            await store.write([await entry(Document(id="d2", language="en", text="oak figs"))])
            assert "d2" in await text_ids(store, "figs")
            assert await store.delete(Gte("number", 3)) == []
            assert not slow.done()
            done()
            await slow
        assert await text_ids(store, "zebra") == ["d1"]
        await assert_whole(store, location)


async def test_writers_of_the_same_document_take_turns(location: str) -> None:
    async with opened(location) as store, opened(location, busy_timeout=0.05) as other:
        await store.write(await entries(documents(3)))
        with somebody_adds(location, "zebra") as done:
            first = asyncio.create_task(store.write([await entry(Document(id="d1", text="zebra"))]))
            await waiting(location, "transactionid")
            later = await entry(Document(id="d1", language="en", text="figs"))
            with pytest.raises(StoreBusyError):
                await other.write([later])
            with pytest.raises(StoreBusyError):
                await other.delete(And())
            second = asyncio.create_task(store.write([later]))
            await waiting(location, "advisory")
            done()
            await asyncio.gather(first, second)
        assert await text_ids(store, "figs") == ["d1"]
        assert await text_ids(store, "zebra") == []
        await assert_whole(store, location)


async def test_chunks_of_a_document_that_is_being_written_are_not_kept(location: str) -> None:
    async with opened(location) as store:
        document = documents(1)[0]
        made = await entry(document)
        await store.write([made])
        key = CacheKey("default", "d0", document.content_hash, "any", made.model_id)
        kept = {key: CachedChunks(made.chunks, made.vectors)}
        with somebody_adds(location, "zebra") as done:
            changed = await entry(document.model_copy(update={"text": "zebra"}))
            writing = asyncio.create_task(store.write([changed]))
            await waiting(location, "transactionid")
            await store.chunk_cache.save(kept, ttl=None)
            assert await store.chunk_cache.load([key]) == {}
            done()
            await writing


async def test_the_first_write_decides_on_the_model(location: str) -> None:
    async with opened(location) as store, opened(location) as other:
        one, two = await entries(documents(2))
        alien = Entry(two.document, two.chunks, two.vectors, "another-model")
        ended = await asyncio.gather(
            store.write([one]), other.write([alien]), return_exceptions=True
        )
        (problem,) = [error for error in ended if error is not None]
        assert isinstance(problem, ModelMismatchError)
        assert (await store.info()).documents == 1


async def test_documents_are_deleted_once(location: str) -> None:
    async with opened(location) as store, opened(location) as other:
        await store.write(await entries(documents(20)))
        both = await asyncio.gather(store.delete(Gte("number", 5)), other.delete(Gte("number", 9)))
        assert sorted(both[0] + both[1]) == sorted(f"d{number}" for number in range(5, 20))
        await assert_whole(store, location)


async def test_who_writes_many_documents_has_the_base_to_himself(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MOST_LOCKED", 5)
    async with opened(location) as store, opened(location, busy_timeout=0.05) as other:
        await store.write(await entries(documents(20)))
        with somebody_adds(location, "zebra") as done:
            slow = asyncio.create_task(store.write([await entry(Document(id="d1", text="zebra"))]))
            await waiting(location, "transactionid")
            with pytest.raises(StoreBusyError):
                await other.delete(Gte("number", 10))
            done()
            await slow
        assert len(await store.delete(Gte("number", 10))) == 10
        await assert_whole(store, location)


async def test_who_finds_somebody_merging_leaves_it_to_him(location: str) -> None:
    lock = f"SELECT pg_advisory_xact_lock({database.MERGER}, current_schema()::regnamespace::int)"
    async with opened(location) as store:
        with psycopg.connect(location) as somebody:
            somebody.execute(lock)
            for document in documents(9):
                await store.write([await entry(document)])
            assert sql(location, "SELECT count(*) FROM segment") == [(9,)]
        await store.write([await entry(documents(10)[9])])
        assert sql(location, "SELECT count(*) < 9 FROM segment") == [(True,)]
        await assert_whole(store, location)


async def test_a_term_that_somebody_is_about_to_use_is_not_dropped(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "FEW_GONE", 0)
    monkeypatch.setattr(text_index, "MOST_GONE", 0.0)
    async with opened(location) as store, opened(location, busy_timeout=0.05) as other:
        figs = Document(id="figs", language="en", text="figs", metadata={"number": 7})
        await store.write(await entries([*documents(3), figs]))
        with somebody_adds(location, "zebra") as done:
            again = await entry(Document(id="more", language="en", text="zebra figs"))
            slow = asyncio.create_task(store.write([again]))
            await waiting(location, "transactionid")
            assert await other.delete(Gte("number", 7)) == ["figs"]
            assert sql(location, "SELECT count(*) FROM gone") == [(0,)]
            done()
            await slow
        assert await text_ids(store, "figs") == ["more"]
        await assert_whole(store, location)


async def test_the_order_of_new_words_does_not_matter(location: str) -> None:
    async with opened(location) as store, opened(location) as other:
        await store.write(await entries(documents(3)))
        with somebody_adds(location, "newt") as done:
            one = await entry(Document(id="one", text="gnu newt yak"))
            two = await entry(Document(id="two", text="yak newt gnu"))
            both = asyncio.gather(store.write([one]), other.write([two]))
            await waiting(location, "transactionid", count=2)
            done()
            await both
        await assert_whole(store, location)


@contextmanager
def somebody_adds(location: str, term: str) -> Iterator[Callable[[], None]]:
    """Have whoever writes a term wait, shortly before his transaction would end, until called."""
    with psycopg.connect(location) as connection:
        connection.execute("INSERT INTO term (text, shapes) VALUES (%s, '{}')", [term])
        yield connection.rollback


async def waiting(location: str, kind: str, *, count: int = 1) -> None:
    """Wait until somebody waits for a lock of a kind, or several do."""
    asked = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = '{kind}'"
    while sql(location, asked) != [(count,)]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class TestReuse(ReuseContract):
    @pytest.fixture
    async def store(self, location: str) -> AsyncIterator[Store]:
        async with opened(location) as store:
            yield store
