"""Words compared with index terms and with whole texts, against pg_trgm asked directly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.filters import And, Eq, Filter
from lagotto.indexes.text_query import Word
from lagotto.stores.postgres import native as alike
from lagotto.stores.postgres.store import PostgresStore
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.stores import DOCUMENTS, entries
from tests.stores.postgres.schemas import native_of

ASTRAL = Document(
    id="astral",
    language="en",
    metadata={"year": 2021},
    text="🐕🐕🐕 Ü. " * 20
    + "A trained dog, 🐕, finds truffles by smell. "
    + "Ünd ïmmer weiter 🐕. " * 20,
)
QUERIES = ("trained dog truffles", "trainned dgo trufles", "озеро байкал", "sqlite_busy", "🐕", "")
ALWAYS_CHUNKS = {"mode": "always", "over": "chunks"}


@pytest.fixture
async def filled(store: PostgresStore) -> PostgresStore:
    await store.write(await entries([*DOCUMENTS, ASTRAL]))
    return store


@pytest.fixture
def connection(server_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_url) as connection:
        yield connection


async def plain_search(
    connection: psycopg.Connection, store: PostgresStore, words: str, *, threshold: float
) -> list[tuple[str, float]]:
    """Chunks in a table of their own with an index of trigrams, and the operator that uses it."""
    connection.execute("CREATE TEMP TABLE plain (id text, text text)")
    connection.execute("CREATE INDEX ON plain USING gin (text gin_trgm_ops)")
    for document in [item async for item in store.documents(And())]:
        for chunk in await store.chunks(document.collection, document.id):
            row = (chunk.id, chunk.text)
            connection.execute("INSERT INTO plain VALUES (%s, %s)", row)
    connection.execute(f"SET LOCAL pg_trgm.word_similarity_threshold = {threshold}")
    rows = connection.execute(
        "SELECT id, word_similarity(%(words)s, text)::float8 FROM plain WHERE %(words)s <%% text",
        {"words": words},
    ).fetchall()
    connection.rollback()
    return sorted(rows, key=lambda row: (-row[1], row[0]))


async def search(
    store: PostgresStore, words: str, *, threshold: float, where: Filter | None = None
) -> list[tuple[str, float]]:
    async with store.view(where or And()) as view:
        hits = await native_of(view).search_texts(words, threshold=threshold, k=1000)
        passages = await view.passages(hits.keys)
    scores = hits.scores.tolist()
    assert scores == sorted(scores, reverse=True)
    ids = [passage.chunk.id for passage in passages]
    return sorted(zip(ids, scores, strict=True), key=lambda row: (-row[1], row[0]))


@pytest.mark.parametrize("threshold", [0.3, 0.6])
@pytest.mark.parametrize("words", QUERIES)
async def test_texts_as_pg_trgm_finds_them(
    filled: PostgresStore, connection: psycopg.Connection, words: str, threshold: float
) -> None:
    expected = await plain_search(connection, filled, words, threshold=threshold)
    assert await search(filled, words, threshold=threshold) == expected
    if words == QUERIES[0]:
        assert expected


async def test_a_text_is_cut_out_by_code_points(filled: PostgresStore) -> None:
    found = await search(filled, "trained dog finds truffles by smell", threshold=0.8)
    chunks = await filled.chunks(ASTRAL.collection, ASTRAL.id)
    (holding,) = (chunk for chunk in chunks if "dog, 🐕, finds truffles by smell" in chunk.text)
    assert holding.start > 0
    assert holding.id in {chunk_id for chunk_id, _ in found}


async def test_filters_hold(filled: PostgresStore) -> None:
    everything = await search(filled, "trained dog truffles", threshold=0.3)
    own = {
        chunk.id for name in ("truffle", "astral") for chunk in await filled.chunks("default", name)
    }
    found = await search(filled, "trained dog truffles", threshold=0.3, where=Eq("year", 2021))
    assert 0 < len(found) < len(everything)
    assert found == [row for row in everything if row[0] in own]


async def test_what_is_excluded_is_not_found(filled: PostgresStore) -> None:
    async with filled.view(And()) as view:
        rest = await view.excluding(Word(("romagna",)))
        before = await native_of(view).search_texts("romagna", threshold=0.9, k=10)
        after = await native_of(rest).search_texts("romagna", threshold=0.9, k=10)
    assert len(before) > len(after)


async def test_scores_of_any_chunk(filled: PostgresStore) -> None:
    """Also of those that are not alike enough to be found; the list is cut at k."""
    async with filled.view(And()) as view:
        everything = await native_of(view).search_texts("trained dog", threshold=0.0, k=1000)
        few = await native_of(view).search_texts("trained dog", threshold=0.0, k=3)
        keys = np.append(everything.keys[::-1], 10**9)
        scores = await native_of(view).text_scores("trained dog", keys)
    assert few.keys.tolist() == everything.keys[:3].tolist()
    assert scores.tolist() == [*everything.scores[::-1].tolist(), 0.0]
    assert scores.min() < 0.3 < scores.max()


@pytest.mark.parametrize(("name", "most"), [("MOST_CHARACTERS", 1000), ("MOST_CHUNKS", 10)])
async def test_only_so_much_text_is_compared(
    filled: PostgresStore, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(alike, name, most)
    for where, expected in ((And(), False), (Eq("document_id", "truffle"), True)):
        async with filled.view(where) as view:
            assert await native_of(view).comparable() is expected


async def test_a_search_over_texts_and_what_it_falls_back_to(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncKnowledgeBase(location, embedder=HashEmbedder(dimension=32)) as base:
        await base.add(*DOCUMENTS)
        over_texts = await base.retrieve("trainned dgo", mode="keyword", fuzzy=ALWAYS_CHUNKS)
        monkeypatch.setattr(alike, "MOST_CHUNKS", 0)
        over_terms = await base.retrieve("trainned dgo", mode="keyword", fuzzy=ALWAYS_CHUNKS)
    assert over_texts.degraded == ()
    best = over_texts[0].breakdown.fuzzy
    assert best is not None
    assert 0.3 <= best.score < 1
    assert over_terms
    assert over_terms.degraded == (
        "fuzzy: there is too much text to compare all of it; words are compared with index terms",
    )


words = st.lists(st.text("abcdeéж", min_size=1, max_size=12), min_size=2, max_size=30)


@given(words=words)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_word_similarity_is_never_less_than_similarity(
    connection: psycopg.Connection, words: list[str]
) -> None:
    """So that `<%` proposes all terms that `%` does."""
    row = connection.execute(
        """SELECT count(*) FROM unnest(%(words)s::text[]) AS one, unnest(%(words)s::text[]) AS other
        WHERE word_similarity(one, other) < similarity(one, other)""",
        {"words": words},
    ).fetchone()
    assert row == (0,)
