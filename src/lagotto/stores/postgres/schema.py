"""The tables of a base in a database: recognising, creating and upgrading them."""

from __future__ import annotations

from uuid import uuid4

import psycopg
from sqlalchemy import Connection, insert, inspect, text
from sqlalchemy.exc import DBAPIError

from lagotto.errors import NotABaseError
from lagotto.indexes.base import text_rules
from lagotto.stores.postgres.errors import EXTENSIONS, missing_extension, old_extension
from lagotto.stores.postgres.locks import acquire_database_lock
from lagotto.stores.postgres.tables import PostgresTables
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.migrations import migrate
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.tables import Counter, Tables
from lagotto.stores.sql.write import start_history
from lagotto.stores.sql.write_settings import put_setting

COUNTERS = ("document", "chunk_set", "change", "segment", "state")
STATISTICS = ("indexed_chunks", "indexed_terms")


def prepare_schema(connection: Connection, place: str) -> None:
    """Create a base, or upgrade an older one; the caller is the only writer."""
    version = schema_version(connection, place)
    if version == SCHEMA_VERSION:
        return
    acquire_database_lock(connection)
    for name in EXTENSIONS:
        _add_extension(connection, name, place)
    if version == 0:
        _create(connection)
    else:
        migrate(connection, version)
    put_setting(connection, "schema_version", str(SCHEMA_VERSION))


def schema_version(connection: Connection, place: str) -> int:
    """The version of the tables, 0 if there are none; raises if they are not ours."""
    own = connection.scalar(
        text("SELECT current_schema()")
    )  # not the other schemas of the search path
    tables = set(inspect(connection).get_table_names(own))
    if not tables & set(Tables.metadata.tables):
        return 0
    version = setting(connection, "schema_version") if "setting" in tables else None
    if version is None:
        raise NotABaseError(
            f"{place} is not a Lagotto base, but has tables of the same names; choose another "
            "database, or another schema with ?options=-csearch_path=NAME,public"
        )
    if int(version) > SCHEMA_VERSION:
        raise NotABaseError(
            f"{place} was made by a newer Lagotto (schema {version}, this one supports "
            f"{SCHEMA_VERSION}); upgrade Lagotto to open it"
        )
    return int(version)


def _create(connection: Connection) -> None:
    for metadata in (Tables.metadata, PostgresTables.metadata):
        metadata.create_all(connection, checkfirst=False)
    # Postings hardly compress, and are read often.
    connection.execute(text("ALTER TABLE posting ALTER COLUMN records SET STORAGE EXTERNAL"))
    rows = [{"name": name, "value": 0} for name in (*COUNTERS, *STATISTICS)]
    connection.execute(insert(Counter), rows)
    start_history(connection)
    put_setting(connection, "base_id", uuid4().hex)
    put_setting(connection, "text_rules", text_rules())


def _add_extension(connection: Connection, name: str, place: str) -> None:
    found = text("SELECT extversion FROM pg_extension WHERE extname = :name")
    version = connection.scalar(found, {"name": name})
    if version is None:
        try:
            # Not in the base's own schema: other bases in the database need it too.
            connection.execute(text(f"CREATE EXTENSION {name} SCHEMA public"))
        except DBAPIError as exc:
            if not isinstance(exc.orig, psycopg.Error):
                raise
            raise missing_extension(place, name, exc.orig) from exc
        version = connection.scalar(found, {"name": name})
    if _numbers(str(version)) < _numbers(EXTENSIONS[name]):
        raise old_extension(place, name, str(version))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
