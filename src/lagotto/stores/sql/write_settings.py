"""Writing the settings of a base."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert

from lagotto.stores.base import BaseConfig, Entry
from lagotto.stores.config import agreed_config
from lagotto.stores.sql.settings import CONFIG, read_config
from lagotto.stores.sql.tables import Setting


def put_setting(connection: Connection, name: str, value: str) -> None:
    """Store a setting of the base."""
    connection.execute(delete(Setting).where(Setting.name == name))
    connection.execute(insert(Setting).values(name=name, value=value))


def put_config(connection: Connection, config: BaseConfig) -> None:
    """Store what the chunks and vectors of the base are made with."""
    connection.execute(delete(Setting).where(Setting.name.in_(CONFIG)))
    rows = [
        {"name": name, "value": str(value)}
        for name, value in config.model_dump(exclude_none=True).items()
    ]
    connection.execute(insert(Setting), rows)


def check_config(connection: Connection, entries: Sequence[Entry], place: str) -> None:
    """Raise unless all entries were made as the base's others; the first one decides."""
    first = stored = read_config(connection)
    for entry in entries:
        stored = agreed_config(stored, entry, place=place)
    if stored != first:
        put_config(connection, stored)
