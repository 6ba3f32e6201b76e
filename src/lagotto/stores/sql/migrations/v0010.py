"""Version 10: keys and tasks of servers."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")


def upgrade(connection: Connection) -> None:
    """Add the table; nothing that is stored changes."""
    values = Table(
        "keyed_value",
        MetaData(),
        Column("kind", _TEXT, primary_key=True),
        Column("name", _TEXT, primary_key=True),
        Column("version", _NUMBER, nullable=False),
        Column("value", JSON(), nullable=False),
        Column("data", LargeBinary()),
    )
    values.create(connection)
