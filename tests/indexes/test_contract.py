"""The embedded indexes keep the contracts."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from lagotto.indexes.base import TextSnapshot, VectorSnapshot
from lagotto.indexes.registry import TEXT_INDEXES, VECTOR_INDEXES, IndexSite
from lagotto.indexes.tantivy.index import TantivyIndex
from lagotto.indexes.vectors.index import EmbeddedVectorIndex
from lagotto.testing.indexes import (
    DIMENSION,
    FollowingTextContract,
    FollowingVectorContract,
    MemoryChangeLog,
    TextIndexContract,
    VectorIndexContract,
    embedded_site,
    text_oracle,
    vector_oracle,
)


@contextmanager
def site() -> Iterator[IndexSite]:
    with tempfile.TemporaryDirectory() as folder:
        yield embedded_site(Path(folder) / "kb.db.index")


def same_keys(log: MemoryChangeLog) -> Mapping[int, int]:
    return {key: key for key in log.chunks}


class TestTextOracle(TextIndexContract):
    """The oracle keeps the contract that it checks."""

    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        yield text_oracle(log), same_keys(log)


class TestVectorOracle(VectorIndexContract):
    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[VectorSnapshot, Mapping[int, int]]]:
        yield vector_oracle(log), same_keys(log)


class TestTantivy(FollowingTextContract, TextIndexContract):
    @contextmanager
    def index(self) -> Iterator[TantivyIndex]:
        with site() as place:
            yield TantivyIndex(place)


class TestVectors(FollowingVectorContract, VectorIndexContract):
    @contextmanager
    def index(self) -> Iterator[EmbeddedVectorIndex]:
        with site() as place:
            yield EmbeddedVectorIndex(place, model_id="m", dimension=DIMENSION)


def test_they_are_registered() -> None:
    assert TEXT_INDEXES.names() == ["fts5", "postings", "qdrant", "tantivy"]
    assert VECTOR_INDEXES.names() == ["embedded", "pgvector", "pinecone", "qdrant"]
    with site() as place:
        for name in ("fts5", "qdrant", "tantivy"):
            assert TEXT_INDEXES.get(name)(place).kind == name
        for name in ("embedded", "qdrant"):
            assert VECTOR_INDEXES.get(name)(place, model_id="m", dimension=8).kind == name
