"""The indexes in the database stay right, however they came about."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest

from lagotto.documents import Document
from lagotto.filters import And, Eq, Filter, Gte, In
from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.postgres import database, text_index, vector_index
from lagotto.stores.postgres import store as store_module
from lagotto.stores.postgres.store import PostgresStore
from lagotto.stores.postgres.vector_index import PgVectors
from lagotto.stores.sql.view import SqlView
from lagotto.testing.stores import EMBEDDER, entries, entry, text_query
from tests.stores.postgres.schemas import sql

WORDS = ("oak", "dog", "truffle", "hazel", "water", "smell")


def documents(count: int) -> list[Document]:
    return [
        Document(
            id=f"d{number}",
            language="en",
            metadata={"number": number},
            text=" ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 4 + number % 5)),
        )
        for number in range(count)
    ]


async def assert_same_texts(store: Store, oracle: Store) -> None:
    """Both find the same documents with the same scores."""
    async with store.view(And()) as ours, oracle.view(And()) as theirs:
        for words in ("oak", "dog water", "truffle smell hazel"):
            query = text_query(words, ours.languages)
            found = []
            for view in (ours, theirs):
                hits = await view.text(query, k=1_000)
                names = [item.document.id for item in await view.passages(hits.keys)]
                found.append(dict(zip(names, hits.scores.tolist(), strict=True)))
            assert found[0] == pytest.approx(found[1], rel=1e-5)


async def test_many_small_writes_become_few_segments(store: PostgresStore, location: str) -> None:
    oracle = MemoryStore()
    for document in documents(70):
        one = await entry(document)
        await store.write([one])
        await oracle.write([one])
    ((segments, chunks),) = sql(location, "SELECT count(*), sum(chunks) FROM segment")
    assert segments <= 14
    assert chunks == 70
    await assert_same_texts(store, oracle)


async def test_what_is_gone_is_cleared_away(
    store: PostgresStore, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = MemoryStore()
    for each in (store, oracle):
        await each.write(await entries(documents(40)))
        await each.write([await entry(Document(id="only", language="en", text="figs"))])
        await each.delete(Gte("number", 10))
        await each.delete(Eq("document_id", "only"))
    await assert_same_texts(store, oracle)
    monkeypatch.setattr(text_index, "FEW_GONE", 10)
    for each in (store, oracle):
        await each.delete(Eq("number", 3))
    await assert_same_texts(store, oracle)
    assert sql(location, "SELECT count(*) FROM gone") == [(0,)]
    assert sql(location, "SELECT * FROM term WHERE text = 'fig'") == []
    async with store.view(And()) as view:
        ((term, *_),) = await view.corrections(["trufle"])
        assert term.text == "truffl"


async def test_other_rules_for_terms_make_another_index(
    store: PostgresStore, location: str
) -> None:
    oracle = MemoryStore()
    for each in (store, oracle):
        await each.write(await entries(documents(30)))
        await each.delete(Gte("number", 20))
    sql(location, "UPDATE setting SET value = 'older' WHERE name = 'text_rules'")
    sql(location, "UPDATE posting SET records = '' WHERE term = 'dog'")
    await store.close()
    await store.open()
    await assert_same_texts(store, oracle)


async def test_a_check_finds_what_is_wrong(
    store: PostgresStore, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write(await entries(documents(30)))
    await store.delete(Gte("number", 20))
    assert [finding.level for finding in await store.check()] == ["ok", "ok"]
    sql(location, "DELETE FROM embedding WHERE chunk_key % 2 = 0")
    sql(location, "UPDATE segment SET chunks = chunks - 1")
    sql(location, "DELETE FROM chunk_text WHERE chunk_key % 2 = 0")
    monkeypatch.setattr(store_module, "GRAPH_FROM", 10)
    _, vectors, texts, _, graph, terms = await store.check()
    assert "10 chunks have no vector: default/d" in vectors.what
    assert "10 chunks have no stored text" in texts.what
    levels = [finding.level for finding in (vectors, graph, texts, terms)]
    assert levels == ["problem", "note", "note", "problem"]
    sql(location, "UPDATE setting SET value = '' WHERE name = 'text_rules'")
    await store.close()
    await store.open()
    assert "full-text" not in "".join(finding.what for finding in await store.check())


@pytest.fixture
async def with_graph(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A base whose vectors have a graph."""
    monkeypatch.setattr(vector_index, "GRAPH_FROM", 10)
    monkeypatch.setattr(vector_index, "COST", 0.1)
    await store.write(await entries(documents(300)))
    await store.close()
    await store.open()
    return store


