"""Points: what is stored of a chunk, which ones a snapshot sees, and which a filter allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from lagotto.indexes.base import ChangeLog, ChunkFields, ChunkKeys, FilterKeys, are_among
from lagotto.indexes.qdrant.collections import KEY, REMOVED, CollectionState
from lagotto.indexes.qdrant.filters import (
    FIELDS,
    Condition,
    Payload,
    collections_of,
    field_payload,
    shard_key,
    superset_condition,
)


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

    def equals(self, record: models.Record, fields: Payload) -> bool:
        """Whether a server has stored this."""
        expected = {KEY: self.key, FIELDS: fields, **self.payload}
        found = {name: value for name, value in (record.payload or {}).items() if name != REMOVED}
        ours, theirs = _numbers(self.vectors), _stored_numbers(record.vector)
        if found != expected or ours.keys() != theirs.keys():
            return False
        return np.allclose(
            [ours[index] for index in ours], [theirs[index] for index in ours], rtol=ROUNDED
        )


ROUNDED = 1e-5
"""A server has 32-bit floats."""


def _numbers(vectors: grpc.Vectors) -> dict[int, float]:
    """The numbers of a point's only vector by their dimensions."""
    if vectors.HasField("vector"):
        return dict(enumerate(vectors.vector.dense.data))
    (one,) = vectors.vectors.vectors.values()
    return dict(zip(one.sparse.indices, one.sparse.values, strict=True))


def _stored_numbers(vector: models.VectorStructOutput | None) -> dict[int, float]:
    if isinstance(vector, dict):
        (sparse,) = vector.values()
        assert isinstance(sparse, models.SparseVector)
        return dict(zip(sparse.indices, sparse.values, strict=True))
    return {index: float(str(number)) for index, number in enumerate(vector or ())}


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
    hidden = [removed_up_to(state.position.seq)] if state.removals else []
    if not must and not hidden:
        return None
    return models.Filter(must=must, must_not=hidden)


def visible(state: CollectionState, *conditions: Condition | None) -> models.Filter:
    """Exactly the points that are visible, for counting them."""
    upto = models.Range(gte=1.0, lte=float(state.position.seq))
    found = seen(state, models.FieldCondition(key=KEY, range=upto), *conditions)
    assert found is not None
    return found


FEW_KEYS = 1_000
"""Up to here allowed chunks are told by their keys and searched exactly."""

MOST_KEYS = 10_000
"""Keys in one request."""


@dataclass(frozen=True, slots=True)
class AllowedPoints:
    """The chunks that may be found, with a condition that holds for all of them.

    `keys` are None without a filter. If `few`, the condition is exact. `shards` are the keys of the
    shards that have them all, None for any.
    """

    most: int
    keys: ChunkKeys | None = None
    condition: Condition | None = None
    few: bool = False
    shards: list[int | str] | None = None

    def kept(self, keys: ChunkKeys) -> ChunkKeys:
        """Those of `keys` that may be found."""
        return keys if self.keys is None else keys[are_among(keys, self.keys)]

    def by_keys(self) -> Iterator[Condition]:
        """Exact conditions that together hold for all of them."""
        keys = self.keys if self.keys is not None else np.empty(0, np.int64)
        for start in range(0, len(keys), MOST_KEYS):
            yield by_keys(keys[start : start + MOST_KEYS].tolist())


class Pushdown:
    """Turns what a filter allows into conditions, for one snapshot."""

    def __init__(self, state: CollectionState, changes: ChangeLog) -> None:
        self._state = state
        self._changes = changes
        self._updated: ChunkKeys | None = None

    async def of(self, allowed: FilterKeys | None) -> AllowedPoints:
        """The part of `allowed` that the snapshot has."""
        if allowed is None:
            return AllowedPoints(most=self._state.chunks)
        keys = allowed.keys[allowed.keys <= self._state.position.seq]
        if len(keys) <= FEW_KEYS:
            exact = by_keys(keys.tolist())
            return AllowedPoints(len(keys), keys, exact, few=True, shards=self._shards(allowed))
        condition = superset_condition(allowed.where, self._state.fields)
        if condition is not None:
            condition = self._or_newer(condition, keys, await self._updated_since())
        return AllowedPoints(len(keys), keys, condition, shards=self._shards(allowed))

    def _shards(self, allowed: FilterKeys) -> list[int | str] | None:
        """The shards of the collections that a filter asks for, if they have their own."""
        wanted = collections_of(allowed.where)
        if wanted is None:
            return None
        return [*sorted(self._state.shard_keys & set(map(shard_key, wanted)))] or None

    def _or_newer(
        self, condition: Condition, keys: ChunkKeys, updated: ChunkKeys
    ) -> Condition | None:
        """The condition, or a chunk whose fields are newer in the record than in the index."""
        newer = updated[are_among(updated, keys)]
        if len(newer) > FEW_KEYS:
            return None
        if not len(newer):
            return condition
        return models.Filter(should=[condition, by_keys(newer.tolist())])

    async def _updated_since(self) -> ChunkKeys:
        if self._updated is None:
            since, changes = self._state.position.seq, self._changes
            head = changes.head.seq
            self._updated = (
                await changes.run(lambda: changes.updated(since, head))
                if since < head
                else np.empty(0, np.int64)
            )
        return self._updated
