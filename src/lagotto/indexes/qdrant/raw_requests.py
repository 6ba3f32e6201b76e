"""The requests with many points, as gRPC messages.

The client would make a model of every point, a quarter of the time of a search by vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from qdrant_client import QdrantClient, grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from lagotto._internal.concurrency import in_thread
from lagotto.indexes.base import Hits
from lagotto.indexes.qdrant.client import QdrantServer
from lagotto.request_context import time_left


async def nearest(
    server: QdrantServer,
    collection: str,
    query: grpc.VectorInput,
    *,
    limit: int,
    where: models.Filter | None,
    shards: list[int | str] | None,
    using: str | None = None,
    params: grpc.SearchParams | None = None,
) -> Hits:
    """The `limit` points of a collection with the greatest products, under a condition.

    Scores are dot products, as the server has them.
    """
    request = grpc.QueryPoints(
        collection_name=collection,
        query=grpc.Query(nearest=query),
        using=using,
        filter=None if where is None else RestToGrpc.convert_filter(where),
        params=params,
        limit=limit,
        with_payload=grpc.WithPayloadSelector(enable=False),
        shard_key_selector=RestToGrpc.convert_shard_key_selector(shards) if shards else None,
    )

    def ask(client: QdrantClient) -> grpc.QueryResponse:
        answer: grpc.QueryResponse = client.grpc_points.Query(request, timeout=server.timeout)
        return answer

    found = (await in_thread(server.ask_briefly, ask, time_left())).result
    return Hits(
        np.fromiter((point.id.num for point in found), np.int64, len(found)),
        np.fromiter((point.score for point in found), np.float32, len(found)),
    )


def upsert(
    server: QdrantServer,
    collection: str,
    points: Sequence[grpc.PointStruct],
    *,
    ordering: models.WriteOrdering,
    shards: str | None,
) -> None:
    """Store points; they are there when this returns."""
    request = grpc.UpsertPoints(
        collection_name=collection,
        points=points,
        wait=True,
        ordering=RestToGrpc.convert_write_ordering(ordering),
        shard_key_selector=RestToGrpc.convert_shard_key_selector(shards) if shards else None,
    )
    server.ask(lambda client: client.grpc_points.Upsert(request, timeout=server.timeout))
