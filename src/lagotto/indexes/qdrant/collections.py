"""The collections of an index on a server: what they hold, and which one is current."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from qdrant_client import QdrantClient, models

from lagotto.indexes.base import START, LogPosition
from lagotto.indexes.qdrant.address import QdrantAddress
from lagotto.indexes.qdrant.client import ExistsError, MissingCollectionError, QdrantServer

STATE_POINT = 0
"""The id of the state; chunks have keys from 1 on."""

NUMBER = "number"


@dataclass(frozen=True, slots=True)
class CollectionState:
    """The state of one collection, which is made for one history of a base.

    `chunks` are visible at `position`; they have `length` terms together, the longest of all times
    `longest`. Weights were computed with `mean`. `fields` are the payload fields for filters,
    complete since the collection was made. `removals` says whether points are marked as removed,
    `by_collection` whether each Lagotto collection has shards of its own, by one of `shard_keys`.
    """

    collection: str
    base_id: str
    position: LogPosition = START
    chunks: int = 0
    length: int = 0
    longest: int = 0
    mean: float = 1.0
    removals: bool = False
    fields: frozenset[str] = frozenset()
    by_collection: bool = False
    shard_keys: frozenset[str] = frozenset()

    @property
    def mean_length(self) -> float:
        """How many terms a chunk has on average, above 0."""
        return self.length / max(1, self.chunks) or 1.0

    @property
    def all_shards(self) -> list[int | str] | None:
        """For a write that may concern any chunk: all shard keys, None if there are none."""
        return [*sorted(self.shard_keys)] or None

    def payload(self) -> dict[str, object]:
        """As it is stored; a token may have more digits than a server's numbers."""
        return {
            "collection": self.collection,
            "base": self.base_id,
            NUMBER: self.position.seq,
            "token": str(self.position.token),
            "chunks": self.chunks,
            "sum": self.length,
            "longest": self.longest,
            "mean": self.mean,
            "removals": self.removals,
            "fields": sorted(self.fields),
            "by_collection": self.by_collection,
            "shard_keys": sorted(self.shard_keys),
        }

    @classmethod
    def read(cls, payload: Mapping[str, object]) -> CollectionState:
        """The state as it was stored."""
        return cls(
            collection=str(payload["collection"]),
            base_id=str(payload["base"]),
            position=LogPosition(_int(payload[NUMBER]), int(str(payload["token"]))),
            chunks=_int(payload["chunks"]),
            length=_int(payload["sum"]),
            longest=_int(payload["longest"]),
            mean=float(str(payload["mean"])),
            removals=bool(payload["removals"]),
            fields=_names(payload["fields"]),
            by_collection=bool(payload["by_collection"]),
            shard_keys=_names(payload["shard_keys"]),
        )


def _int(value: object) -> int:
    return int(str(value))


