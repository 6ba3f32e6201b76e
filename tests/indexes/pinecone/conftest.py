"""The vendor's SDK, connected to a PineconeServer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lagotto.testing.indexes import DIMENSION
from tests.servers.pinecone import PineconeServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PineconeServer]:
    pytest.importorskip("pinecone", reason="pip install 'lagotto[pinecone]'")
    with PineconeServer(dimension=DIMENSION) as made:
        monkeypatch.setenv("PINECONE_API_KEY", "secret-key")
        monkeypatch.setenv("PINECONE_CONTROLLER_HOST", made.url)
        yield made
