"""Points on a Qdrant server or cluster: an epoch is a collection of it.

Points of removed chunks are marked with the change that removed them, so that a search at an
earlier state still sees them, and one at a later state counts without them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import methodcaller
from typing import Any
from uuid import UUID

import numpy as np
from qdrant_client import QdrantClient, grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from lagotto._internal.concurrency import checkpoint, give_way, in_thread
from lagotto.documents import Vector, digest
from lagotto.indexes import remote
from lagotto.indexes.base import ChangeLog, ChunkKeys, Hits, batches, sampled_ranges
from lagotto.indexes.pushdown import AnyOf, Condition, Joined, Payload
from lagotto.indexes.qdrant.client import ExistsError, QdrantServer, parse_address
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.remote import Point, RemoteIndex, RemoteState, RemoteVectorIndex, Writes
from lagotto.request_context import time_left

LAYOUT = "2"  # of points and state; other layouts have other names
POINTS_PER_WRITE = 250  # points or ids in a request that writes
MOST_KEYS = 10_000  # keys in a condition
CHUNKS_COMPARED = 10_000
"""Chunks whose keys a check compares with those of the record at once, and the most whose points
it compares."""

LEAST_EFFORT = 128  # candidates that a search in the graph keeps, or twice as many as it returns
FLOAT_TOLERANCE = 1e-5  # a server has 32-bit floats
KEY, REMOVED, FIELDS, STATE = "key", "removed", "f", "state"
"""Payload names: a chunk's key, the change that removed it, its fields; the state of an index."""

TENANT = "k_collection"  # the field by which a server keeps points together
SPARSE = "text"  # the name of a sparse vector
TERMS = "terms"  # the payload name of the terms that a chunk has, each once
ALL_SHARDS = "state"
"""A shard key without points: nothing can be indexed in a collection without any."""

ORDERING = models.WriteOrdering.MEDIUM


def open_qdrant_vectors(site: IndexSite, *, model_id: str, dimension: int) -> RemoteVectorIndex:
    """The vector index of a base on a Qdrant server; asks it nothing yet."""
    name = site.name("vectors", f"{model_id}/{dimension}/qdrant-{LAYOUT}")
    driver = QdrantDriver(site, name, dimension=dimension)
    return RemoteVectorIndex(driver, model_id=model_id, dimension=dimension, timeout=site.timeout)


