"""Version 11: the change log tells which documents got other metadata."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def upgrade(connection: Connection) -> None:
    """Add the table; nothing that is stored changes."""
    updates = Table(
        "metadata_update",
        MetaData(),
        Column("sequence", _NUMBER, primary_key=True),
        Column("document_key", _NUMBER, nullable=False),
    )
    updates.create(connection)
