"""Version 8: chunks have the sections that they reach into, and the lines of source code.

Chunks of earlier versions have neither; they get them when they are made again.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

COLUMNS = {"line_first": "INTEGER", "line_last": "INTEGER", "sections": "JSON"}


def upgrade(connection: Connection) -> None:
    """Add the columns."""
    on_server = connection.dialect.name == "postgresql"
    add = "ADD COLUMN IF NOT EXISTS" if on_server else "ADD COLUMN"
    for name, kind in COLUMNS.items():
        column = kind.replace("INTEGER", "BIGINT") if on_server else kind
        connection.execute(text(f"ALTER TABLE chunk {add} {name} {column}"))
