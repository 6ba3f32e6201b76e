"""Locks of writers: those of different documents work side by side.

Every writer holds a shared lock on the base, and an exclusive lock for each of its documents. All
of them are released at the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text

from lagotto.documents import digest
from lagotto.indexes.base import IndexRole

Name = tuple[str, str]
"""Collection and id of a document."""

BUSY_TIMEOUT = 30.0

MOST_LOCKED = 128
"""A writer of more documents locks the whole base: the server has room for about 6,400 locks."""

WRITER = 0x4C41474F
"""`LAGO`: the class of the advisory lock that all writers share."""

MERGER = 0x4C41474D
"""`LAGM`: the class of the advisory lock that a merger holds."""

REBUILDER = 0x4C414752
"""`LAGR`: the class of the advisory lock that a rebuild holds."""

FOLLOWERS: dict[IndexRole, int] = {"text": 0x4C414754, "vectors": 0x4C414756}
"""`LAGT` and `LAGV`: the classes of the advisory locks that updaters of remote indexes hold."""

PREPARER = 0x4C414750
"""`LAGP`: the advisory lock for what all bases of a database share."""

SCHEMA = "coalesce(current_schema(), 'public')::regnamespace::oid"
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({WRITER}, {SCHEMA}::int)")
_OWN = text(f"SELECT pg_advisory_xact_lock({WRITER}, {SCHEMA}::int)")
_MERGE = text(f"SELECT pg_try_advisory_xact_lock({MERGER}, {SCHEMA}::int)")
# Acquired in the order of their numbers, so that no two writers deadlock.
_LOCK = text(f"""
SELECT count(pg_advisory_xact_lock(lock)) FROM (
    SELECT DISTINCT hashtextextended(name, {SCHEMA}::bigint) AS lock
    FROM unnest(cast(:names AS text[])) AS name ORDER BY lock
) AS ordered
""")


def acquire_locks(
    connection: Connection, names: Collection[Name] | None, *, timeout: float
) -> None:
    """Lock these documents for writing; None locks the whole base."""
    connection.execute(text(f"SET LOCAL lock_timeout = {int(timeout * 1000)}"))
    if names is None or len(names) > MOST_LOCKED:
        connection.execute(_OWN)
        return
    connection.execute(_SHARE)
    if names:
        connection.execute(_LOCK, {"names": [digest(*name) for name in names]})


def acquire_database_lock(connection: Connection) -> None:
    """Lock what all bases of the database share: its extensions."""
    connection.execute(text(f"SELECT pg_advisory_xact_lock({PREPARER}, 0)"))


def may_merge(connection: Connection) -> bool:
    """Try to lock merging until the end of the transaction; False if another merge is running."""
    return bool(connection.scalar(_MERGE))


@contextmanager
def updater_lock(connection: Connection, role: IndexRole) -> Iterator[bool]:
    """Try to lock a remote index for an updater, until the end of the transaction.

    The transaction may see a state from before the lock was released: then the index is ahead of
    it, and the updater leaves it alone.
    """
    acquire = text(f"SELECT pg_try_advisory_xact_lock({FOLLOWERS[role]}, {SCHEMA}::int)")
    yield bool(connection.scalar(acquire))
