"""Vectors on a Qdrant server: it proposes, the record's vectors decide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from qdrant_client import grpc, models

from lagotto.documents import Vector
from lagotto.indexes.base import (
    NO_HITS,
    ChangeLog,
    ChunkKeys,
    FilterKeys,
    Hits,
    LogPosition,
    merge_hits,
    top_k,
)
from lagotto.indexes.qdrant.client import QdrantServer
from lagotto.indexes.qdrant.collections import CollectionState
from lagotto.indexes.qdrant.filters import Condition
from lagotto.indexes.qdrant.following import QdrantFollower, is_of
from lagotto.indexes.qdrant.points import AllowedPoints, NewPoint, Pushdown, seen
from lagotto.indexes.qdrant.raw_requests import nearest
from lagotto.indexes.registry import IndexSite

LEAST_EFFORT = 128
"""Candidates that a search in the graph keeps, or twice as many as it returns."""


class QdrantVectorIndex(QdrantFollower):
    """A VectorIndex in a collection of a Qdrant server."""

    role = "vectors"

    def __init__(self, site: IndexSite, *, model_id: str, dimension: int) -> None:
        super().__init__(site, made_with=f"{model_id}/{dimension}")
        self.model_id = model_id
        self.dimension = dimension

    def catch_up(self, changes: ChangeLog) -> QdrantVectors | None:
        state = self._caught_up(changes)
        return QdrantVectors(self, state, changes) if state.position == changes.head else None

    def latest(self, changes: ChangeLog) -> QdrantVectors | None:
        state = self._state
        if state is None or not is_of(changes, state.position):
            return None
        return QdrantVectors(self, state, changes)

    def _create(self, changes: ChangeLog) -> CollectionState:
        # The record's vectors have unit length, so the dot product is the cosine.
        compressed = self.server.address.quantize != "none"
        return self.collections.create(
            vectors=models.VectorParams(
                size=self.dimension, distance=models.Distance.DOT, on_disk=compressed or None
            )
        )

    def _points(
        self, state: CollectionState, changes: ChangeLog, start: int, stop: int
    ) -> Iterator[NewPoint]:
        keys, vectors = changes.added_vectors(
            start, stop, model_id=self.model_id, dimension=self.dimension
        )
        for key, vector in zip(keys.tolist(), vectors, strict=True):
            yield NewPoint(key, grpc.Vectors(vector=grpc.Vector(dense=_dense(vector))))

    def _keys(self, changes: ChangeLog, start: int, stop: int) -> ChunkKeys:
        keys, _ = changes.added_vectors(
            start, stop, model_id=self.model_id, dimension=self.dimension
        )
        return keys


class QdrantVectors:
    """A VectorSnapshot of a collection at one position of the change log."""

    immediate = False

    def __init__(
        self, index: QdrantVectorIndex, state: CollectionState, changes: ChangeLog
    ) -> None:
        self._server: QdrantServer = index.server
        self._model_id, self._dimension = index.model_id, index.dimension
        self._state = state
        self._changes = changes
        self._pushdown = Pushdown(state, changes)

    @property
    def position(self) -> LogPosition:
        return self._state.position

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        points = await self._pushdown.of(allowed)
        wanted = min(k, points.most)
        if wanted < 1:
            return NO_HITS
        found = await self._proposed(query, k, points)
        if len(found) < wanted and points.keys is not None and not points.few:
            found = await self._among_all(query, k, points)
        return found

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        scores = np.zeros(len(keys), np.float32)
        found = await self._exact(query, np.unique(keys))
        known = dict(zip(found.keys.tolist(), found.scores.tolist(), strict=True))
        for index, key in enumerate(keys.tolist()):
            scores[index] = known.get(key, 0.0)
        return scores

    async def _proposed(self, query: Vector, k: int, points: AllowedPoints) -> Hits:
        """The nearest of what the server proposes: deeper, then exactly, while there are too few.

        Once that would take more proposals than there are allowed chunks, those are looked up.
        """
        depth, exact = 2 * k + 32, points.few
        while True:
            keys = await self._ask(query, points, points.condition, limit=depth, exact=exact)
            found = await self._exact(query, points.kept(keys))
            deeper = len(keys) == depth
            if len(found) >= min(k, points.most) or (exact and not deeper):
                break
            if deeper and points.keys is not None and 4 * depth > len(points.keys):
                break
            depth, exact = (4 * depth, exact) if deeper else (depth, True)
        return top_k(found.keys, found.scores, k)

    async def _among_all(self, query: Vector, k: int, points: AllowedPoints) -> Hits:
        """The nearest of all chunks that are allowed, which are searched exactly."""
        parts = []
        for condition in points.by_keys():
            keys = await self._ask(query, points, condition, limit=2 * k + 32, exact=True)
            parts.append(await self._exact(query, points.kept(keys)))
        return merge_hits(parts, k=k)

    async def _ask(
        self,
        query: Vector,
        points: AllowedPoints,
        condition: Condition | None,
        *,
        limit: int,
        exact: bool,
    ) -> ChunkKeys:
        """The keys of the points that the server takes for the nearest, ascending."""
        found = await nearest(
            self._server,
            self._state.collection,
            grpc.VectorInput(dense=_dense(query)),
            where=seen(self._state, condition),
            params=grpc.SearchParams(exact=exact, hnsw_ef=max(LEAST_EFFORT, 2 * limit)),
            limit=limit,
            shards=points.shards,
        )
        return np.sort(found.keys)

    async def _exact(self, query: Vector, keys: ChunkKeys) -> Hits:
        """Those of ascending keys that the record has at this position, with their cosines."""
        keys = keys[keys <= self._state.position.seq]
        if not len(keys):
            return NO_HITS
        having, vectors = await self._changes.run(
            lambda: self._changes.vectors_of(
                keys, model_id=self._model_id, dimension=self._dimension
            )
        )
        return Hits(having, np.vecdot(vectors, query).astype(np.float32))


def _dense(vector: Vector) -> grpc.DenseVector:
    return grpc.DenseVector(data=vector.tolist())
