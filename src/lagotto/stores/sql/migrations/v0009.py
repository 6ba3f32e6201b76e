"""Version 9: a vector has the time at which it was made.

In a file, vectors of earlier versions have none: they are as old as their chunk set, and to write
it into every row would rewrite all vectors. On a server they get the time of the upgrade, which
rewrites nothing.
"""

from __future__ import annotations

from sqlalchemy import Connection, text


def upgrade(connection: Connection) -> None:
    """Add the column."""
    on_server = connection.dialect.name == "postgresql"
    kind = "TIMESTAMPTZ NOT NULL DEFAULT now()" if on_server else "TEXT"
    connection.execute(text(f"ALTER TABLE embedding ADD COLUMN created_at {kind}"))
