"""A site of its own for each index, and the indexes there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import RemoteVectorIndex
from tests.indexes.qdrant.inside import own_site, text_index, vector_index


@pytest.fixture
def site(qdrant_address: str) -> IndexSite:
    """The site of a new base."""
    return own_site(qdrant_address)


@pytest.fixture
def text(site: IndexSite) -> Iterator[QdrantTextIndex]:
    with text_index(site) as index:
        yield index


@pytest.fixture
def vectors(site: IndexSite) -> Iterator[RemoteVectorIndex]:
    with vector_index(site) as index:
        yield index
