"""What an index has on its server, for tests that look at it or damage it."""

from __future__ import annotations

from typing import Any

from lagotto.indexes.qdrant.client import QdrantServer
from lagotto.indexes.qdrant.driver import QdrantDriver
from lagotto.indexes.remote import RemoteIndex, RemoteState


def driver_of(index: RemoteIndex[Any]) -> QdrantDriver:
    assert isinstance(index.driver, QdrantDriver)
    return index.driver


def server_of(index: RemoteIndex[Any]) -> QdrantServer:
    return driver_of(index).server


def state_of(index: RemoteIndex[Any]) -> RemoteState:
    """The state as the server has it."""
    text = driver_of(index).read_state(briefly=False)
    assert text is not None
    return RemoteState.from_json(text)


def collection_of(index: RemoteIndex[Any]) -> str:
    """The collection with the points of the current epoch."""
    return driver_of(index).collection(state_of(index).epoch)


def collections_on(index: RemoteIndex[Any]) -> list[str]:
    """The names of all collections of an index."""
    found = server_of(index).ask(lambda client: client.get_collections()).collections
    return [each.name for each in found if each.name.startswith(driver_of(index).name)]
