"""What an index has on its server, for tests that look at it or damage it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lagotto.indexes.qdrant.client import QdrantServer
from lagotto.indexes.qdrant.driver import QdrantDriver, open_qdrant_vectors
from lagotto.indexes.qdrant.text import QdrantTextIndex
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import STATE_JSON, RemoteIndex, RemoteState, RemoteVectorIndex
from lagotto.testing.indexes import DIMENSION


def own_site(address: str) -> IndexSite:
    """The site of a new base."""
    return IndexSite(secrets.token_hex(16), timeout=20, address=address)


@contextmanager
def text_index(site: IndexSite) -> Iterator[QdrantTextIndex]:
    """A text index, which is deleted afterwards."""
    index = QdrantTextIndex(site)
    yield index
    index.delete()
    index.close()


@contextmanager
def vector_index(site: IndexSite) -> Iterator[RemoteVectorIndex]:
    """A vector index, which is deleted afterwards."""
    index = open_qdrant_vectors(site, model_id="m", dimension=DIMENSION)
    yield index
    index.delete()
    index.close()


def driver_of(index: RemoteIndex[Any]) -> QdrantDriver:
    assert isinstance(index.driver, QdrantDriver)
    return index.driver


def server_of(index: RemoteIndex[Any]) -> QdrantServer:
    return driver_of(index).server


def state_of(index: RemoteIndex[Any]) -> RemoteState:
    """The state as the server has it."""
    text = driver_of(index).read_state(briefly=False)
    assert text is not None
    return STATE_JSON.validate_json(text)


def collection_of(index: RemoteIndex[Any]) -> str:
    """The collection with the points of the current epoch."""
    return driver_of(index).collection(state_of(index).epoch)


def collections_on(index: RemoteIndex[Any]) -> list[str]:
    """The names of all collections of an index."""
    found = server_of(index).ask(lambda client: client.get_collections()).collections
    return [each.name for each in found if each.name.startswith(driver_of(index).name)]
