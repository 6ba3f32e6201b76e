"""The index in Pinecone keeps the contracts, also while the service lags and throttles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import pytest

from lagotto.indexes.base import VectorSnapshot
from lagotto.indexes.pinecone import PineconeIndex, open_pinecone
from lagotto.indexes.registry import IndexSite
from lagotto.testing.indexes import (
    DIMENSION,
    FollowingVectorContract,
    MemoryChangeLog,
    VectorIndexContract,
)
from tests.servers.pinecone import PineconeServer


class TestPinecone(VectorIndexContract, FollowingVectorContract):
    @pytest.fixture(autouse=True)
    def connect(self, server: PineconeServer) -> None:
        self.server = server

    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[VectorSnapshot, Mapping[int, int]]]:
        with self.index() as index:
            found = index.catch_up(log)
            assert found is not None
            yield found, {key: key for key in log.chunks}

    @contextmanager
    def index(self) -> Iterator[PineconeIndex]:
        site = IndexSite("a" * 32, timeout=5, address=f"pinecone:{self.server.name}")
        made = open_pinecone(site, model_id="m", dimension=DIMENSION)
        yield made
        made.close()


class TestPineconeUnderLoad(TestPinecone):
    """The same; writes are indexed one by one, and every other request is refused at first."""

    @pytest.fixture(autouse=True)
    def strain(self, server: PineconeServer) -> None:
        server.lags = True
        server.throttle(2)


class TestFewAreScoredByTheService(TestPinecone):
    """The same; however few chunks are allowed, the service proposes."""

    @pytest.fixture(autouse=True)
    def ask(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lagotto.indexes.pinecone.FEW", 0)
