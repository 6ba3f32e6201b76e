"""Version 6: the state of the files that `sync` has read."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table, Text

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")


def upgrade(connection: Connection) -> None:
    """Add the table; nothing that is stored changes."""
    files = Table(
        "source_file",
        MetaData(),
        Column("collection", _TEXT, primary_key=True),
        Column("source", _TEXT, primary_key=True),
        Column("path", _TEXT, nullable=False),
        Column("size", _NUMBER, nullable=False),
        Column("mtime_ns", _NUMBER),
        Column("options", _TEXT, nullable=False),
        Column("documents", _TEXT, nullable=False),
    )
    files.create(connection)