def _names(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()


KEY, REMOVED = "key", "removed"
"""Payload names of a point: its chunk's key, and the change that removed it."""

STATE_SHARDS = "state"
"""The shard key of the state, where points are placed by their Lagotto collection."""

ABANDONED = 600.0
"""Seconds without a change after which a collection that is not current may be deleted."""

ORDERING = models.WriteOrdering.MEDIUM


class Collections:
    """The collections of one index, which share an alias and the beginning of their names."""

    def __init__(self, server: QdrantServer, *, name: str, base_id: str) -> None:
        self.server = server
        self.alias = server.address.name(name)
        self._base_id = base_id
        self._seen: dict[str, tuple[CollectionState | None, float]] = {}

    def current(self, *, briefly: bool = False) -> CollectionState | None:
        """The state of the current collection, None if there is none."""
        return self.state_of(self.alias, briefly=briefly)

    def state_of(self, collection: str, *, briefly: bool = False) -> CollectionState | None:
        """The state of a collection or alias, None if it is gone or not ours."""
        ask = self.server.ask_briefly if briefly else self.server.ask
        try:
            found = ask(lambda client: client.retrieve(collection, [STATE_POINT]))
        except MissingCollectionError:
            return None
        payload = found[0].payload if found else None
        state = CollectionState.read(payload) if payload else None
        return state if state is not None and state.base_id == self._base_id else None

    def _has_alias(self) -> bool:
        aliases = self.server.ask(lambda client: client.get_aliases()).aliases
        return any(each.alias_name == self.alias for each in aliases)

    def create(
        self,
        *,
        vectors: models.VectorParams | None = None,
        sparse: dict[str, models.SparseVectorParams] | None = None,
        keywords: Sequence[str] = (),
        mean: float = 1.0,
    ) -> CollectionState:
        """A new, empty collection, not current yet."""
        name = f"{self.alias}-{secrets.token_hex(6)}"
        address = self.server.address
        by_collection = address.sharding == "collection"
        self._make(
            lambda client: client.create_collection(
                name,
                vectors_config=vectors or {},
                sparse_vectors_config=sparse,
                shard_number=address.shards,
                replication_factor=address.replicas,
                write_consistency_factor=address.write_consistency,
                sharding_method=models.ShardingMethod.CUSTOM if by_collection else None,
                quantization_config=_quantization(address) if vectors else None,
            )
        )
        if by_collection:  # without any shards nothing can be indexed
            self.add_shards(name, STATE_SHARDS)
        self.index_field(name, KEY, models.PayloadSchemaType.INTEGER)
        for keyword in keywords:
            self.index_field(name, keyword, models.PayloadSchemaType.KEYWORD)
        state = CollectionState(name, self._base_id, mean=mean, by_collection=by_collection)
        self._put_state(state)
        return state

    def index_field(
        self,
        collection: str,
        name: str,
        schema: models.PayloadSchemaType | models.KeywordIndexParams,
    ) -> None:
        """Index a payload field before the next write, so that conditions on it are quick."""
        self.server.ask(
            lambda client: client.create_payload_index(collection, name, schema, wait=False)
        )

    def add_shards(self, collection: str, key: str) -> None:
        """Make shards for a shard key, unless another process has made them."""
        known = self.server.ask(lambda client: client.collection_cluster_info(collection))
        if any(shard.shard_key == key for shard in known.local_shards + known.remote_shards):
            return
        self._make(lambda client: client.create_shard_key(collection, key))

    def _make(self, request: Callable[[QdrantClient], bool]) -> None:
        """Make something that an attempt may have made which was not answered in time."""
        with suppress(ExistsError):
            self.server.ask(request)

    def _put_state(self, state: CollectionState) -> None:
        point = models.PointStruct(id=STATE_POINT, vector={}, payload=state.payload())
        self.server.ask(
            lambda client: client.upsert(
                state.collection,
                [point],
                wait=True,
                ordering=ORDERING,
                shard_key_selector=STATE_SHARDS if state.by_collection else None,
            )
        )

    def advance(self, former: CollectionState, state: CollectionState) -> CollectionState | None:
        """Write the state if it is still `former`; the state that the collection has then."""
        unchanged = models.Filter(
            must=[
                models.HasIdCondition(has_id=[STATE_POINT]),
                models.FieldCondition(
                    key=NUMBER, match=models.MatchValue(value=former.position.seq)
                ),
            ]
        )
        self.server.ask(
            lambda client: client.set_payload(
                former.collection,
                state.payload(),
                points=unchanged,
                wait=True,
                ordering=ORDERING,
                shard_key_selector=STATE_SHARDS if state.by_collection else None,
            )
        )
        return self.state_of(former.collection)

    def make_current(self, state: CollectionState) -> None:
        """Move the alias to a collection, in one step."""
        created = models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=state.collection, alias_name=self.alias)
        )
        operations: list[models.AliasOperations] = [created]
        if self._has_alias():
            operations.insert(0, self._without_alias())
        self.server.ask(lambda client: client.update_collection_aliases(operations))

    def forget_current(self) -> None:
        """Remove the alias, so that there is no current collection."""
        if self._has_alias():
            operation = self._without_alias()
            self.server.ask(lambda client: client.update_collection_aliases([operation]))

    def _without_alias(self) -> models.DeleteAliasOperation:
        return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.alias))

    def delete_abandoned(self) -> None:
        """Delete collections of ours that are not current and that nobody fills any more."""
        now, current = time.monotonic(), self.current()
        for name in self._own_names():
            if current is not None and name == current.collection:
                continue
            state = self.state_of(name)
            known, since = self._seen.setdefault(name, (state, now))
            if known != state:
                self._seen[name] = state, now
            elif state is not None and now - since >= ABANDONED:
                self._delete(name)

    def delete_all(self) -> None:
        """Delete every collection of this index."""
        names = [name for name in self._own_names() if self.state_of(name) is not None]
        self.forget_current()
        for name in names:
            self._delete(name)

    def _own_names(self) -> list[str]:
        found = self.server.ask(lambda client: client.get_collections()).collections
        return [each.name for each in found if each.name.startswith(f"{self.alias}-")]

    def _delete(self, name: str) -> None:
        self.server.ask(lambda client: client.delete_collection(name))
        self._seen.pop(name, None)


def _quantization(address: QdrantAddress) -> models.QuantizationConfig | None:
    if address.quantize == "none":
        return None
    scalar = models.ScalarQuantizationConfig(
        type=models.ScalarType.INT8, quantile=0.99, always_ram=True
    )
    return models.ScalarQuantization(scalar=scalar)
