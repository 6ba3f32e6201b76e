"""The tables of a base in a file: created, or brought up to date."""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import Connection, insert

from lagotto.indexes.registry import IndexChoice
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.migrations import migrate
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.tables import Counter, Setting, Tables
from lagotto.stores.sql.write import start_history
from lagotto.stores.sql.write_settings import put_setting
from lagotto.stores.sqlite.database import APPLICATION_ID, schema_version
from lagotto.stores.sqlite.fts5_index import is_current
from lagotto.stores.sqlite.fts5_tables import create_fts5, rebuild_fts5

COUNTERS = ("document", "chunk_set", "change", "state")


def prepare_schema(connection: Connection) -> None:
    """Create the tables of a new base, or bring those of an older one up to date."""
    version = schema_version(connection)
    if version == SCHEMA_VERSION:
        return
    if version == 0:
        Tables.metadata.create_all(connection)
        connection.execute(insert(Setting).values(name="base_id", value=uuid4().hex))
        connection.execute(insert(Counter), [{"name": name, "value": 0} for name in COUNTERS])
        start_history(connection)
    else:
        migrate(connection, version)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")


def prepare_indexes(connection: Connection, indexes: IndexChoice) -> None:
    """Store the indexes of a new base; create or rebuild the one inside the file."""
    if setting(connection, "text_index") is None:
        put_setting(connection, "text_index", str(indexes.text))
        put_setting(connection, "vector_index", str(indexes.vectors))
        if indexes.text == "fts5":
            create_fts5(connection)
    if indexes.text == "fts5" and not is_current(connection):
        rebuild_fts5(connection)
