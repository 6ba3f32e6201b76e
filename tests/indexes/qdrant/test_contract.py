"""The indexes on Qdrant keep the contracts."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import pytest
from qdrant_client import models

from lagotto.indexes.base import TextSnapshot, VectorSnapshot
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.qdrant.vectors import QdrantVectorIndex
from lagotto.indexes.registry import IndexSite
from lagotto.testing.indexes import (
    DIMENSION,
    FollowingTextContract,
    FollowingVectorContract,
    MemoryChangeLog,
    TextIndexContract,
    VectorIndexContract,
    sample_log,
)


def same_keys(log: MemoryChangeLog) -> Mapping[int, int]:
    return {key: key for key in log.chunks}


class TestVectors(VectorIndexContract, FollowingVectorContract):
    @pytest.fixture(autouse=True)
    def _address(self, qdrant_address: str) -> None:
        self.address = qdrant_address

    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[VectorSnapshot, Mapping[int, int]]]:
        with self.index() as index:
            found = index.catch_up(log)
            assert found is not None
            yield found, same_keys(log)

    @contextmanager
    def index(self) -> Iterator[QdrantVectorIndex]:
        site = IndexSite(secrets.token_hex(16), timeout=20, address=self.address)
        index = QdrantVectorIndex(site, model_id="m", dimension=DIMENSION)
        yield index
        index.delete()
        index.close()


class TestQuantizedVectors(TestVectors):
    """Vectors of bytes propose, those of the record decide."""

    @pytest.fixture(autouse=True)
    def _address(self, qdrant_address: str) -> None:
        joined = "&" if "?" in qdrant_address else "?"
        self.address = f"{qdrant_address}{joined}quantize=int8"

    def test_the_server_has_vectors_of_bytes(self) -> None:
        with self.index() as index:
            index.catch_up(sample_log())
            state = index.collections.current()
            assert state is not None
            made = index.server.ask(lambda client: client.get_collection(state.collection))
            config = made.config.quantization_config
            assert isinstance(config, models.ScalarQuantization)
            assert config.scalar.type == models.ScalarType.INT8


class TestText(TextIndexContract, FollowingTextContract):
    @pytest.fixture(autouse=True)
    def _address(self, qdrant_address: str) -> None:
        self.address = qdrant_address

    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        with self.index() as index:
            found = index.catch_up(log)
            assert found is not None
            yield found, same_keys(log)

    @contextmanager
    def index(self) -> Iterator[QdrantTextIndex]:
        site = IndexSite(secrets.token_hex(16), timeout=20, address=self.address)
        index = QdrantTextIndex(site)
        yield index
        index.delete()
        index.close()
