"""A site of its own for each index, and the indexes there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lagotto.indexes.qdrant import open_qdrant_text, open_qdrant_vectors
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteVectorIndex
from lagotto.testing.indexes import DIMENSION
from tests.indexes.qdrant.inside import own_site


@pytest.fixture
def site(qdrant_address: str) -> IndexSite:
    """The site of a new base."""
    return own_site(qdrant_address)


@pytest.fixture
def text(site: IndexSite) -> Iterator[QdrantTextIndex]:
    index = open_qdrant_text(site)
    yield index
    index.close()


@pytest.fixture
def vectors(site: IndexSite) -> Iterator[RemoteVectorIndex]:
    index = open_qdrant_vectors(site, model_id="m", dimension=DIMENSION)
    yield index
    index.close()
