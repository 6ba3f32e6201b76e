"""Where benchmarks make their bases: a temporary file or server, with indexes of its own or not.

A place is named by its record and, after a plus sign, by its indexes: `sqlite`, `postgresql`,
`sqlite+qdrant`, `postgresql+qdrant3`. `qdrant` is one node; `qdrant3` a cluster of three, with
three shards and two replicas of each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lagotto.testing.postgres import PostgresServer

RECORDS = ("sqlite", "postgresql")
CLUSTERS = {"qdrant": 1, "qdrant3": 3}
PLACES = (*RECORDS, *(f"{record}+{engine}" for record in RECORDS for engine in CLUSTERS))


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a new base, and the arguments that choose its indexes."""

    location: str
    indexes: dict[str, Any] = field(default_factory=dict)


@contextmanager
def temporary_place(name: str) -> Iterator[Place]:
    """A place that is gone afterwards."""
    record, _, engine = name.partition("+")
    with ExitStack() as stack:
        location = stack.enter_context(temporary_location(record))
        if not engine:
            yield Place(location)
            return
        from lagotto.testing.qdrant import qdrant_cluster

        size = CLUSTERS[engine]
        first, *_ = stack.enter_context(qdrant_cluster(size))
        options = {"shards": size, "replicas": min(size, 2)} if size > 1 else {}
        address = first.address("benchmark", **options)
        yield Place(location, {"text_index": address, "vector_index": address})


@contextmanager
def temporary_location(record: str) -> Iterator[str]:
    """The location of a new base: a temporary file, or a database of a temporary server."""
    if record == "postgresql":
        with PostgresServer({"shared_buffers": "1GB", "synchronous_commit": "on"}) as server:
            yield server.url()
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "kb.db")
