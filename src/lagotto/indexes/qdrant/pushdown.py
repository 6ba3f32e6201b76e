"""The chunks that a filter allows, as far as a Qdrant server can be told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from qdrant_client import models

from lagotto.indexes.base import ChangeLog, ChunkKeys, FilterKeys
from lagotto.indexes.filter_keys import are_among
from lagotto.indexes.qdrant.filters import Condition, collections_of, shard_key, superset_condition
from lagotto.indexes.qdrant.points import by_keys
from lagotto.indexes.qdrant.state import CollectionState

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
        keys = allowed.keys[allowed.keys <= self._state.position.number]
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
            since, changes = self._state.position.number, self._changes
            head = changes.head.number
            self._updated = (
                await changes.run(lambda: changes.updated(since, head))
                if since < head
                else np.empty(0, np.int64)
            )
        return self._updated
