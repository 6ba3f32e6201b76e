"""Whose turn it is to write: writers of different documents work side by side.

Every writer shares the lock of the base, and has one lock for each of its documents. All of them
are let go at the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, text

from lagotto.documents import digest

Name = tuple[str, str]
"""Collection and id of a document."""

BUSY_TIMEOUT = 30.0

MOST_LOCKED = 128
"""Who writes more documents has the base to himself: the server has room for 6,400 locks or so."""

WRITER = 0x4C41474F
"""`LAGO`: the class of the advisory lock that all writers share."""

MERGER = 0x4C41474D
"""`LAGM`: the class of the advisory lock that one merger at a time has."""

REBUILDER = 0x4C414752
"""`LAGR`: the class of the advisory lock that one rebuild at a time has."""

PREPARER = 0x4C414750
"""`LAGP`: the advisory lock for what all bases of a database share."""

_SCHEMA = "coalesce(current_schema(), 'public')::regnamespace::oid"
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({WRITER}, {_SCHEMA}::int)")
_OWN = text(f"SELECT pg_advisory_xact_lock({WRITER}, {_SCHEMA}::int)")
_MERGE = text(f"SELECT pg_try_advisory_xact_lock({MERGER}, {_SCHEMA}::int)")
# In the order of the locks themselves, so that no two writers wait for each other.
_LOCK = text(f"""
SELECT count(pg_advisory_xact_lock(lock)) FROM (
    SELECT DISTINCT hashtextextended(name, {_SCHEMA}::bigint) AS lock
    FROM unnest(cast(:names AS text[])) AS name ORDER BY lock
) AS ordered
""")


def acquire_locks(
    connection: Connection, names: Collection[Name] | None, *, timeout: float
) -> None:
    """Wait until nobody else writes these documents, or, for None, anything at all."""
    connection.execute(text(f"SET LOCAL lock_timeout = {int(timeout * 1000)}"))
    if names is None or len(names) > MOST_LOCKED:
        connection.execute(_OWN)
        return
    connection.execute(_SHARE)
    if names:
        connection.execute(_LOCK, {"names": [digest(*name) for name in names]})


def acquire_database_lock(connection: Connection) -> None:
    """Wait until nobody else changes what all bases of the database share: its extensions."""
    connection.execute(text(f"SELECT pg_advisory_xact_lock({PREPARER}, 0)"))


def may_merge(connection: Connection) -> bool:
    """Whether nobody else merges; then nobody else will until the end of the transaction."""
    return bool(connection.scalar(_MERGE))