class QdrantDriver(remote.RemoteDriver):
    """The points of an index, with dense vectors of a dimension or sparse ones, and its state."""

    kind = "qdrant"
    deepest = 2**31

    def __init__(self, site: IndexSite, name: str, *, dimension: int | None) -> None:
        self.server = QdrantServer(parse_address(site.address), timeout=site.timeout)
        self.shown = self.server.address.shown
        self.name = self.server.address.name(name)
        self._states = self.server.address.name("states")
        self._id = str(UUID(digest(self.name)))
        self._dimension = dimension
        self._shard_keys: dict[str, frozenset[str]] = {}

    def collection(self, epoch: str) -> str:
        """The collection on the server with the points of an epoch."""
        return f"{self.name}-{epoch}"

    def read_state(self, *, briefly: bool) -> str | None:
        ask = self.server.ask_briefly if briefly else self.server.ask
        try:
            records = ask(lambda client: client.retrieve(self._states, [self._id]))
        except remote.MissingEpochError:
            return None
        return str((records[0].payload or {})[STATE]) if records else None

    def write_state(self, text: str) -> None:
        point = models.PointStruct(id=self._id, vector={}, payload={STATE: text})

        def put() -> None:
            self.server.call("upsert", self._states, [point], wait=True, ordering=ORDERING)

        try:
            put()
        except remote.MissingEpochError:
            self._create(self._states)
            put()

    def create(self, epoch: str) -> None:
        name, address = self.collection(epoch), self.server.address
        by_collection = address.sharding == "collection"
        space: dict[str, Any] = {"sparse_vectors_config": {SPARSE: models.SparseVectorParams()}}
        if self._dimension is not None:
            # The record's vectors have unit length, so the dot product is the cosine.
            vectors = models.VectorParams(
                size=self._dimension,
                distance=models.Distance.DOT,
                on_disk=address.quantize != "none" or None,
            )
            quantized = _INT8 if address.quantize == "int8" else None
            space = {"vectors_config": vectors, "quantization_config": quantized}
        self._create(
            name,
            shard_number=address.shards,
            sharding_method=models.ShardingMethod.CUSTOM if by_collection else None,
            **space,
        )
        if by_collection:
            self._make("create_shard_key", name, ALL_SHARDS)
        for number in (KEY, REMOVED):
            self._index(name, number, models.PayloadSchemaType.INTEGER)
        if self._dimension is None:
            self._index(name, TERMS, models.PayloadSchemaType.KEYWORD)

    def _create(self, name: str, **options: Any) -> None:
        address = self.server.address
        self._make(
            "create_collection",
            name,
            replication_factor=address.replicas,
            write_consistency_factor=address.write_consistency,
            **{"vectors_config": {}, **options},
        )

    def _make(self, method: str, *arguments: object, **options: object) -> None:
        """Make something that an attempt may have made which was not answered in time."""
        with suppress(ExistsError):
            self.server.call(method, *arguments, **options)

    def _index(self, name: str, field: str, schema: object) -> None:
        """Index a payload field before the next write, so that conditions on it are quick."""
        self.server.call("create_payload_index", name, field, schema, wait=False)

    def index_fields(self, epoch: str, names: Sequence[str]) -> None:
        for name in names:
            self._index(self.collection(epoch), f"{FIELDS}.{name}", _schema(name))

    def upsert(self, epoch: str, points: Sequence[Point]) -> Writes:
        placed: dict[str | None, list[Point]] = defaultdict(list)
        known = self._shards(epoch, {point.collection for point in points}) if points else None
        for point in points:
            placed[shard_key(point.collection) if known else None].append(point)
        for shard, some in placed.items():
            if known and shard is not None and shard not in known:
                self._make("create_shard_key", self.collection(epoch), shard)
                self._shard_keys[epoch] |= {shard}
            for batch in batches(some, POINTS_PER_WRITE):
                self._upsert(epoch, shard, batch)
        return {}

    def _upsert(self, epoch: str, shard: str | None, points: Sequence[Point]) -> None:
        """Store points as gRPC messages: the client's models take time to make."""
        checkpoint()
        give_way()
        request = grpc.UpsertPoints(
            collection_name=self.collection(epoch),
            points=[_stored(point) for point in points],
            wait=True,
            ordering=RestToGrpc.convert_write_ordering(ORDERING),
            shard_key_selector=_selector([shard] if shard else None),
        )
        self.server.ask(
            lambda client: client.grpc_points.Upsert(request, timeout=self.server.timeout)
        )

    def update_fields(
        self, epoch: str, fields: Mapping[int, Payload], points: Callable[[], Sequence[Point]]
    ) -> Writes:
        """Replace the fields of points; the chunks of a document mostly have the same."""
        alike: dict[str, list[int]] = defaultdict(list)
        for key, some in fields.items():
            alike[json.dumps(some)].append(key)
        shards = self._all_shards(epoch)
        operations = [
            models.SetPayloadOperation(
                set_payload=models.SetPayload(
                    payload={FIELDS: json.loads(some)},
                    filter=models.Filter(must=[by_keys(keys)]),
                    shard_key=shards,
                )
            )
            for some, keys in alike.items()
        ]
        for batch in batches(operations, POINTS_PER_WRITE):
            self._write(epoch, "batch_update_points", batch)
        return {}

    def mark_removed(self, state: RemoteState, keys: ChunkKeys, seq: int) -> tuple[int, int]:
        shards, name = self._all_shards(state.epoch), self.collection(state.epoch)
        state = replace(state, removals=True)
        chunks = length = 0
        for some in batches(keys.tolist(), POINTS_PER_WRITE):
            where, read = visible(state, by_keys(some)), ["length"]
            points, _ = self.server.call("scroll", name, where, limit=len(some), with_payload=read)
            chunks += len(points)
            length += sum(int((point.payload or {}).get("length", 0)) for point in points)
            # the least number stays, whichever updater marks a point first
            marked = models.Filter(must=[by_keys(some)], must_not=[_removed_up_to(seq)])
            self._write(
                state.epoch, "set_payload", {REMOVED: seq}, points=marked, shard_key_selector=shards
            )
        return chunks, length

    def delete_points(self, state: RemoteState, keys: ChunkKeys) -> None:
        shards = self._all_shards(state.epoch)
        for some in batches(keys.tolist(), MOST_KEYS):
            ids = models.PointIdsList(points=some)
            self._write(state.epoch, "delete", ids, shard_key_selector=shards)

    def _write(self, epoch: str, method: str, *changes: object, **options: object) -> None:
        """Call a method of the client that changes points, and wait until they are changed."""
        checkpoint()
        options |= {"wait": True, "ordering": ORDERING}
        self.server.call(method, self.collection(epoch), *changes, **options)

    async def query(
        self,
        state: RemoteState,
        vector: Vector,
        *,
        limit: int,
        where: Condition | None,
        collections: frozenset[str] | None,
    ) -> remote.Proposals:
        hits = await self.nearest(
            state,
            grpc.VectorInput(dense=grpc.DenseVector(data=vector.tolist())),
            where=seen(state, None if where is None else condition(where)),
            collections=collections,
            limit=limit,
        )
        return remote.Proposals(hits.keys, more=len(hits) == limit, reached={})

    async def nearest(
        self,
        state: RemoteState,
        query: grpc.VectorInput,
        *,
        limit: int,
        where: models.Filter | None,
        collections: frozenset[str] | None,
    ) -> Hits:
        """The `limit` points with the greatest products, as the server has them.

        The client would make a model of every point, a quarter of the time of a search by vectors.
        """
        left, sparse = time_left(), self._dimension is None
        effort = None if sparse else grpc.SearchParams(hnsw_ef=max(LEAST_EFFORT, 2 * limit))

        def ask() -> Hits:
            shards = None
            if collections is not None:
                known = self._shards(state.epoch, collections)
                shards = sorted(known & set(map(shard_key, collections)))
            request = grpc.QueryPoints(
                collection_name=self.collection(state.epoch),
                query=grpc.Query(nearest=query),
                using=SPARSE if sparse else None,
                filter=None if where is None else RestToGrpc.convert_filter(where),
                params=effort,
                limit=limit,
                with_payload=grpc.WithPayloadSelector(enable=False),
                shard_key_selector=_selector(shards),
            )
            points = self.server.ask_briefly(
                lambda client: client.grpc_points.Query(request, timeout=self.server.timeout), left
            ).result
            return Hits(
                np.fromiter((point.id.num for point in points), np.int64, len(points)),
                np.fromiter((point.score for point in points), np.float32, len(points)),
            )

        return await in_thread(ask)

    def is_intact(self, state: RemoteState, *, overdue: bool) -> bool:
        try:
            return self._count(state) == state.chunks
        except remote.MissingEpochError:
            return False

    def _count(self, state: RemoteState) -> int:
        answer = self.server.call("count", self.collection(state.epoch), visible(state))
        return int(answer.count)

    def problem(self, state: RemoteState, changes: ChangeLog, index: RemoteIndex[Any]) -> str:
        count = self._count(state)
        if count != state.chunks:
            return f"has {count} chunks instead of {state.chunks}"
        if state.last.position != changes.head:
            return ""
        lacking, extra = self._differences(state, changes, index)
        if lacking or extra:
            return f"lacks {lacking} chunks and has {extra} that are not in the base"
        compared, at_once = CHUNKS_COMPARED, POINTS_PER_WRITE
        ranges = sampled_ranges(changes, state.chunks, most=compared, at_once=at_once)
        expected = (index.expected_points(state, changes, *each) for each in ranges)
        altered = sum(self._altered(state, points) for points in expected)
        return f"has {altered} chunks that are not what the base has" if altered else ""

    def _differences(
        self, state: RemoteState, changes: ChangeLog, index: RemoteIndex[Any]
    ) -> tuple[int, int]:
        """How many chunks of the record are not visible, and how many others are."""
        lacking = extra = 0
        for start, stop in changes.ranges(since=0, at_once=CHUNKS_COMPARED):
            recorded = {each.key for each in index.added(changes, start, stop)}
            between = models.FieldCondition(key=KEY, range=models.Range(gt=start, lte=stop))
            pages = self.pages(state, visible(state, between), size=CHUNKS_COMPARED, after=start)
            on_server = {key for keys in pages for key in keys.tolist()}
            lacking += len(recorded - on_server)
            extra += len(on_server - recorded)
        return lacking, extra

    def pages(
        self,
        state: RemoteState,
        where: models.Filter,
        *,
        size: int,
        after: int = 0,
        ask: Callable[[Callable[[QdrantClient], Any]], Any] | None = None,
    ) -> Iterator[ChunkKeys]:
        """The keys after one of all points that meet a condition, ascending, page by page."""
        name = self.collection(state.epoch)
        while True:
            page = {"limit": size, "offset": after + 1, "with_payload": False}
            points, _ = (ask or self.server.ask)(methodcaller("scroll", name, where, **page))
            if points:
                yield np.array([point.id for point in points], np.int64)
            if len(points) < size:
                return
            after = int(points[-1].id)

    def _altered(self, state: RemoteState, points: Sequence[Point]) -> int:
        certain = {point.key: point for point in points if point.certain}
        name, where = self.collection(state.epoch), visible(state, by_keys([*certain]))
        limit = max(1, len(certain))
        stored, _ = self.server.call("scroll", name, where, limit=limit, with_vectors=True)
        checkpoint()
        return sum(not _equals(certain[int(each.id)], each) for each in stored)

    def delete_epoch(self, epoch: str) -> None:
        self.server.call("delete_collection", self.collection(epoch))

    def delete_all(self) -> None:
        for each in self.server.call("get_collections").collections:
            if each.name.startswith(f"{self.name}-"):
                self.delete_epoch(each.name.removeprefix(f"{self.name}-"))
        with suppress(remote.MissingEpochError):
            self.server.call("delete", self._states, [self._id], wait=True)

    def close(self) -> None:
        self.server.close()

    def _shards(self, epoch: str, collections: Iterable[str] = ()) -> frozenset[str]:
        """The shard keys of an epoch, of these collections at least if they have any.

        None unless points are placed by their Lagotto collection.
        """
        known = self._shard_keys.get(epoch)
        if known is None or (known and not known.issuperset(map(shard_key, collections))):
            name = self.collection(epoch)
            info = self.server.call("collection_cluster_info", name)
            keys = (shard.shard_key for shard in (*info.local_shards, *info.remote_shards))
            known = frozenset(map(str, filter(None, keys)))
            self._shard_keys[epoch] = known
        return known

    def _all_shards(self, epoch: str) -> list[int | str] | None:
        """For a write that may concern any chunk: all shard keys, None if there are none."""
        return [*sorted(self._shards(epoch))] or None