ALTERED = [
    "DELETE FROM posting WHERE term = (SELECT min(term) FROM posting)",
    "DELETE FROM posting WHERE hashtext(term) % 2 = 0",
    "UPDATE posting SET records = overlay(records placing '\\x0300'::bytea from 5 for 2)",
    "UPDATE posting SET term = term || 'x'",
]
"""Postings that are lost, counts that are overwritten, and terms that are others."""


@pytest.mark.parametrize("altered", ALTERED)
@pytest.mark.parametrize("compared", [5, 2_000])
async def test_a_check_compares_postings_with_the_record(
    store: PostgresStore,
    location: str,
    altered: str,
    compared: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_index, "COMPARED", compared)
    monkeypatch.setattr(text_index, "SUM_PAGE", 1)
    monkeypatch.setattr(text_index, "ROWS_AT_ONCE", 7)
    for number in range(12):
        text = f"Heron number {number} stands in the lake, and no stork."
        await store.write([await entry(Document(id=str(number), text=text, language="en"))])
    await store.delete(In("document_id", ["3", "4"]))
    assert not [found for found in await store.check() if found.level == "problem"]
    sql(location, altered)
    (problem,) = [found for found in await store.check() if found.level == "problem"]
    assert "have other postings in the full-text index than terms" in problem.what


@pytest.mark.parametrize("where", [And(), Gte("number", 100), Gte("number", 297)])
async def test_the_graph_finds_what_a_scan_finds(with_graph: PostgresStore, where: Filter) -> None:
    oracle = MemoryStore()
    await oracle.write(await entries(documents(300)))
    (vector,) = await EMBEDDER.embed(["hazel smell"], role="query")
    async with with_graph.view(where) as ours, oracle.view(where) as theirs:
        assert graph_of(ours).indexed
        for k in (1, 10, 250):
            found, right = await ours.semantic(vector, k=k), await theirs.semantic(vector, k=k)
            np.testing.assert_allclose(found.scores, right.scores, atol=1e-5)


async def test_more_candidates_are_kept_in_larger_graphs(
    with_graph: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kept() -> int:
        async with with_graph.view(And()) as view:
            ((found,),) = await graph_of(view).reader.rows("SHOW hnsw.ef_search")
            return int(found)

    assert await kept() == database.FEWEST_CANDIDATES
    monkeypatch.setattr(vector_index, "FEWEST_UP_TO", 1)
    more = await kept()
    assert database.FEWEST_CANDIDATES < more <= vector_index.MOST_CANDIDATES
    monkeypatch.undo()
    assert await kept() == database.FEWEST_CANDIDATES  # of the transaction, not of the connection


@pytest.mark.parametrize(
    ("chunks", "kept"), [(0, 250), (100_000, 250), (1_000_000, 791), (10**9, 1000)]
)
def test_how_many_candidates_are_kept(chunks: int, kept: int) -> None:
    assert vector_index.candidate_count(chunks) == kept


@pytest.mark.parametrize(("vectors", "built"), [(9_999, False), (10_000, True)])
async def test_the_graph_is_built_from_10_000_vectors_on(
    store: PostgresStore, location: str, vectors: int, built: bool
) -> None:
    """With 16 neighbours and 128 candidates; the counter stands for that many vectors here."""
    await store.write(await entries(documents(20)))
    sql(location, "UPDATE indexed SET chunks = %(vectors)s", vectors=vectors)
    await store.close()
    found = sql(
        location,
        "SELECT indexdef FROM pg_indexes "
        "WHERE schemaname = current_schema() AND indexname = 'embedding_graph_0'",
    )
    assert len(found) == built
    assert all("hnsw" in made and "(m='16', ef_construction='128')" in made for (made,) in found)


async def test_what_a_stopped_builder_left_is_made_again(
    store: PostgresStore, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "GRAPH_FROM", 10)
    await store.write(await entries(documents(20)))
    sql(
        location,
        "CREATE INDEX embedding_graph_0 ON embedding "
        "USING hnsw ((vector::halfvec(32)) halfvec_ip_ops)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'embedding_graph_0'::regclass",
    )
    await store.close()
    await store.open()
    async with store.view(And()) as view:
        assert graph_of(view).indexed


async def test_a_builder_does_not_wait_for_ever(
    store: PostgresStore,
    location: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The index can't be built while somebody sees an older state; the base closes all the same."""
    monkeypatch.setattr(vector_index, "GRAPH_FROM", 10)
    monkeypatch.setattr(vector_index, "LOCK_TIMEOUT", 0.2)
    await store.write(await entries(documents(20)))
    with psycopg.connect(location) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM chunk")
        await store.close()
        assert "a transaction has been open for long" in caplog.text
    await store.open()
    await store.write(await entries(documents(2)))
    await store.close()
    await store.open()
    async with store.view(And()) as view:
        assert graph_of(view).indexed


def graph_of(view: SqlView) -> PgVectors:
    assert isinstance(view._vectors, PgVectors)
    return view._vectors
