"""Names in the service: namespaces of an index, and the document with its state."""

from __future__ import annotations

from lagotto.documents import digest

STATES = "lagotto-states"
"""The namespace with a document per index of Lagotto: its state."""

STATE = "state"
"""The field of the state."""

SHARDS = 16
"""Namespaces of an index. A search in one collection reads, and pays for, one of them; a search in
all collections asks each of them, and the state has a number of each. A namespace per collection
would make both grow with the number of collections."""


def prefix(index: str, epoch: str = "") -> str:
    """What the names of an index's namespaces begin with, or those of one of its epochs."""
    return f"lagotto-{index}-{epoch}-" if epoch else f"lagotto-{index}-"


def namespace(index: str, epoch: str, collection: str) -> str:
    """The namespace of a collection's chunks."""
    return f"{prefix(index, epoch)}{int(digest(collection), 16) % SHARDS:x}"