_INT8 = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(
        type=models.ScalarType.INT8, quantile=0.99, always_ram=True
    )
)


def condition(where: Condition) -> models.Condition:
    if isinstance(where, Joined):
        parts = [condition(part) for part in where.parts]
        return models.Filter(must=parts) if where.operator == "and" else models.Filter(should=parts)
    path = f"{FIELDS}.{where.name}"
    if isinstance(where, AnyOf):
        return models.FieldCondition(key=path, match=models.MatchAny(any=list(where.keywords)))
    # a step of floats wider at each end: numbers may be rounded on the way
    least, most = _next_to(where.least, -math.inf), _next_to(where.most, math.inf)
    return models.FieldCondition(key=path, range=models.Range(gte=least, lte=most))


def _next_to(number: float | None, direction: float) -> float | None:
    if number is None:
        return None
    further = math.nextafter(number, direction)
    return further if math.isfinite(further) else None


def by_keys(keys: Sequence[int]) -> models.Condition:
    return models.HasIdCondition(has_id=list(keys))


def seen(state: RemoteState, *conditions: models.Condition | None) -> models.Filter | None:
    """What a search asks for; it may give points after the position, which the caller drops."""
    must = [condition for condition in conditions if condition is not None]
    hidden = [_removed_up_to(state.last.seq)] if state.removals else []
    if not must and not hidden:
        return None
    return models.Filter(must=must, must_not=hidden)


