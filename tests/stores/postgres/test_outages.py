"""Servers that crash, restart or are put back: nothing acknowledged is lost, clients go on."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from lagotto.base.ingest import BATCH_DOCUMENTS, Progress
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Vectors
from lagotto.embedders import Role
from lagotto.errors import StoreUnavailableError
from lagotto.filters import Eq
from lagotto.request_context import RequestContext
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.stores import DOCUMENTS, entries, entry, text_ids
from tests.counting import CountingEmbedder
from tests.servers.postgres import PostgresServer
from tests.stores.postgres.schemas import in_schema, opened, schema_of, server_to_stop, sql

FILES = 6 * BATCH_DOCUMENTS
LATE_ENOUGH = 4 * BATCH_DOCUMENTS
"""Two batches wait between embedding and writing, so by now some of them are written."""

GONE = r"can't be reached: .*; check the address and that the server is running, then try again"


class Embedder(CountingEmbedder):
    """Calls back before it embeds a query, which is when the view of a search is open."""

    def __init__(self, *, before: Callable[[int], None] | None = None) -> None:
        super().__init__(before=before)
        self.before_query: Callable[[], None] | None = None

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        if role == "query" and self.before_query:
            self.before_query()
        return await super().embed(texts, role=role)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that keeps what it acknowledges, and that tests may stop if they start it again."""
    with server_to_stop() as server:
        yield server


@pytest.fixture
def location(server: PostgresServer) -> str:
    """An empty schema of it."""
    name = f"test_{uuid4().hex[:12]}"
    sql(server.url(), f"CREATE SCHEMA {name}")
    return in_schema(server.url(), name)


@pytest.fixture
async def store(location: str) -> AsyncIterator[PostgresStore]:
    """A base with DOCUMENTS in it."""
    async with opened(location) as store:
        await store.write(await entries())
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(FILES):
        text = f"The number of this file is n{number}x."
        (tmp_path / f"{number:04}.txt").write_text(text)
    return tmp_path


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


async def assert_sound(store: PostgresStore) -> None:
    assert "problem" not in [finding.level for finding in await store.check()]


async def test_a_crash_while_documents_are_added(
    server: PostgresServer, location: str, folder: Path
) -> None:
    def crash(embedded: int) -> None:
        if embedded == LATE_ENOUGH:
            server.stop(mode="immediate")

    store = PostgresStore(location)
    steps: list[Progress] = []
    async with AsyncKnowledgeBase(store, embedder=Embedder(before=crash)) as base:
        with pytest.raises(StoreUnavailableError, match=GONE):
            await base.add(folder, language="en", progress=steps.append)
        server.start()
        acknowledged = steps[-1].added
        assert 0 < acknowledged < FILES
        stored = sorted(Path(document.source).name for document in await base.documents())
        assert stored[:acknowledged] == [f"{number:04}.txt" for number in range(acknowledged)]
        await assert_sound(store)
        report = await base.add(folder, language="en")
        assert (report.added, report.unchanged) == (FILES - len(stored), len(stored))
        await assert_sound(store)
        for number in range(0, FILES, 50):
            (hit, *_) = await base.retrieve(f"n{number}x", mode="keyword")
            assert hit.content.endswith(f"n{number}x.")


async def test_a_crash_while_a_query_is_answered(server: PostgresServer, location: str) -> None:
    embedder = Embedder()
    prefs = {"chunking": {"strategy": "late"}}
    async with AsyncKnowledgeBase(location, embedder=embedder) as base:
        asked = base.prefs.replace(query_text="truffles", **prefs)
        await base.add(*DOCUMENTS)
        for search in (
            lambda: base.retrieve("truffles"),
            lambda: base.context("truffles"),
            lambda: base.retriever.search(RequestContext(timeout=60), asked),
        ):
            embedder.before_query = lambda: server.stop(mode="immediate")
            with pytest.raises(StoreUnavailableError, match=GONE):
                await search()
            with pytest.raises(StoreUnavailableError, match=GONE):
                await search()
            embedder.before_query = None
            server.start()
            assert await search()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_that_nobody_notices(
    server: PostgresServer, store: PostgresStore, mode: str
) -> None:
    for _ in range(2):
        server.restart(mode=mode)
        assert set(await text_ids(store, "truffles")) == {"dog", "truffle"}
        server.restart(mode=mode)
        await store.write([await entry(Document(id="new", text="New."))])
    await assert_sound(store)


async def test_a_server_that_is_starting_up(server: PostgresServer, store: PostgresStore) -> None:
    """Until it has recovered, a server says so, as one that follows another and answers nobody."""
    signal = server.folder / "data" / "standby.signal"
    server.stop()
    signal.touch()
    server.configure({"hot_standby": "off"})
    server.start()
    with pytest.raises(StoreUnavailableError, match=r"not accepting connections.* try again"):
        await text_ids(store, "truffles")
    server.stop()
    signal.unlink()
    server.configure({"hot_standby": "on"})
    server.start()
    assert set(await text_ids(store, "truffles")) == {"dog", "truffle"}


async def test_a_base_can_be_closed_without_its_server(
    server: PostgresServer, store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    try:
        with caplog.at_level(logging.WARNING):
            await store.close()
    finally:
        server.start()
    assert "the graph of vectors could not be built" in caplog.text


async def test_a_server_that_is_put_back_to_an_earlier_state(
    server: PostgresServer, store: PostgresStore
) -> None:
    """Then numbers of states come a second time, and what was remembered for them is void."""
    data, backup = server.folder / "data", server.folder / "backup"
    server.stop()
    run("cp", "-a", data, backup)
    server.start()
    await store.write([await entry(Document(id="lost", text="A lost dog.", title="x"))])
    assert await text_ids(store, "lost", Eq("title", "x")) == ["lost"]
    server.stop()
    run("rm", "-r", data)
    run("mv", backup, data)
    server.start()
    await store.write(
        [
            await entry(Document(id="a", text="A dog.")),
            await entry(Document(id="b", text="Another dog.", title="x")),
        ]
    )
    assert await text_ids(store, "dog", Eq("title", "x")) == ["b"]


async def test_a_base_restored_while_the_server_runs(location: str, store: PostgresStore) -> None:
    """As from a dump: the number of its state comes a second time, its token does not."""
    await store.write([await entry(Document(id="lost", text="A lost dog.", title="x"))])
    assert await text_ids(store, "dog", Eq("title", "x")) == ["lost"]
    schema = schema_of(location)
    sql(location, f"DROP SCHEMA {schema} CASCADE", f"CREATE SCHEMA {schema}")
    async with opened(location) as restored:
        await restored.write([await entry(Document(id="a", text="A dog."))])
        await restored.write([await entry(Document(id="b", text="Another dog.", title="x"))])
    assert await text_ids(store, "dog", Eq("title", "x")) == ["b"]
