"""The indexes on Qdrant keep the contracts."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
from qdrant_client import models

from lagotto.indexes.qdrant.driver import QdrantDriver
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteVectorIndex
from lagotto.testing.indexes import (
    DIMENSION,
    FollowingTextContract,
    FollowingVectorContract,
    TextIndexContract,
    VectorIndexContract,
    sample_log,
)
from tests.indexes.qdrant.inside import (
    collection_of,
    collections_on,
    own_site,
    server_of,
    text_index,
    vector_index,
)
from tests.indexes.remote_contract import Clock, RemoteVectorContract


class TestVectors(FollowingVectorContract, VectorIndexContract):
    @pytest.fixture(autouse=True)
    def _address(self, qdrant_address: str) -> None:
        self.address = qdrant_address

    def index(self) -> AbstractContextManager[RemoteVectorIndex]:
        return vector_index(own_site(self.address))


class TestQuantizedVectors(TestVectors):
    """Vectors of bytes propose, those of the record decide."""

    @pytest.fixture(autouse=True)
    def _address(self, qdrant_address: str) -> None:
        joined = "&" if "?" in qdrant_address else "?"
        self.address = f"{qdrant_address}{joined}quantize=int8"

    def test_the_server_has_vectors_of_bytes(self) -> None:
        with self.index() as index:
            index.catch_up(sample_log())
            made = server_of(index).call("get_collection", collection_of(index))
            config = made.config.quantization_config
            assert isinstance(config, models.ScalarQuantization)
            assert config.scalar.type == models.ScalarType.INT8


class TestText(FollowingTextContract, TextIndexContract):
    @pytest.fixture(autouse=True)
    def _address(self, qdrant_address: str) -> None:
        self.address = qdrant_address

    def index(self) -> AbstractContextManager[QdrantTextIndex]:
        return text_index(own_site(self.address))


class TestRemoteIndex(RemoteVectorContract):
    @pytest.fixture(autouse=True)
    def _site(self, site: IndexSite) -> None:
        self.site = site

    def open(self, name: str, clock: Clock) -> RemoteVectorIndex:
        driver = QdrantDriver(self.site, f"{name}-{self.site.base_id[:8]}", dimension=DIMENSION)
        return RemoteVectorIndex(driver, model_id="m", dimension=DIMENSION, timeout=20, clock=clock)

    def release(self, index: RemoteVectorIndex) -> None:
        index.delete()
        index.close()

    def epochs(self, index: RemoteVectorIndex) -> set[str]:
        return {name.rpartition("-")[2] for name in collections_on(index)}

    def stored(self, index: RemoteVectorIndex) -> set[int]:
        points, _ = server_of(index).call("scroll", collection_of(index), limit=999)
        return {int(point.id) for point in points}