def visible(state: RemoteState, *conditions: models.Condition | None) -> models.Filter:
    """Exactly the points that are visible, for counting them."""
    upto = models.Range(lte=float(state.last.seq))
    where = seen(state, models.FieldCondition(key=KEY, range=upto), *conditions)
    assert where is not None
    return where


def _removed_up_to(seq: int) -> models.Condition:
    return models.FieldCondition(key=REMOVED, range=models.Range(lte=float(seq)))


def shard_key(collection: str) -> str:
    """The shard key of a Lagotto collection; never ALL_SHARDS."""
    return f"c:{collection}"


def _selector(shards: Sequence[str] | None) -> grpc.ShardKeySelector | None:
    return RestToGrpc.convert_shard_key_selector([*shards]) if shards else None


def _schema(name: str) -> models.PayloadSchemaType | models.KeywordIndexParams:
    if name == TENANT:
        return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    if name.startswith(("n", "o")):
        return models.PayloadSchemaType.FLOAT
    return models.PayloadSchemaType.KEYWORD


def _stored(point: Point) -> grpc.PointStruct:
    if isinstance(point.vector, np.ndarray):
        dense = grpc.DenseVector(data=point.vector.tolist())
        vectors = grpc.Vectors(vector=grpc.Vector(dense=dense))
    else:
        sparse = grpc.Vector(sparse=sparse_vector(point.vector))
        vectors = grpc.Vectors(vectors=grpc.NamedVectors(vectors={SPARSE: sparse}))
    payload = RestToGrpc.convert_payload(_payload(point))
    return grpc.PointStruct(id=grpc.PointId(num=point.key), vectors=vectors, payload=payload)


def sparse_vector(weights: Mapping[int, float]) -> grpc.SparseVector:
    return grpc.SparseVector(indices=weights, values=weights.values())


def _payload(point: Point) -> dict[str, object]:
    return {KEY: point.key, FIELDS: point.fields, **point.extra}


def _equals(point: Point, stored: models.Record) -> bool:
    payload = {name: value for name, value in (stored.payload or {}).items() if name != REMOVED}
    ours: Any = point.vector
    theirs: Any = stored.vector or ()
    if isinstance(theirs, dict):  # by the name of a sparse vector, which is the only one
        (sparse,) = theirs.values()
        theirs = dict(zip(sparse.indices, sparse.values, strict=True))
    else:
        ours, theirs = dict(enumerate(ours.tolist())), dict(enumerate(theirs))
    if payload != _payload(point) or ours.keys() != theirs.keys():
        return False
    return np.allclose([*ours.values()], [theirs[index] for index in ours], rtol=FLOAT_TOLERANCE)
