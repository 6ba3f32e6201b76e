"""Points: what is stored of a chunk, and which points a snapshot sees.

A server has no snapshots. A point has its chunk's key, a sequence number, and once it is removed
the number of a change not before its removal and not after the range in which that was read. So at
a position those chunks are visible whose key is not above it, and that are not removed up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from lagotto.indexes.base import ChunkFields
from lagotto.indexes.qdrant.collections import KEY, REMOVED
from lagotto.indexes.qdrant.filters import FIELDS, Condition, Payload, field_payload
from lagotto.indexes.qdrant.state import CollectionState


@dataclass(frozen=True, slots=True)
class NewPoint:
    """A point to store: a chunk's vector, what else its index needs, and how many terms it has."""

    key: int
    vectors: grpc.Vectors
    payload: dict[str, object] = field(default_factory=dict)
    length: int = 0

    def stored(self, fields: Payload) -> grpc.PointStruct:
        """As it is sent to the server, without the client's models, which take time to make."""
        payload = {KEY: self.key, FIELDS: fields, **self.payload}
        return grpc.PointStruct(
            id=grpc.PointId(num=self.key),
            vectors=self.vectors,
            payload=RestToGrpc.convert_payload(payload),
        )


def stored_fields(chunk: ChunkFields, known: frozenset[str]) -> Payload:
    """What is stored of a chunk's fields, where `known` are those of the collection."""
    found = field_payload({"collection": (chunk.collection,), **chunk.values})
    return {name: some for name, some in found.items() if name in known}


def removed_up_to(number: int) -> Condition:
    """Points that are removed up to a position."""
    return models.FieldCondition(key=REMOVED, range=models.Range(lte=float(number)))


def by_keys(keys: Sequence[int]) -> Condition:
    """Points with one of the keys."""
    return models.HasIdCondition(has_id=list(keys))


def seen(state: CollectionState, *conditions: Condition | None) -> models.Filter | None:
    """What a search asks for; it may give points after the position, which the caller drops."""
    must = [condition for condition in conditions if condition is not None]
    hidden = [removed_up_to(state.position.number)] if state.removals else []
    if not must and not hidden:
        return None
    return models.Filter(must=must, must_not=hidden)


def visible(state: CollectionState, *conditions: Condition | None) -> models.Filter:
    """Exactly the points that are visible, for counting them."""
    upto = models.Range(gte=1.0, lte=float(state.position.number))
    found = seen(state, models.FieldCondition(key=KEY, range=upto), *conditions)
    assert found is not None
    return found
