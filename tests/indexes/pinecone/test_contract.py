"""The index in Pinecone keeps the contracts, also while the service lags and throttles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lagotto.indexes.pinecone import PineconeDriver, open_pinecone
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteVectorIndex
from lagotto.testing.indexes import DIMENSION, FollowingVectorContract, VectorIndexContract
from tests.indexes.remote_contract import Clock, RemoteVectorContract
from tests.servers.pinecone import PineconeServer


class TestPinecone(FollowingVectorContract, VectorIndexContract):
    @pytest.fixture(autouse=True)
    def connect(self, server: PineconeServer) -> None:
        self.server = server

    @contextmanager
    def index(self) -> Iterator[RemoteVectorIndex]:
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
        monkeypatch.setattr("lagotto.indexes.remote.SCORED_FROM_RECORD", 0)


class TestRemoteIndex(RemoteVectorContract):
    @pytest.fixture(autouse=True)
    def connect(self, server: PineconeServer) -> None:
        self.server = server

    def open(self, name: str, clock: Clock) -> RemoteVectorIndex:
        driver = PineconeDriver(self.server.name, name=name, dimension=DIMENSION, timeout=5)
        return RemoteVectorIndex(driver, model_id="m", dimension=DIMENSION, timeout=5, clock=clock)

    def epochs(self, index: RemoteVectorIndex) -> set[str]:
        return {namespace.rsplit("-", 2)[1] for namespace in self._namespaces(index)}

    def stored(self, index: RemoteVectorIndex) -> set[int]:
        spaces = [self.server.namespaces[name] for name in self._namespaces(index)]
        return {int(id) for space in spaces for id in space.written}

    def _namespaces(self, index: RemoteVectorIndex) -> list[str]:
        assert isinstance(index.driver, PineconeDriver)
        return index.driver._namespaces("")
