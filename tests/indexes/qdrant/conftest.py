"""A site of its own for each index."""

from __future__ import annotations

import secrets

import pytest

from lagotto.indexes.registry import IndexSite


@pytest.fixture
def site(qdrant_address: str) -> IndexSite:
    """The site of a new base."""
    return IndexSite(secrets.token_hex(16), timeout=20, address=qdrant_address)
