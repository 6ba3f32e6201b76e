"""Version 4: every commit has a random token, so that an index knows its own history of a base."""

from __future__ import annotations

import secrets

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, MetaData, Table, insert, text

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
_LAST = text("SELECT value FROM counter WHERE name = :name")


def upgrade(connection: Connection) -> None:
    """Add the table, with a token for all that was committed so far."""
    history = Table(
        "history",
        MetaData(),
        Column("state", _NUMBER, primary_key=True),
        Column("change", _NUMBER, nullable=False),
        Column("token", _NUMBER, nullable=False),
        Index("history_by_change", "change"),
    )
    history.create(connection)
    state, change = (
        connection.execute(_LAST, {"name": name}).scalar_one() for name in ("state", "change")
    )
    row = {"state": state, "change": change, "token": secrets.randbits(62) + 1}
    connection.execute(insert(history).values(row))
