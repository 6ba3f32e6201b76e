"""The tables of the full text inside the database file: created, dropped, filled again."""

from __future__ import annotations

from sqlalchemy import Connection

from lagotto.indexes.base import text_rules
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.write_settings import put_setting
from lagotto.stores.sqlite.fts5_index import RULES_SETTING, index_chunks

_CREATE = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_terms USING fts5(terms, tokenize="ascii tokenchars '_'")
"""
_CREATE_VOCABULARY = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunk_vocabulary USING fts5vocab(chunk_terms, row)
"""


def create_fts5(connection: Connection) -> None:
    """Create the tables."""
    connection.exec_driver_sql(_CREATE)
    connection.exec_driver_sql(_CREATE_VOCABULARY)
    put_setting(connection, RULES_SETTING, text_rules())


def drop_fts5(connection: Connection) -> None:
    """Delete the tables, if there are any."""
    for table in ("chunk_vocabulary", "chunk_terms"):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS main.{table}")


def copy_fts5(connection: Connection, *, source: str) -> None:
    """Take over the terms of all chunks from an attached database."""
    connection.exec_driver_sql(
        f"INSERT INTO main.chunk_terms(rowid, terms) SELECT rowid, terms FROM {source}.chunk_terms"
    )


def rebuild_fts5(connection: Connection) -> None:
    """Index all chunks again."""
    connection.exec_driver_sql("DELETE FROM chunk_terms")
    index_chunks(SqlChangeLog(connection), since=0, prepared={})
    put_setting(connection, RULES_SETTING, text_rules())
