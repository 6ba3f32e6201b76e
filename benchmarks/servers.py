"""The servers of the tests, PostgreSQL, Qdrant and a browser, for benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))  # benchmarks start as scripts, without tests/

from tests.servers.browser import launched
from tests.servers.postgres import PostgresServer
from tests.servers.qdrant import QdrantNode, all_active, cluster_address, qdrant_cluster

__all__ = [
    "PostgresServer",
    "QdrantNode",
    "all_active",
    "cluster_address",
    "launched",
    "qdrant_cluster",
]
