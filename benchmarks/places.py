"""Where benchmarks make their bases: a temporary file or server, with indexes of its own or not.

A place is named by its record and, after a plus sign, by its indexes: `sqlite`, `postgresql`,
`sqlite+qdrant`, `postgresql+qdrant3`. `qdrant` is one node, `qdrant-int8` one with quantised
vectors; `qdrant3` a cluster of three, with three shards and two replicas of each. Servers keep
their files on the disk.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))  # the servers of the tests, in tests/

from tests.servers.postgres import PostgresServer
from tests.servers.qdrant import cluster_address, qdrant_cluster

__all__ = ["PLACES", "Place", "PostgresServer", "qdrant_cluster", "temporary_place"]

RECORDS = ("sqlite", "postgresql")
CLUSTERS: dict[str, tuple[int, dict[str, object]]] = {
    "qdrant": (1, {}),
    "qdrant-int8": (1, {"quantize": "int8"}),
    "qdrant3": (3, {"shards": 3, "replicas": 2}),
}
"""The nodes of each, and the options of its address."""
PROC = Path("/proc")
PLACES = (*RECORDS, *(f"{record}+{engine}" for record in RECORDS for engine in CLUSTERS))


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a new base, the arguments that choose its indexes, and its servers."""

    location: str
    indexes: dict[str, Any] = field(default_factory=dict)
    servers: tuple[int, ...] = ()
    """The ids of their processes."""
    folders: tuple[Path, ...] = ()
    """Where they keep their files."""

    def server_mb(self) -> int:
        """The memory of the servers, mapped files included, shared pages counted once; Linux."""
        return sum(_number(pid, "Pss", "smaps_rollup") for pid in self._processes()) // 1000

    def server_disk_mb(self) -> int:
        """What the servers keep on the disk, without the holes of sparse files."""
        files = (path for folder in self.folders for path in folder.rglob("*") if path.is_file())
        return sum(path.stat().st_blocks * 512 for path in files) // 1_000_000

    def server_seconds(self) -> float:
        """The CPU time of the servers so far."""
        return sum(_cpu_ticks(pid) for pid in self._processes()) / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> set[int]:
        """The servers and the processes that they have started."""
        if not self.servers:
            return set()
        every = (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
        parents = {pid: _number(pid, "PPid", "status") for pid in every}
        found = {*self.servers}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return found


@contextmanager
def temporary_place(name: str) -> Iterator[Place]:
    """A place that is gone afterwards."""
    record, _, engine = name.partition("+")
    with ExitStack() as stack:
        place = stack.enter_context(_temporary_record(record))
        if not engine:
            yield place
            return
        size, options = CLUSTERS[engine]
        nodes = stack.enter_context(qdrant_cluster(size, on_disk=True))
        address = cluster_address(nodes, "benchmark", **options)
        yield Place(
            place.location,
            {"text_index": address, "vector_index": address},
            (*place.servers, *(node.process_id for node in nodes)),
            (*place.folders, *(node.folder / "storage" for node in nodes)),
        )


@contextmanager
def _temporary_record(record: str) -> Iterator[Place]:
    if record == "postgresql":
        with PostgresServer({"shared_buffers": "1GB", "synchronous_commit": "on"}) as server:
            folders = (server.folder / "data",)
            yield Place(server.url(), servers=(server.process_id,), folders=folders)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Place(str(Path(folder) / "kb.db"))


def _number(pid: int, name: str, file: str) -> int:
    """A number that the system has of a process, 0 if that is gone."""
    with suppress(OSError):
        for line in (PROC / str(pid) / file).read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0


def _cpu_ticks(pid: int) -> int:
    """The CPU time of a process, and of those of its children that have ended."""
    with suppress(OSError):
        numbers = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, numbers[11:15]))
    return 0
