"""What an index on a server holds: the payload of a point without a vector in its collection.

The numbers are absolute, so that a range of changes which is applied again after a crash, or by two
processes at once, leads to the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lagotto.indexes.base import START, LogPosition

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
            NUMBER: self.position.number,
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
