"""A whole search on a server: filters hold in it, and it answers as one in memory does."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto import field, recency
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.filters import And, Filter
from lagotto.stores.postgres.database import ReadTransaction, Servers
from lagotto.testing.strategies import FILTERS
from tests.retrieval.test_filters import (
    QUERIES,
    STRATEGIES,
    check_bundles,
    check_lists,
    corpora,
    filled,
)
from tests.stores.postgres.schemas import own_schema


async def ranking(
    base: AsyncKnowledgeBase, query: str, where: Filter, fuzzy: str
) -> dict[str, float]:
    hits = await base.retrieve(query, top_k=100, filters=where, fuzzy={"mode": fuzzy})
    assert all(note.startswith("filter: ") for note in hits.degraded)
    return {hit.chunk_id: hit.score for hit in hits}


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    corpus=corpora(),
    where=st.just(And()) | FILTERS,
    words=QUERIES,
    fuzzy=st.sampled_from(["correct", "always", "off"]),
    strategy=STRATEGIES,
)
async def test_the_same_as_in_memory_and_filters_hold(
    server_url: str,
    corpus: list[Document],
    where: Filter,
    words: list[str],
    fuzzy: str,
    strategy: str,
) -> None:
    query = " ".join(words)
    with own_schema(server_url) as location:
        async with filled(location, corpus) as base, filled(":memory:", corpus) as oracle:
            found = await ranking(base, query, where, fuzzy)
            assert found == pytest.approx(await ranking(oracle, query, where, fuzzy), abs=1e-5)
            await check_lists(base, corpus, where, query)
            await check_bundles(base, corpus, where, query, strategy)


async def test_a_hybrid_search_waits_for_four_round_trips(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its transaction ends beside what the caller does next."""
    trace = tmp_path / "trace"
    reader = Servers.reader

    @asynccontextmanager
    async def traced(self: Servers, *, latest: bool = False) -> AsyncIterator[ReadTransaction]:
        async with reader(self, latest=latest) as transaction:
            connection = transaction._driver.pgconn
            with trace.open("w") as file:
                connection.trace(file.fileno())
                yield transaction
                connection.untrace()

    corpus = [
        Document(id=f"d{number}", source="s", text=f"A tale of {word} waters. " * 3)
        for number, word in enumerate(["deep", "cold", "still", "wild"])
    ]
    async with filled(location, corpus) as base:
        await base.retrieve("wild waters")  # reads what is cached until the next write
        with monkeypatch.context() as patched:
            patched.setattr(Servers, "reader", traced)
            found = await base.retrieve("still waters")
    assert "d2" in [hit.document_id for hit in found]
    assert found[0].breakdown.semantic
    assert found[0].breakdown.text
    senders = re.findall(r"(?m)^[^\t]+\t([FB])\t", trace.read_text())
    assert [sender for sender, _ in groupby(senders)] == ["F", "B"] * 4


@pytest.mark.parametrize("strategy", ["legs", "statement"])
async def test_boosts_are_those_of_memory(server_url: str, strategy: str) -> None:
    corpus = [
        Document(
            id=f"{number}",
            kind="manual" if number % 7 == 0 else "note",
            text=f"The dog number {number} {'finds a truffle ' * (number % 5)}under an oak.",
            metadata={"date": f"2024-01-{1 + number % 28:02}"},
            language="en",
        )
        for number in range(60)
    ]
    asked: dict[str, Any] = {
        "boost": [field("kind", "manual", 1.5), recency(half_life="9d", now="2024-02-01")],
        "top_k": 5,
        "strategy": strategy,
    }
    with own_schema(server_url) as location:
        async with filled(location, corpus) as base, filled(":memory:", corpus) as oracle:
            ours = await base.retrieve("Which dog finds truffles?", **asked)
            theirs = await oracle.retrieve("Which dog finds truffles?", **asked)
            assert [hit.document_id for hit in ours] == [hit.document_id for hit in theirs]
            for hit, other in zip(ours, theirs, strict=True):
                assert hit.score == pytest.approx(other.score, abs=1e-5)
                assert hit.breakdown.boosts == other.breakdown.boosts
            assert {hit.document_kind for hit in ours} == {"manual"}
